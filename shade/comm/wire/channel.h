// One authenticated connection to a peer: messages in both directions, in order, without blocking.
//
//   message   u64 length, u64 number of the message in its direction, payload
//   payload   in clear, or cut into sealed records of kRecord bytes and a tag each
//
// The receiver knows how long the next message is. Any other length or number, or a record that doesn't open, is an
// error: nothing that follows on this connection can be trusted.
#pragma once

#include <ATen/core/Tensor.h>
#include <sodium.h>

#include <array>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <span>
#include <vector>

#include "shade/base/descriptor.h"
#include "shade/comm/wire/handshake.h"

namespace shade::comm::wire {

// Authenticated encryption of one direction of a connection: AES-256-GCM or ChaCha20-Poly1305 of libsodium. Records are
// numbered, and the number is the nonce: a record opens once, in its place. The key is used for nothing else
// (wire/handshake.h).
inline constexpr size_t kRecord =
    65536;  // the most that is sealed at once: ciphertext and plaintext fit in the L2 cache
inline constexpr size_t kTag = 16;
static_assert(kTag == crypto_aead_aes256gcm_ABYTES && kTag == crypto_aead_chacha20poly1305_ietf_ABYTES);

class RecordSeal {
 public:
  RecordSeal(const KeyBytes& key, bool aes);
  ~RecordSeal();
  RecordSeal(const RecordSeal&) = delete;
  RecordSeal& operator=(const RecordSeal&) = delete;

  // Writes ciphertext and tag, kTag bytes more than `plain`. `header` is authenticated too.
  void seal(uint8_t* out, std::span<const uint8_t> plain, std::span<const uint8_t> header);
  // Writes the plaintext. False if the bytes are not the next record that the other end has sealed with this header.
  [[nodiscard]] bool open(uint8_t* out, std::span<const uint8_t> sealed, std::span<const uint8_t> header);

 private:
  std::array<uint8_t, 12> next_nonce();

  bool aes_;
  uint64_t count_ = 0;
  KeyBytes key_;
  crypto_aead_aes256gcm_state expanded_;
};

// A message under way. Its tensor is contiguous, on the CPU, and stays as it is until the message is complete.
struct Message {
  explicit Message(at::Tensor content);
  at::Tensor tensor;
  std::span<uint8_t> bytes;
  size_t done = 0;  // bytes of the payload that were sent or received
  bool complete = false;
};

// Not thread-safe.
class Channel {
 public:
  // `peer` is the peer's rank in the world, for messages.
  Channel(Descriptor socket, int peer, const Agreement& agreement, bool seal);

  void send(std::shared_ptr<Message> message);
  void receive(std::shared_ptr<Message> message);

  // What epoll reported, edge-triggered. Moves on whatever can be moved.
  void ready(bool readable, bool writable, bool ended);

  int descriptor() const { return *socket_; }
  const std::exception_ptr& fault() const { return fault_; }  // messages that aren't complete never will be
  bool changed() const { return changed_; }                   // the fault: a message isn't what the peer sent

 private:
  using Header = std::array<uint64_t, 2>;  // length, number

  void push();
  void pull();
  bool push_clear(Message& message);  // these four return false if the socket must become ready first
  bool push_sealed(Message& message);
  bool pull_clear(Message& message);
  bool pull_sealed(Message& message);
  void stage_record(Message& message);
  void check_header(const Message& message) const;
  size_t write(std::span<const std::span<const uint8_t>> pieces);
  size_t read(std::span<const std::span<uint8_t>> pieces);

  Descriptor socket_;
  int peer_;
  std::exception_ptr fault_;
  bool changed_ = false;
  bool readable_ = true, writable_ = true, ended_ = false;

  // One direction's messages and the state of the first of them.
  struct Direction {
    std::deque<std::shared_ptr<Message>> queue;
    Header header{};
    size_t header_done = 0;
    uint64_t number = 0;               // of the first message
    std::unique_ptr<RecordSeal> seal;  // null: in clear
    std::vector<uint8_t> staged;       // a record with its tag, and the header before the first one
    size_t staged_size = 0, staged_done = 0;

    void stage(size_t size);
    void advance();  // the first message is complete
  };
  Direction out_, in_;
};

}  // namespace shade::comm::wire
