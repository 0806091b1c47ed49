// Fields of a folder's rows that no record is made of, and which of them may say whose record it is: an epsilon for one
// record promises less than it seems where a person has many.
#pragma once

#include <span>

#include "shade/data/records.h"

namespace shade::data {

// By its words: "user_id", "authorEmail", "customer".
bool is_called_like_a_user(std::string_view name);

struct UnusedField {
  std::string name;
  int64_t rows = 0, values = 0;  // that have a string or a whole number, and how many different ones these are

  // By its name, or because values are shared by a few rows each, as a person's are. Classes are shared by many.
  bool may_be_a_user() const;
};

// Of the first `rows` rows of the files.
std::vector<UnusedField> find_unused_fields(std::span<const TextFile> files, const RecordOptions& options,
                                            int64_t rows = 2000);

}  // namespace shade::data
