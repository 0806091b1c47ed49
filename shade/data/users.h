// Whose records are whose: the users of a data set, for runs that protect a user with all records.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shade/data/keyed_bits.h"

namespace shade::data {

class Dataset;

// 128 bits that follow from a user's name alone, by a collision-resistant hash.
using UserId = std::array<uint64_t, 2>;
// Returns the hash of a user's name: equal for equal names, in every data set.
UserId user_id(std::string_view name);

// Some records of a data set by user. Users are numbered in the order of their ids, so nothing of a user follows from
// the order of the files. Memory: 8 bytes per record and 24 per user; while it is made, 32 per record.
class Users {
 public:
  // Throws UsageError if a record has no user (Dataset::user_of).
  Users(const Dataset& data, std::span<const int64_t> records);

  int64_t size() const { return std::ssize(ids_); }  // number of users
  // Id of a user by number, from 0 to size() - 1.
  const UserId& id(int64_t user) const { return ids_.at(static_cast<size_t>(user)); }
  std::span<const int64_t> records_of(int64_t user) const;  // ascending

  std::string fingerprint() const;  // of who has which records

  // The records that a user brings to a step, ascending: all of them or, of more than `most`, a uniformly random part
  // of that size. It follows from the key, the step and the user's id alone: other users don't change it.
  std::vector<int64_t> draw(int64_t user, int64_t most, const SampleKey& key, int64_t step) const;

 private:
  std::vector<UserId> ids_;
  std::vector<int64_t> records_;  // by user
  std::vector<int64_t> ends_;     // of each user's records
};

}  // namespace shade::data
