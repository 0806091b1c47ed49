// A store whose values only ranks of the job can read and write.
//
// Values are sealed with the job secret under their full key, so a value that was written by somebody else, or moved
// from another key or another start of the world, doesn't open: reading it throws SealBroken. Keys themselves are in
// clear. Groups, Gloo and NCCL get this store as well: addresses and ids are sealed like our own values.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "shade/comm/errors.h"
#include "shade/comm/group.h"
#include "shade/comm/job/secret.h"

namespace shade::comm {

class SealedStore final : public c10d::Store {
 public:
  SealedStore(c10::intrusive_ptr<c10d::Store> store, Secret secret);

  c10::intrusive_ptr<c10d::Store> clone() override;

  using c10d::Store::set;
  void set(const std::string& key, const std::vector<uint8_t>& value) override;
  std::vector<uint8_t> get(const std::string& key) override;
  void multiSet(const std::vector<std::string>& keys, const std::vector<std::vector<uint8_t>>& values) override;
  std::vector<std::vector<uint8_t>> multiGet(const std::vector<std::string>& keys) override;
  bool hasExtendedApi() const override { return true; }

  // Sets a key that isn't there yet, if `expected` is empty. A sealed value equals no other: compared with anything
  // else it stays and is given, or `expected` if there is none.
  using c10d::Store::compareSet;
  std::vector<uint8_t> compareSet(const std::string& key, const std::vector<uint8_t>& expected,
                                  const std::vector<uint8_t>& value) override;

  // Whether there is a value says nothing about who wrote it.
  bool check(const std::vector<std::string>& keys) override { return store_->check(keys); }
  void wait(const std::vector<std::string>& keys) override { store_->wait(keys); }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override {
    store_->wait(keys, timeout);
  }
  bool deleteKey(const std::string& key) override { return store_->deleteKey(key); }
  int64_t getNumKeys() override { return store_->getNumKeys(); }

  // Numbers that the store itself adds up can't be sealed, and nothing of ours follows from one. NCCL counts arrivals.
  int64_t add(const std::string& key, int64_t value) override { return store_->add(key, value); }

  const std::chrono::milliseconds& getTimeout() const noexcept override { return store_->getTimeout(); }
  void setTimeout(const std::chrono::milliseconds& timeout) override { store_->setTimeout(timeout); }

 private:
  std::vector<uint8_t> opened(const std::string& key, const std::vector<uint8_t>& sealed) const;

  c10::intrusive_ptr<c10d::Store> store_;
  Secret secret_;
};

// Small control messages of a group, sealed with the job secret on their way: keys, words from the ledger, errors.
// A message that was changed, or is another operation's, is a CommError. Collective; both block.

// Rank 0's bytes, on every rank.
void share(const Group& group, std::span<uint8_t> bytes, const std::string& label);

// Every rank's words, none longer than `most` bytes and without '\0'.
std::vector<std::string> gather_texts(const Group& group, const std::string& words, size_t most,
                                      const std::string& label);

}  // namespace shade::comm
