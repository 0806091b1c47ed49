// Untrusted JSON, read as a stream of values and refused where an ordinary parser looks away.
//
// nlohmann's parser keeps the last of two equal keys, skips a byte order mark, takes a NUL for the end of the text and
// nests as deep as it is told to. Two programs that disagree about such a text see two different files. All of that is
// a FormatError here. Cost: one pass; memory for the visitor's own data, one copy of the keys of the open objects and
// the longest string.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace shade::io {

inline constexpr int kMaxJsonDepth = 32;

enum class JsonKind { null, boolean, integer, negative, real, string, array, object };

struct JsonValue {
  JsonKind kind = JsonKind::null;
  bool boolean = false;     // of JsonKind::boolean
  uint64_t integer = 0;     // of JsonKind::integer: whole, no sign, below 2^64; other numbers come without their value
  std::string_view string;  // of JsonKind::string; valid during the call

  std::string describe() const;  // "a string", for "expected ..., found a string"
};

// Called in the order of the text. May throw to stop.
class JsonVisitor {
 public:
  virtual ~JsonVisitor() = default;
  virtual void key(std::string_view name) = 0;     // the next value is this key's
  virtual void value(const JsonValue& value) = 0;  // arrays and objects when they open
  virtual void close() = 0;                        // the innermost open array or object
};

// `what` names the text in messages: "header".
void read_strict_json(std::string_view json, std::string_view what, JsonVisitor& visitor);

// Text from untrusted files: whether it is UTF-8, and how it is shown in a message.

// The offset of the first byte that is part of no UTF-8 character (RFC 3629: no overlong forms, no surrogates).
std::optional<size_t> first_not_utf8(std::string_view words);

// 'words', for a message: control characters and broken UTF-8 as \xNN, so that a name can't move the cursor, and not
// more than 48 bytes of it, so that a name of megabytes doesn't become a message of megabytes.
std::string quote(std::string_view words);

}  // namespace shade::io
