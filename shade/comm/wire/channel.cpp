#include "shade/comm/wire/channel.h"

#include <ATen/ATen.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "shade/comm/errors.h"

namespace shade::comm::wire {
namespace {

constexpr size_t kHeader = 2 * sizeof(uint64_t);
// The most that is received by one call: the kernel tells the sender only at its end that there is space again (64 MiB
// in one direction on loopback: 22 ms without a bound, 16.5 ms with this one).
constexpr size_t kAtOnce = 256 << 10;
constexpr const char* kChanged =
    " was changed on its way, or others were dropped, repeated or put before it. Nothing of it was used (SECURITY.md)";

template <class Header>
std::span<uint8_t> span_of(Header& header) {
  return {reinterpret_cast<uint8_t*>(header.data()), kHeader};
}

// sendmsg and recvmsg take the same description. Empty pieces are left out.
template <class Byte>
size_t describe(msghdr& message, std::array<iovec, 2>& vectors, std::span<const std::span<Byte>> pieces) {
  size_t total = 0, count = 0;
  for (const auto piece : pieces) {
    if (piece.empty()) continue;
    vectors[count++] = {const_cast<uint8_t*>(piece.data()), piece.size()};
    total += piece.size();
  }
  message.msg_iov = vectors.data();
  message.msg_iovlen = count;
  return total;
}

bool must_wait() { return errno == EAGAIN || errno == EWOULDBLOCK; }

}  // namespace

Message::Message(at::Tensor content)
    : tensor(std::move(content)), bytes(static_cast<uint8_t*>(tensor.data_ptr()), tensor.nbytes()) {
  SHADE_CHECK(tensor.is_cpu() && tensor.is_contiguous() && !bytes.empty(),
              "a message is a contiguous tensor of a CPU that isn't empty");
}

Channel::Channel(Descriptor socket, int peer, const Agreement& agreement, bool seal)
    : socket_(std::move(socket)), peer_(peer) {
  if (!seal) return;
  out_.seal = std::make_unique<RecordSeal>(agreement.send, agreement.aes);
  in_.seal = std::make_unique<RecordSeal>(agreement.receive, agreement.aes);
}

void Channel::Direction::advance() {
  queue.front()->complete = true;
  queue.pop_front();
  header_done = 0;
  ++number;
  if (queue.empty()) staged = {};  // groups of many ranks are idle most of the time
}

void Channel::Direction::stage(size_t size) {
  staged_size = size;
  if (staged.size() < size) staged.resize(size);
}

void Channel::send(std::shared_ptr<Message> message) {
  out_.queue.push_back(std::move(message));
  push();
}

void Channel::receive(std::shared_ptr<Message> message) {
  in_.queue.push_back(std::move(message));
  pull();
}

void Channel::ready(bool readable, bool writable, bool ended) {
  readable_ = readable_ || readable || ended;
  writable_ = writable_ || writable || ended;
  ended_ = ended_ || ended;
  push();
  pull();
}

void Channel::push() {
  try {
    while (!fault_ && writable_ && !out_.queue.empty()) {
      auto& message = *out_.queue.front();
      if (out_.header_done == 0 && message.done == 0) out_.header = {message.bytes.size(), out_.number};
      if (out_.seal ? push_sealed(message) : push_clear(message)) out_.advance();
    }
  } catch (...) {
    fault_ = std::current_exception();
  }
}

void Channel::pull() {
  try {
    while (!fault_ && readable_ && !in_.queue.empty()) {
      auto& message = *in_.queue.front();
      if (in_.seal ? pull_sealed(message) : pull_clear(message)) in_.advance();
    }
  } catch (const PeerLost&) {
    fault_ = std::current_exception();
  } catch (...) {
    fault_ = std::current_exception();
    changed_ = true;
  }
}

bool Channel::push_clear(Message& message) {
  const std::array<std::span<const uint8_t>, 2> pieces{span_of(out_.header).subspan(out_.header_done),
                                                       message.bytes.subspan(message.done)};
  const auto sent = write(pieces);
  const auto of_header = std::min(sent, pieces[0].size());
  out_.header_done += of_header;
  message.done += sent - of_header;
  return message.done == message.bytes.size();
}

bool Channel::pull_clear(Message& message) {
  const std::array<std::span<uint8_t>, 2> pieces{
      span_of(in_.header).subspan(in_.header_done),
      message.bytes.subspan(message.done, std::min(kAtOnce, message.bytes.size() - message.done))};
  const auto received = read(pieces);
  const auto of_header = std::min(received, pieces[0].size());
  in_.header_done += of_header;
  message.done += received - of_header;
  if (in_.header_done == kHeader && of_header > 0) check_header(message);
  return message.done == message.bytes.size();
}

void Channel::stage_record(Message& message) {
  const auto plain = message.bytes.subspan(message.done, std::min(kRecord, message.bytes.size() - message.done));
  const auto at = message.done == 0 ? kHeader : 0;
  out_.stage(at + plain.size() + kTag);
  std::copy_n(span_of(out_.header).begin(), at, out_.staged.begin());
  out_.seal->seal(out_.staged.data() + at, plain, span_of(out_.header));
  message.done += plain.size();
  out_.staged_done = 0;
}

bool Channel::push_sealed(Message& message) {
  if (out_.staged_done == out_.staged_size) stage_record(message);
  const std::array<std::span<const uint8_t>, 1> pieces{
      std::span(out_.staged).subspan(out_.staged_done, out_.staged_size - out_.staged_done)};
  out_.staged_done += write(pieces);
  return out_.staged_done == out_.staged_size && message.done == message.bytes.size();
}

bool Channel::pull_sealed(Message& message) {
  const bool first = message.done == 0;
  const auto header = first ? kHeader : 0;
  const auto plain = std::min(kRecord, message.bytes.size() - message.done);
  in_.stage(header + plain + kTag);
  const std::array<std::span<uint8_t>, 1> pieces{
      std::span(in_.staged).subspan(in_.staged_done, in_.staged_size - in_.staged_done)};
  const auto before = in_.staged_done;
  in_.staged_done += read(pieces);
  if (first && before < kHeader && in_.staged_done >= kHeader) {
    std::copy_n(in_.staged.begin(), kHeader, span_of(in_.header).begin());
    check_header(message);
  }
  if (in_.staged_done < in_.staged_size) return false;
  in_.staged_done = 0;
  const auto sealed = std::span(in_.staged).subspan(header, plain + kTag);
  if (!in_.seal->open(message.bytes.data() + message.done, sealed, span_of(in_.header)))
    throw CommError(text("message ", in_.number, " of rank ", peer_, kChanged));
  message.done += plain;
  return message.done == message.bytes.size();
}

void Channel::check_header(const Message& message) const {
  const auto [length, number] = in_.header;
  if (number != in_.number) throw CommError(text("message ", in_.number, " of rank ", peer_, kChanged));
  if (length != message.bytes.size())
    throw CommError(text("message ", number, " of rank ", peer_, " has ", length, " bytes where ", message.bytes.size(),
                         " were expected: it was changed on its way, or the ranks carry out different operations"));
}

size_t Channel::write(std::span<const std::span<const uint8_t>> pieces) {
  msghdr description{};
  std::array<iovec, 2> vectors{};
  const auto wanted = describe(description, vectors, pieces);
  const auto sent = ::sendmsg(*socket_, &description, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0 && errno == EINTR) return 0;
  if (sent < 0 && !must_wait()) throw PeerLost(std::strerror(errno));
  const auto count = sent < 0 ? 0 : static_cast<size_t>(sent);
  writable_ = count == wanted || (ended_ && sent > 0);
  return count;
}

size_t Channel::read(std::span<const std::span<uint8_t>> pieces) {
  msghdr description{};
  std::array<iovec, 2> vectors{};
  const auto wanted = describe(description, vectors, pieces);
  const auto received = ::recvmsg(*socket_, &description, MSG_DONTWAIT);
  if (received == 0) throw PeerLost("connection closed by peer");
  if (received < 0 && errno == EINTR) return 0;
  if (received < 0 && !must_wait()) throw PeerLost(std::strerror(errno));
  const auto count = received < 0 ? 0 : static_cast<size_t>(received);
  readable_ = count == wanted || (ended_ && received > 0);
  return count;
}

RecordSeal::RecordSeal(const KeyBytes& key, bool aes) : aes_(aes), key_(key) {
  if (aes_) crypto_aead_aes256gcm_beforenm(&expanded_, key_.data());
}

RecordSeal::~RecordSeal() { sodium_memzero(&expanded_, sizeof expanded_); }

std::array<uint8_t, 12> RecordSeal::next_nonce() {
  std::array<uint8_t, 12> nonce{};
  std::memcpy(nonce.data(), &count_, sizeof count_);
  ++count_;
  return nonce;
}

void RecordSeal::seal(uint8_t* out, std::span<const uint8_t> plain, std::span<const uint8_t> header) {
  const auto nonce = next_nonce();
  auto* const tag = out + plain.size();
  if (aes_) {
    crypto_aead_aes256gcm_encrypt_detached_afternm(out, tag, nullptr, plain.data(), plain.size(), header.data(),
                                                   header.size(), nullptr, nonce.data(), &expanded_);
  } else {
    crypto_aead_chacha20poly1305_ietf_encrypt_detached(out, tag, nullptr, plain.data(), plain.size(), header.data(),
                                                       header.size(), nullptr, nonce.data(), key_.data());
  }
}

bool RecordSeal::open(uint8_t* out, std::span<const uint8_t> sealed, std::span<const uint8_t> header) {
  const auto nonce = next_nonce();
  const auto size = sealed.size() - kTag;
  const auto* const tag = sealed.data() + size;
  const int status =
      aes_ ? crypto_aead_aes256gcm_decrypt_detached_afternm(out, nullptr, sealed.data(), size, tag, header.data(),
                                                            header.size(), nonce.data(), &expanded_)
           : crypto_aead_chacha20poly1305_ietf_decrypt_detached(out, nullptr, sealed.data(), size, tag, header.data(),
                                                                header.size(), nonce.data(), key_.data());
  return status == 0;
}

}  // namespace shade::comm::wire
