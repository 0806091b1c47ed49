#include "shade/data/json_elements.h"

#include "shade/base/error.h"

namespace shade::data {
namespace {

bool is_json_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// Follows an element byte by byte and knows when it is over.
class Extent {
 public:
  // True if `c` still belongs to the element.
  bool feed(char c) {
    if (in_string_) {
      if (escaped_) {
        escaped_ = false;
      } else if (c == '\\') {
        escaped_ = true;
      } else if (c == '"') {
        in_string_ = false;
      }
      return true;
    }
    if (depth_ == 0 && (c == ',' || c == ']')) return false;
    if (c == '"') in_string_ = true;
    if (c == '{' || c == '[') ++depth_;
    if (c == '}' || c == ']') --depth_;
    return true;
  }

 private:
  int64_t depth_ = 0;
  bool in_string_ = false, escaped_ = false;
};

}  // namespace

char JsonElements::skip_space() {
  for (auto part = in_.rest(); !part.empty(); part = in_.rest()) {
    size_t spaces = 0;
    while (spaces < part.size() && is_json_space(part[spaces])) ++spaces;
    in_.take(spaces);
    if (spaces < part.size()) return part[spaces];
  }
  return 0;
}

void JsonElements::cut(std::string& json) {
  json.clear();
  Extent extent;
  for (auto part = in_.rest(); !part.empty(); part = in_.rest()) {
    size_t length = 0;
    while (length < part.size() && (extent.feed(part[length]) || !array_)) ++length;
    json.append(part.substr(0, length));
    if (json.size() > static_cast<size_t>(limit_.count))
      fail_at(in_.path(), line_, text("a record of more than ", to_string(limit_), "; ", advice_));
    const bool over = length < part.size();
    in_.take(length);
    if (over) return;
  }
}

bool JsonElements::next(std::string& json) {
  auto c = skip_space();
  if (!begun_) {
    begun_ = true;
    if (c == 0) fail_at(in_.path(), in_.line(), "the file is empty; expected an object or an array of objects");
    if (c == '[') {
      array_ = true;
      in_.take(1);
      c = skip_space();
    } else {
      line_ = in_.line();
      cut(json);
      return true;
    }
  }
  if (!array_) return false;
  if (c == ']') {
    in_.take(1);
    array_ = false;
    if (skip_space() != 0) fail_at(in_.path(), in_.line(), "there is more after the array's end");
    return false;
  }
  if (c == 0) fail_at(in_.path(), in_.line(), "the array has no end; is the file complete?");
  if (count_++ > 0) {  // an element ends before ',' or ']' only
    in_.take(1);
    skip_space();
  }
  line_ = in_.line();
  cut(json);
  return true;
}

}  // namespace shade::data
