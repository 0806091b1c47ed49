// What training reads: records by number, and batches of them.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "shade/nn/batch.h"

namespace shade::data {

// Records by number. A record is the privacy unit: one text, one labelled text, one image. Const methods are
// thread-safe.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  virtual nn::Batch batch(std::span<const int64_t> records) const = 0;  // none: a batch of 0 samples, the right shapes
  virtual std::string describe() const = 0;
};

}  // namespace shade::data
