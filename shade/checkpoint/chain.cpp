#include "shade/checkpoint/chain.h"

#include <algorithm>
#include <optional>

#include "shade/base/error.h"
#include "shade/io/errors.h"

namespace shade::checkpoint {
namespace {

// In a record a quotation mark inside of a string is escaped, so this is nowhere but where a seal begins.
constexpr std::string_view kSeal = "~{\"torn\":";
// A torn line with zeros may have an end, and the seal behind it be torn in its turn.
constexpr int kMostLines = 8;

struct Line {
  std::string record;
  io::Digest digest{};
  size_t size = 0;
};

io::Digest chained(const io::Digest& previous, std::string_view words) {
  return io::Hasher().add(std::as_bytes(std::span(previous))).add(words).digest();
}

// What begins here, up to this end of line, if its digest is right.
std::optional<Line> line_up_to(std::string_view rest, size_t end, const io::Digest& head) {
  if (end < io::kDigestDigits + 1 || rest[end - io::kDigestDigits - 1] != ' ') return std::nullopt;
  const auto covered = rest.substr(0, end - io::kDigestDigits - 1);
  const auto digest = chained(head, covered);
  if (io::to_hex(digest) != rest.substr(end - io::kDigestDigits, io::kDigestDigits)) return std::nullopt;
  const auto seal = covered.rfind(kSeal);
  const auto record = seal == covered.npos ? covered : covered.substr(seal + 1);
  // Only a seal may cover more than one line.
  if (record.find('\n') != record.npos) return std::nullopt;
  return Line{std::string(record), digest, end + 1};
}

std::optional<Line> next(std::string_view rest, const io::Digest& head) {
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

std::string next_line(io::Digest& head, std::string_view record, std::string_view torn) {
  SHADE_CHECK(record.find('\n') == record.npos && record.size() + io::kDigestDigits + 2 <= kMaxRecord,
              "a record is one line of at most ", kMaxRecord, " bytes");
  const auto added = torn.empty() ? std::string(record) : "~" + std::string(record);
  SHADE_CHECK(torn.empty() || added.starts_with(kSeal), "a seal says so");
  head = chained(head, std::string(torn) + added);
  return text(added, " ", io::to_hex(head), "\n");
}

}  // namespace shade::checkpoint
