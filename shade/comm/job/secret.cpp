#include "shade/comm/job/secret.h"

#include <fcntl.h>
#include <sodium.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "shade/base/descriptor.h"
#include "shade/base/error.h"
#include "shade/base/temporary_folder.h"

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

std::string Secret::new_digits() {
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

namespace {

constexpr const char* kRemedy =
    "make one secret for the job (openssl rand -hex 32 > FILE; chmod 600 FILE), copy it to every host by a safe way "
    "and set SHADE_SECRET_FILE=FILE for all ranks";

std::string octal(mode_t mode) {
  std::array<char, 8> digits{};
  std::snprintf(digits.data(), digits.size(), "%04o", static_cast<unsigned>(mode & 07777));
  return digits.data();
}

struct WipedBuffer : std::array<char, 4096> {
  ~WipedBuffer() { sodium_memzero(data(), size()); }
};

Secret read_secret(const Descriptor& file, const std::string& path) {
  struct stat about{};
  SHADE_REQUIRE(::fstat(*file, &about) == 0 && S_ISREG(about.st_mode), "the secret's file ", path,
                " is not a regular file");
  SHADE_REQUIRE((about.st_mode & 077) == 0, "the secret's file ", path, " is open to other users (mode ",
                octal(about.st_mode), "): chmod 600 ", path);
  SHADE_REQUIRE(about.st_uid == ::geteuid() || about.st_uid == 0, "the secret's file ", path, " belongs to user ",
                about.st_uid, ", who knows the secret and can change it; expected this user (", ::geteuid(),
                ") or root: chown ", ::geteuid(), " ", path, " if that user made it for this job, else make a new one");
  WipedBuffer buffer;
  const auto count = ::read(*file, buffer.data(), buffer.size());
  SHADE_REQUIRE(count >= 0, "cannot read the secret's file ", path, ": ", std::strerror(errno));
  auto words = std::string_view(buffer.data(), static_cast<size_t>(count));
  words = words.substr(0, words.find_last_not_of(" \t\r\n") + 1);
  SHADE_REQUIRE(words.size() >= Secret::kFewestCharacters, "the secret's file ", path, " has ", words.size(),
                " characters; expected at least ", Secret::kFewestCharacters, " random ones: openssl rand -hex 32 > ",
                path);
  return Secret::of(words);
}

Secret from_file(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  SHADE_REQUIRE(file, kSecretFileVariable, ": cannot open ", path, ": ", std::strerror(errno));
  return read_secret(file, path);
}

// Others may have made a folder of this name: then it is not used.
std::string own_folder(const std::filesystem::path& temporary) {
  const auto path = (temporary / text("shade-", ::geteuid())).string();
  struct stat about{};
  const bool there = ::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST;
  SHADE_REQUIRE(there && ::lstat(path.c_str(), &about) == 0, "cannot make ", path,
                " for this user's secret: ", std::strerror(errno), "; set SHADE_SECRET_FILE");
  SHADE_REQUIRE(S_ISDIR(about.st_mode) && about.st_uid == ::geteuid() && (about.st_mode & 077) == 0, path,
                " is not a folder of this user alone (mode ", octal(about.st_mode), ", owner ", about.st_uid,
                "): remove it, or set SHADE_SECRET_FILE");
  return path;
}

// Ranks that start together agree on one file: each writes its own, the first link() wins.
void make_secret(const std::string& path) {
  const auto own = text(path, ".", Secret::new_digits().substr(0, 16));
  {
    const Descriptor file(::open(own.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    auto words = Secret::new_digits();
    const bool written = file && ::write(*file, words.data(), words.size()) == static_cast<ssize_t>(words.size());
    sodium_memzero(words.data(), words.size());
    SHADE_REQUIRE(written, "cannot write ", own, ": ", std::strerror(errno), "; set SHADE_SECRET_FILE");
  }
  const bool linked = ::link(own.c_str(), path.c_str()) == 0 || errno == EEXIST;
  const int why = errno;
  ::unlink(own.c_str());
  SHADE_REQUIRE(linked, "cannot make ", path, ": ", std::strerror(why), "; set SHADE_SECRET_FILE");
}

Secret of_this_user(const std::filesystem::path& temporary) {
  const auto path = own_folder(temporary) + "/secret";
  for (const bool again : {false, true}) {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (file) return read_secret(file, path);
    SHADE_REQUIRE(errno == ENOENT && !again, "cannot open ", path, ": ", std::strerror(errno),
                  "; set SHADE_SECRET_FILE");
    make_secret(path);
  }
  SHADE_CHECK(false, "unreachable");
}

}  // namespace

Secret job_secret(const Place& place, const Getenv& get, const std::filesystem::path& temporary) {
  if (const char* path = get(kSecretFileVariable)) return from_file(path);
  if (const char* words = get(kSecretVariable)) {
    (void)::mlock(words, std::strlen(words));  // not wiped: later worlds of this process and its children read it
    return Secret::of(words);
  }
  if (place.single_host()) return of_this_user(temporary.empty() ? temporary_root() : temporary);
  throw UsageError(text("ranks on several hosts (world stated by ", place.origin, ") need a job secret: ", kRemedy,
                        " (SECURITY.md)"));
}

Secret job_secret(const Place& place) {
  return job_secret(place, [](const char* name) { return std::getenv(name); }, {});
}

}  // namespace shade::comm
