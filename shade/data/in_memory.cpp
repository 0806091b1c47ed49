#include "shade/data/in_memory.h"

#include <ATen/ATen.h>

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/hash/content_hash.h"
#include "shade/hash/digest.h"
#include "shade/io/dtype.h"

namespace shade::data {
namespace {

// "label int64", "ids int64 x 64"
std::string shape_of(const std::string& name, const at::Tensor& tensor) {
  auto out = text(name, ' ', c10::toString(tensor.scalar_type()));
  for (int64_t i = 1; i < tensor.dim(); ++i) out += text(" x ", tensor.size(i));
  return out;
}

}  // namespace

InMemory::InMemory(std::map<std::string, at::Tensor> fields, Options options)
    : fields_(std::move(fields)), options_(std::move(options)) {
  SHADE_REQUIRE(!fields_.empty(), "records in memory without a field; expected tensors by name");
  hash::Hasher hasher;
  for (auto& [name, tensor] : fields_) {
    SHADE_REQUIRE(tensor.defined() && tensor.dim() > 0, "field '", name,
                  "' has no rows; expected a tensor whose first dimension is the record");
    if (size_ == 0) size_ = tensor.size(0);
    SHADE_REQUIRE(tensor.size(0) == size_, "field '", name, "' has ", tensor.size(0), " rows, and '",
                  fields_.begin()->first, "' has ", size_, "; expected one for each record in every field");
    tensor = tensor.detach().cpu().contiguous().clone();
    hasher.add(shape_of(name, tensor)).add("\n").add(io::bytes_of(tensor));
  }
  SHADE_REQUIRE(size_ > 0, "records in memory, and there are none");
  SHADE_REQUIRE(options_.users.empty() || std::ssize(options_.users) == size_, options_.users.size(),
                " names of users for ", size_, " records; expected one for each");
  for (const auto& names : {options_.users, options_.classes})
    for (const auto& name : names) hasher.add(text(name.size(), ' ')).add(name);
  fingerprint_ = hash::to_hex(hasher.digest());
}

nn::Batch InMemory::batch(std::span<const int64_t> records) const {
  const auto numbers = at::tensor(at::ArrayRef<int64_t>(records.data(), records.size()), at::kLong);
  nn::Batch out;
  for (const auto& [name, tensor] : fields_) out.fields[name] = tensor.index_select(0, numbers);
  return out;
}

std::string InMemory::describe() const {
  std::vector<std::string> all;
  for (const auto& [name, tensor] : fields_) all.push_back(shape_of(name, tensor));
  return text(size_, " records in memory (", join(all, ", "), ")");
}

uint64_t InMemory::content_of(int64_t record) const {
  hash::Hasher hasher;
  for (const auto& [name, tensor] : fields_) hasher.add(io::bytes_of(tensor.select(0, record)));
  const auto digest = hasher.digest();
  return hash::content_hash(std::as_bytes(std::span(digest)))[0];
}

std::optional<UserId> InMemory::user_of(int64_t record) const {
  if (options_.users.empty()) return std::nullopt;
  return user_id(options_.users[static_cast<size_t>(record)]);
}

}  // namespace shade::data
