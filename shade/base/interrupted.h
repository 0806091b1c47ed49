// System calls that a signal interrupted are made again: no error of the file.
#pragma once

#include <cerrno>

namespace shade {

template <class Call>
auto uninterrupted(Call&& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

}  // namespace shade
