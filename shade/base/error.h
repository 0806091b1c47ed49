// Errors, and the text they carry. docs/errors.md says which kind is thrown where.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace shade {

// Something went wrong that is not the user's words: a file, a peer, the machine, or a fault of ours. Exit status 1.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The user can mend it by changing an option, a key or a file. Exit status 2.
class UsageError : public Error {
 public:
  using Error::Error;
};

// text("rank ", 3, " of ", 4) == "rank 3 of 4"
template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (void)(out << ... << parts);
  return std::move(out).str();
}

namespace detail {
[[noreturn]] void throw_internal(const char* file, int line, const char* condition, const std::string& what);
}

}  // namespace shade

// A law of our own code. Its failure is a bug of ours: the message carries the place and the condition.
#define SHADE_CHECK(condition, ...)                                                                \
  do {                                                                                             \
    if (!(condition)) [[unlikely]]                                                                 \
      ::shade::detail::throw_internal(__FILE__, __LINE__, #condition, ::shade::text(__VA_ARGS__)); \
  } while (false)

// What the caller must provide. Its failure says what was expected, what was found and what to do.
#define SHADE_REQUIRE(condition, ...)                        \
  do {                                                       \
    if (!(condition)) [[unlikely]]                           \
      throw ::shade::UsageError(::shade::text(__VA_ARGS__)); \
  } while (false)
