// The records of text files, one at a time (shade/data/rows.h: formats; shade/data/records.h: fields).
//
// Files are untrusted: text must be UTF-8, formats are read strictly, and a fault names the file and the line or row.
#pragma once

#include <functional>

#include "shade/data/chat/chat_template.h"
#include "shade/data/row.h"
#include "shade/data/rows.h"

namespace shade::data {

// Which fields of a row are a record's text, its label and its user.
//
// A record is one of
//   text                  one field, all of it counted in the loss
//   prompt, completion    two fields, the second one counted
//   messages              a list of {"role", "content"}, made text by the model's chat template
//
// Fields are named by a user or found by conventional names. Which ones are found is decided once, by the first row
// that has fields, and then demanded of every row: two data sets that differ in one record and are both read have the
// same layout. A row that has two of the layouts is refused until a user names one.

// As a user states them. Empty: found by conventional names; a user's field never is.
struct FieldNames {
  std::string text, prompt, completion, messages, label, user;

  std::string key() const;  // different for different names, whatever is in them
};

class RecordFields {
 public:
  // By the first row. Throws UsageError for names that don't go together, io::FormatError (without the row's place) if
  // no layout or several are there.
  RecordFields(const FieldNames& names, const Row& row);

  // The row's texts are moved. Throws io::FormatError or UsageError, without the row's place: a field is missing, null
  // or of another type; the template refuses the conversation. A template is needed for messages alone.
  Record record(Row& row, const ChatTemplate* chat_template) const;

  bool has_messages() const { return !messages_.empty(); }
  std::vector<std::string> names() const;  // of all fields that are read
  std::string describe() const;            // "'prompt' + 'completion', label 'topic', user 'author'"

 private:
  struct Word {
    std::string name;
    bool required = false;  // a user named it
  };

  void choose_layout(const FieldNames& names, const Row& row);

  std::vector<std::string> texts_;  // 1: a text; 2: prompt and completion; 0: messages
  std::string messages_;
  Word label_, user_;
};

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
