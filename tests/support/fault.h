// The message of the error (a UsageError if nothing else is said) that an action throws: errors are part of the
// interface and are compared word by word.
#pragma once

#include <functional>
#include <string>

#include "shade/base/error.h"

namespace shade::test {

template <class Fault = UsageError>
std::string fault(const std::function<void()>& action) {
  try {
    action();
  } catch (const Fault& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace shade::test
