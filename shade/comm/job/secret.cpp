#include "shade/comm/job/secret.h"

#include <sodium.h>

#include "shade/base/error.h"

namespace shade::comm {
namespace {

constexpr size_t kNonce = crypto_aead_xchacha20poly1305_ietf_NPUBBYTES;
constexpr size_t kTag = crypto_aead_xchacha20poly1305_ietf_ABYTES;
static_assert(kNonce + kTag == Secret::kOverhead);
static_assert(sizeof(Secret::Bytes) == crypto_aead_xchacha20poly1305_ietf_KEYBYTES);

void prepare_for_secret() {
  static const int status = sodium_init();
  SHADE_CHECK(status >= 0, "libsodium can't be initialised: the system has no source of randomness");
  forbid_memory_dumps();
}

const uint8_t* bytes_of(std::string_view words) { return reinterpret_cast<const uint8_t*>(words.data()); }

}  // namespace

Secret::Secret(const Bytes& bytes) : bytes_(std::make_shared<const KeyBytes>(bytes)) {}

std::string Secret::new_words() {
  prepare_for_secret();
  Bytes random;
  randombytes_buf(random.data(), random.size());
  std::string words(2 * random.size() + 1, '\0');
  sodium_bin2hex(words.data(), words.size(), random.data(), random.size());
  sodium_memzero(random.data(), random.size());
  words.pop_back();
  return words;
}

Secret Secret::of(std::string_view words) {
  prepare_for_secret();
  SHADE_REQUIRE(words.size() >= kFewestCharacters, "the job secret has ", words.size(),
                " characters; expected at least ", kFewestCharacters, " random ones: openssl rand -hex 32");
  Bytes bytes;
  crypto_generichash(bytes.data(), bytes.size(), bytes_of(words), words.size(), nullptr, 0);
  Secret out(bytes);
  sodium_memzero(bytes.data(), bytes.size());
  return out;
}

Secret Secret::derived(std::string_view purpose) const {
  Bytes bytes;
  crypto_generichash(bytes.data(), bytes.size(), bytes_of(purpose), purpose.size(), bytes_->data(), bytes_->size());
  Secret out(bytes);
  sodium_memzero(bytes.data(), bytes.size());
  return out;
}

Secret::Bytes Secret::code(std::string_view purpose, std::span<const uint8_t> message) const {
  const auto key = derived(text("code: ", purpose));
  Bytes out;
  crypto_generichash(out.data(), out.size(), message.data(), message.size(), key.bytes_->data(), key.bytes_->size());
  return out;
}

std::vector<uint8_t> Secret::seal(std::string_view name, std::span<const uint8_t> value) const {
  std::vector<uint8_t> out(kOverhead + value.size());
  randombytes_buf(out.data(), kNonce);
  crypto_aead_xchacha20poly1305_ietf_encrypt(out.data() + kNonce, nullptr, value.data(), value.size(), bytes_of(name),
                                             name.size(), nullptr, out.data(), bytes_->data());
  return out;
}

std::optional<std::vector<uint8_t>> Secret::open(std::string_view name, std::span<const uint8_t> sealed) const {
  if (sealed.size() < kOverhead) return std::nullopt;
  std::vector<uint8_t> out(sealed.size() - kOverhead);
  const auto box = sealed.subspan(kNonce);
  if (crypto_aead_xchacha20poly1305_ietf_decrypt(out.data(), nullptr, nullptr, box.data(), box.size(), bytes_of(name),
                                                 name.size(), sealed.data(), bytes_->data()) != 0)
    return std::nullopt;
  return out;
}

}  // namespace shade::comm
