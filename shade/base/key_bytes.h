// Secrets in memory: what keeps them out of core dumps, out of swap and away from other processes of the user.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace shade {

// From now on this process leaves no core dump, and other processes of its user, debuggers among them, can't read its
// memory; root can. Call it before a secret is read or made. A program that the process starts by exec is not
// protected, but gets the limit on core dumps. Idempotent.
void forbid_memory_dumps();

// 32 bytes of a key in pages that are not swapped, as far as the limit on locked memory (RLIMIT_MEMLOCK) allows, and
// not in core dumps. Each copy has its own bytes and wipes them when it ends. Thread-safe as a value is.
class KeyBytes {
 public:
  using Bytes = std::array<uint8_t, 32>;

  KeyBytes();  // zeros
  explicit KeyBytes(const Bytes& bytes);
  KeyBytes(const KeyBytes& other);
  KeyBytes& operator=(const KeyBytes& other);
  ~KeyBytes();

  const Bytes& bytes() const { return *bytes_; }
  uint8_t* data() { return bytes_->data(); }
  const uint8_t* data() const { return bytes_->data(); }
  static constexpr size_t size() { return sizeof(Bytes); }
  bool operator==(const KeyBytes& other) const { return *bytes_ == *other.bytes_; }

 private:
  Bytes* bytes_;
};

}  // namespace shade
