// What training reads: records by number, and batches of them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shade/base/names.h"
#include "shade/data/users.h"
#include "shade/nn/batch.h"

namespace shade::data {

// What a sample is: a record, or a window of tokens cut from all texts in a row. Where windows overlap, two of them may
// hold the same token, and no epsilon holds for one of them.
enum class SampleUnit { record, window, overlapping_window };
inline std::span<const Name<SampleUnit>> names_of(SampleUnit) {
  static constexpr Name<SampleUnit> kNames[] = {{"record", SampleUnit::record},
                                                {"window", SampleUnit::window},
                                                {"overlapping_window", SampleUnit::overlapping_window}};
  return kNames;
}

// Records by number: one text, one labelled text, one image. What is called a record here is what one step clips, and
// so the privacy unit, unless the run protects users: then that is all records of a user. Const methods are
// thread-safe.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;  // number of records, which are numbered from 0
  // As evaluation reads them, always the same. No records: a batch of 0 samples, the right shapes.
  virtual nn::Batch batch(std::span<const int64_t> records) const = 0;
  // One line for logs and messages: "1000 images of 10 classes, 32 x 32".
  virtual std::string describe() const = 0;
  // Of what batches are made of: other contents, labels or options have another one, whatever the files' names, sizes
  // and times are. May read all of the data.
  virtual std::string fingerprint() const = 0;
  // A hash of what the record holds, whatever its number and whatever other records there are: what must not change
  // when another record is added is derived from it. May read the record.
  virtual uint64_t content_of(int64_t record) const = 0;

  // What an epsilon of a job on it is for; a private job compares it with its event.
  virtual SampleUnit unit() const { return SampleUnit::record; }

  // Whose record it is, where the data says so; none: it doesn't. What a run that protects users groups records by.
  virtual std::optional<UserId> user_of(int64_t /*record*/) const { return std::nullopt; }

  // What labels are numbers of, in order; none if they are no classes.
  virtual std::vector<std::string> classes() const { return {}; }

  // As training reads them. For data with chance of its own (noise, dropped labels): another draw for another number,
  // say the step, the same for the same on every rank; one draw per record. Other data has none.
  virtual nn::Batch batch_at(std::span<const int64_t> records, uint64_t /*draw*/) const { return batch(records); }

  // Of records that differ in length, as texts do: the positions that every sample of batch() has, padding with them.
  // It follows from options and never from the records, or one record would change the shapes of all others. 0: no
  // sample is padded, and neither of the next two is called.
  virtual int64_t max_length() const { return 0; }
  // Positions of a record's sample without padding: from 1 to max_length().
  virtual int64_t length_of(int64_t /*record*/) const { return max_length(); }
  // batch() with samples of `length` positions instead. Throws UsageError if one of the records is longer.
  virtual nn::Batch padded_batch(std::span<const int64_t> records, int64_t /*length*/) const { return batch(records); }
};

}  // namespace shade::data
