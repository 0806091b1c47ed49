// Records that a program has in memory, as tensors by name.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "shade/data/dataset.h"

namespace shade::data {

// Row r of every tensor is record r; a batch has them in nn::Batch::fields, under the same names. The tensors are
// copied: records that changed between two starts of a run would be other records, under noise that was made before.
class InMemory final : public Dataset {
 public:
  // What belongs to records beside their fields.
  struct Options {
    std::vector<std::string> users{};    // by record: whose it is; empty: the records name no users
    std::vector<std::string> classes{};  // what the labels are numbers of; empty: they are no classes
  };
  // Throws UsageError: no field, fields of different numbers of rows, or users of another number than records.
  InMemory(std::map<std::string, at::Tensor> fields, Options options);
  // Records that name no users and no classes.
  explicit InMemory(std::map<std::string, at::Tensor> fields) : InMemory(std::move(fields), Options()) {}

  int64_t size() const override { return size_; }
  nn::Batch batch(std::span<const int64_t> records) const override;
  std::string describe() const override;
  std::string fingerprint() const override { return fingerprint_; }
  uint64_t content_of(int64_t record) const override;
  std::optional<UserId> user_of(int64_t record) const override;
  std::vector<std::string> classes() const override { return options_.classes; }

 private:
  std::map<std::string, at::Tensor> fields_;
  Options options_;
  int64_t size_ = 0;
  std::string fingerprint_;
};

}  // namespace shade::data
