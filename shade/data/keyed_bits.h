// Random bits as a function of (key, purpose, index): nothing to save, the same on every rank and after a restart.
#pragma once

#include <array>
#include <cstdint>

namespace shade::data {

// Secret in a private run: anyone who can tell who was sampled undoes what sampling gives.
using SampleKey = std::array<uint8_t, 32>;

// ChaCha20 from block 0 on, under a subkey by keyed BLAKE2b (libsodium). Streams of different purpose or index share
// nothing; neither does the noise of the same key, whose subkeys have a personalisation (privacy/key.h).
class KeyedBits {
 public:
  enum class Purpose : uint64_t { poisson = 1, shuffle = 2, records_of_user = 3 };
  KeyedBits(const SampleKey& key, Purpose purpose, uint64_t index);
  ~KeyedBits();  // wiped
  KeyedBits(const KeyedBits&) = delete;
  KeyedBits& operator=(const KeyedBits&) = delete;

  uint64_t next();
  uint64_t below(uint64_t bound);  // uniform in [0, bound)

 private:
  static constexpr size_t kWords = 64;  // eight blocks at a time
  void refill();

  std::array<uint8_t, 32> subkey_{};
  std::array<uint64_t, kWords> words_{};
  size_t used_ = kWords;
  uint64_t block_ = 0;
};

}  // namespace shade::data
