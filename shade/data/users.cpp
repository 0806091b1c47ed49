#include "shade/data/users.h"

#include <algorithm>
#include <cstring>

#include "shade/base/error.h"
#include "shade/base/terminal.h"
#include "shade/data/dataset.h"
#include "shade/hash/digest.h"

namespace shade::data {

UserId user_id(std::string_view name) {
  const auto digest = hash::digest_of(name);
  UserId out;
  std::memcpy(out.data(), digest.data(), sizeof out);
  return out;
}

Users::Users(const Dataset& data, std::span<const int64_t> records) {
  std::vector<std::pair<UserId, int64_t>> all;
  all.reserve(records.size());
  Progress progress("finding the records of each user", std::ssize(records));
  for (const auto record : records) {
    const auto user = data.user_of(record);
    SHADE_REQUIRE(user, "record ", record, " of the data set (", data.describe(),
                  ") has no user; name the field that has it (--user-field)");
    all.emplace_back(*user, record);
    progress.advance();
  }
  std::sort(all.begin(), all.end());
  records_.reserve(all.size());
  for (const auto& [id, record] : all) {
    if (ids_.empty() || ids_.back() != id) {
      ids_.push_back(id);
      ends_.push_back(std::ssize(records_));
    }
    records_.push_back(record);
    ends_.back() = std::ssize(records_);
  }
}

std::span<const int64_t> Users::records_of(int64_t user) const {
  const auto at = static_cast<size_t>(user);
  const auto begin = at == 0 ? 0 : ends_.at(at - 1);
  return std::span(records_).subspan(static_cast<size_t>(begin), static_cast<size_t>(ends_.at(at) - begin));
}

std::string Users::fingerprint() const {
  hash::Hasher hasher;
  hasher.add(std::as_bytes(std::span(ids_))).add(std::as_bytes(std::span(ends_)));
  return hash::to_hex(hasher.add(std::as_bytes(std::span(records_))).digest());
}

std::vector<int64_t> Users::draw(int64_t user, int64_t most, const SampleKey& key, int64_t step) const {
  const auto records = records_of(user);
  std::vector<int64_t> out(records.begin(), records.end());
  if (std::ssize(out) <= most) return out;
  const std::array<uint64_t, 3> who{static_cast<uint64_t>(step), id(user)[0], id(user)[1]};
  uint64_t stream = 0;
  const auto digest = hash::digest_of(std::as_bytes(std::span(who)));
  std::memcpy(&stream, digest.data(), sizeof stream);
  KeyedBits bits(key, KeyedBits::Purpose::records_of_user, stream);
  for (size_t i = 0; i < static_cast<size_t>(most); ++i) std::swap(out[i], out[i + bits.below(out.size() - i)]);
  out.resize(static_cast<size_t>(most));
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace shade::data
