// What is in a data set of texts, counted: lengths, and records by label and by user.
#pragma once

#include "shade/data/text_dataset.h"

namespace shade::data {

struct LengthBucket {
  int64_t first = 0, last = 0;  // tokens, both included
  int64_t records = 0;
};

struct RecordsPerUser {
  int64_t users = 0, median = 0, most = 0;
};

struct Statistics {
  std::vector<LengthBucket> lengths;  // by powers of two from 1 to 16, none empty at the ends
  double mean_length = 0;             // tokens, with those set around a record
  int64_t longest = 0;
  int64_t cut = 0;              // records that are longer than T
  std::vector<int64_t> labels;  // records of each of the store's classes
  int64_t unlabelled = 0;
  std::optional<RecordsPerUser> users;  // if a field of users was named
};

// Reads where all records end, and whose they are: 16 bytes per record, and 16 more if they have users.
Statistics count_records(const TextDataset& dataset);

}  // namespace shade::data
