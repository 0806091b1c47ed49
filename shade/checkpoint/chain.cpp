#include "shade/checkpoint/chain.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <thread>

#include "shade/base/descriptor.h"
#include "shade/base/error.h"
#include "shade/base/explain.h"
#include "shade/base/stop_signals.h"
#include "shade/checkpoint/folder.h"
#include "shade/io/errors.h"

namespace shade::checkpoint {
namespace {

// In a record a quotation mark inside of a string is escaped, so this is nowhere but where a seal begins.
constexpr std::string_view kSeal = "~{\"torn\":";
// A torn line with zeros may have an end, and the seal behind it be torn in its turn.
constexpr int kMostLines = 8;

struct Line {
  std::string record;
  hash::Digest digest{};
  size_t size = 0;
};

hash::Digest chained(const hash::Digest& previous, std::string_view words) {
  return hash::Hasher().add(std::as_bytes(std::span(previous))).add(words).digest();
}

// What begins here, up to this end of line, if its digest is right.
std::optional<Line> line_up_to(std::string_view rest, size_t end, const hash::Digest& head) {
  if (end < hash::kDigestDigits + 1 || rest[end - hash::kDigestDigits - 1] != ' ') return std::nullopt;
  const auto covered = rest.substr(0, end - hash::kDigestDigits - 1);
  const auto digest = chained(head, covered);
  if (hash::to_hex(digest) != rest.substr(end - hash::kDigestDigits, hash::kDigestDigits)) return std::nullopt;
  const auto seal = covered.rfind(kSeal);
  const auto record = seal == covered.npos ? covered : covered.substr(seal + 1);
  // Only a seal may cover more than one line.
  if (record.find('\n') != record.npos) return std::nullopt;
  return Line{std::string(record), digest, end + 1};
}

std::optional<Line> next(std::string_view rest, const hash::Digest& head) {
  rest = rest.substr(0, 2 * kMaxRecord);
  auto end = rest.find('\n');
  for (int lines = 0; end != rest.npos && lines < kMostLines; ++lines, end = rest.find('\n', end + 1))
    if (auto line = line_up_to(rest, end, head)) return line;
  return std::nullopt;
}

// One line without an end, or with zeros; behind it nothing but seals that were torn themselves.
bool is_torn(std::string_view tail) {
  const auto end = tail.find('\n');
  if (end == tail.npos) return true;
  if (tail.substr(0, end).find('\0') == tail.npos) return false;
  int lines = 1;
  for (auto at = end + 1; at < tail.size(); at = std::min(tail.find('\n', at), tail.size() - 1) + 1)
    if (tail[at] != kSeal.front() || ++lines == kMostLines) return false;
  return true;
}

}  // namespace

Chain read_chain(std::string_view file) {
  Chain out;
  for (size_t at = 0; at < file.size();) {
    const auto rest = file.substr(at);
    if (auto line = next(rest, out.head)) {
      out.records.push_back(std::move(line->record));
      out.digests.push_back(line->digest);
      out.head = line->digest;
      at += line->size;
      continue;
    }
    if (!is_torn(rest) || rest.size() > kMaxRecord)
      throw io::FormatError(text("line ", out.records.size() + 1, " (byte ", at, ") is not what was written"));
    out.torn = rest.size();
    break;
  }
  return out;
}

std::string next_line(hash::Digest& head, std::string_view record, std::string_view torn) {
  SHADE_CHECK(record.find('\n') == record.npos && record.size() + hash::kDigestDigits + 2 <= kMaxRecord,
              "a record is one line of at most ", kMaxRecord, " bytes");
  const auto added = torn.empty() ? std::string(record) : "~" + std::string(record);
  SHADE_CHECK(torn.empty() || added.starts_with(kSeal), "a seal says so");
  head = chained(head, std::string(torn) + added);
  return text(added, " ", hash::to_hex(head), "\n");
}

namespace {

// No link: what it names could be changed between two appends. No pipe or device: it might never end.
int opened(const std::filesystem::path& file, int flags) {
  const int descriptor =
      uninterrupted([&] { return ::open(file.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600); });
  struct stat about{};
  if (descriptor < 0 || (::fstat(descriptor, &about) == 0 && S_ISREG(about.st_mode))) return descriptor;
  ::close(descriptor);
  throw UsageError(text("cannot read ", file, ": ", S_ISDIR(about.st_mode) ? "a folder" : "a device, pipe or socket",
                        "; expected the regular file that shade ledger --create makes"));
}

void write_all(int descriptor, std::string_view words, const std::string& what) {
  while (!words.empty()) {
    const auto written = uninterrupted([&] { return ::write(descriptor, words.data(), words.size()); });
    if (written <= 0) throw Error(text("cannot write ", what, ": ", reason_of(errno), "; nothing was counted"));
    words.remove_prefix(static_cast<size_t>(written));
  }
  if (uninterrupted([&] { return ::fsync(descriptor); }) != 0)
    throw Error(text("cannot flush ", what, ": ", reason_of(errno), "; what was counted may not be used"));
}

std::string content(int descriptor, const std::string& what) {
  std::string out;
  std::array<char, 1 << 16> part{};
  for (off_t at = 0;;) {
    const auto size = uninterrupted([&] { return ::pread(descriptor, part.data(), part.size(), at); });
    if (size < 0) throw Error(text("cannot read ", what, ": ", std::strerror(errno)));
    if (size == 0) return out;
    out.append(part.data(), static_cast<size_t>(size));
    at += size;
  }
}

}  // namespace

ChainMark end_of(const Chain& chain) { return {chain.records.size(), hash::to_hex(chain.head)}; }

bool has(const Chain& chain, const ChainMark& mark) {
  return mark.line >= 1 && mark.line <= chain.digests.size() &&
         hash::to_hex(chain.digests[mark.line - 1]) == mark.digest;
}

Chain SharedChain::prove(std::string_view words) const {
  try {
    auto chain = read_chain(words);
    if (chain.records.empty()) throw io::FormatError("it has no first line, its making was interrupted");
    return chain;
  } catch (const io::FormatError& fault) {
    throw io::FormatError(text(name_, " ", path_, " is damaged: ", fault.what(),
                               "; what was spent is no longer known: restore an intact copy"));
  }
}

void SharedChain::create(const Json& first) const {
  const Descriptor file(opened(path_, O_WRONLY | O_CREAT | O_EXCL | O_APPEND));
  SHADE_REQUIRE(file, "cannot make ", name_, " ", path_, ": ",
                errno == EEXIST ? "there is a file of that name; choose another" : std::strerror(errno));
  hash::Digest head{};
  write_all(*file, next_line(head, first.dump()), text(name_, " ", path_));
  flush_folder(path_.has_parent_path() ? path_.parent_path() : ".");
}

Chain SharedChain::read() const {
  const Descriptor file(opened(path_, O_RDONLY));
  SHADE_REQUIRE(file, "cannot open ", name_, " ", path_, ": ",
                errno == ELOOP ? "a symbolic link; expected the file itself" : std::strerror(errno));
  return prove(content(*file, text(name_, " ", path_)));
}

ChainMark SharedChain::append(const Next& next, Seconds patience) const {
  const auto what = text(name_, " ", path_);
  const Descriptor file(opened(path_, O_RDWR | O_APPEND));
  SHADE_REQUIRE(file, "cannot open ", what, ": ",
                errno == ELOOP ? "a symbolic link; expected the file itself" : std::strerror(errno));
  const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(patience);
  while (uninterrupted([&] { return ::flock(*file, LOCK_EX | LOCK_NB); }) != 0) {
    if (errno != EWOULDBLOCK) throw Error(text("cannot lock ", what, ": ", std::strerror(errno)));
    if (Clock::now() > until)
      throw Error(text(what, " was locked by another process for ", patience.count(),
                       " s: it is stopped or its disk hangs. Nothing was counted"));
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  struct stat here{}, named{};
  if (::fstat(*file, &here) != 0 || ::lstat(path_.c_str(), &named) != 0 || here.st_ino != named.st_ino ||
      here.st_dev != named.st_dev)
    throw Error(text(what, " was replaced while it was in use; nothing was counted"));

  const auto words = content(*file, what);
  auto chain = prove(words);
  const auto record = next(chain);
  if (!record) return end_of(chain);
  if (chain.torn > 0) {
    const auto torn = std::string_view(words).substr(words.size() - chain.torn);
    const auto seal = Json{{"torn", chain.torn}}.dump();
    write_all(*file, next_line(chain.head, seal, torn), what);
    chain.records.push_back(seal);
  }
  const auto line = record->dump();
  write_all(*file, next_line(chain.head, line), what);
  chain.records.push_back(line);
  return end_of(chain);
}

}  // namespace shade::checkpoint
