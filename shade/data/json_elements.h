// The elements of a JSON file that is one value or an array of values, cut out one at a time.
//
// Only brackets and strings are looked at: whether an element is JSON is for its reader to say. What lies between the
// elements is checked here.
#pragma once

#include "shade/data/block_reader.h"

namespace shade::data {

class JsonElements {
 public:
  // Elements larger than `limit` are a FormatError that says `advice`.
  JsonElements(BlockReader& in, Bytes limit, std::string_view advice) : in_(in), limit_(limit), advice_(advice) {}

  bool next(std::string& json);           // false at the end of the file
  int64_t line() const { return line_; }  // of the last element's first byte

 private:
  char skip_space();  // the next byte that is not space, not taken; 0 at the end
  void cut(std::string& json);

  BlockReader& in_;
  Bytes limit_;
  std::string_view advice_;
  bool array_ = false;
  bool begun_ = false;
  int64_t count_ = 0;
  int64_t line_ = 1;
};

}  // namespace shade::data
