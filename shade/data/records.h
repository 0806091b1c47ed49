// The records of text files, one at a time (shade/data/rows.h: formats; shade/data/record_fields.h: fields).
//
// Files are untrusted: text must be UTF-8, formats are read strictly, and a fault names the file and the line or row.
#pragma once

#include <functional>

#include "shade/data/record_fields.h"
#include "shade/data/rows.h"

namespace shade::data {

struct RecordOptions {
  TextUnit unit = TextUnit::file;
  FieldNames fields{};
  const ChatTemplate* chat_template = nullptr;  // for messages
};

// Records of several files with one layout, which the first row decides.
class Records {
 public:
  explicit Records(RecordOptions options) : options_(std::move(options)) {}

  // Called in the order of the file, also for records whose text is empty, with the bytes of the file that were read;
  // false stops.
  using Visitor = std::function<bool(Record&&, uint64_t read)>;

  // False if the visitor stopped. Throws io::FormatError naming the file and the place in it.
  bool read(const TextFile& file, const Visitor& visitor);

  const std::optional<RecordFields>& fields() const { return fields_; }  // once a row was read

 private:
  RecordOptions options_;
  std::optional<RecordFields> fields_;
};

}  // namespace shade::data
