// The message of the UsageError that an action throws: errors are part of the interface and are compared word by word.
#pragma once

#include <functional>
#include <string>

#include "shade/base/error.h"

namespace shade::test {

inline std::string fault(const std::function<void()>& action) {
  try {
    action();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace shade::test
