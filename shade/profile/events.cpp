// The wire format is written by hand. Linking libprotobuf would put a second copy of it, of another version, into a
// process in which libtorch already has one with the same symbols; and what is needed of it is five short functions.
//
//   file    = record*                    TFRecord: length, crc of length, data, crc of data
//   data    = Event {1: wall time, 2: step, 3: version | 5: Summary {1: Value} | 7: SessionLog {1: status}}
//   Value   = {1: tag, 2: number} | {1: tag, 8: TensorProto, 9: SummaryMetadata}
#include "shade/profile/events.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <chrono>

#include "shade/base/error.h"

namespace shade::profile {
namespace {

static_assert(std::endian::native == std::endian::little, "both formats are little-endian, and written as memory is");

template <typename T>
std::string raw(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

// --- protobuf: a field is a tag (number, kind) and a value
enum Kind : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

std::string varint(uint64_t value) {
  std::string out;
  for (; value > 127; value >>= 7) out.push_back(static_cast<char>((value & 127) | 128));
  out.push_back(static_cast<char>(value));
  return out;
}
std::string tag(uint32_t number, Kind kind) { return varint(number << 3 | kind); }
std::string field(uint32_t number, int64_t value) {
  return tag(number, kVarint) + varint(static_cast<uint64_t>(value));
}
std::string field(uint32_t number, double value) { return tag(number, kFixed64) + raw(value); }
std::string field(uint32_t number, float value) { return tag(number, kFixed32) + raw(value); }
std::string field(uint32_t number, std::string_view value) {
  return tag(number, kBytes) + varint(value.size()) + std::string(value);
}

std::string event(int64_t step, const std::string& content) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  return field(1, now.count()) + field(2, step) + content;
}

// --- TFRecord: crc32c (Castagnoli), rotated and shifted so that the crc of data that holds a crc is no special case
constexpr auto kCrcTable = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    table[i] = crc;
  }
  return table;
}();

uint32_t masked_crc(std::string_view data) {
  uint32_t crc = ~0u;
  for (const char byte : data) crc = crc >> 8 ^ kCrcTable[(crc ^ static_cast<uint8_t>(byte)) & 255];
  return std::rotr(~crc, 15) + 0xa282ead8u;
}

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace

EventFile::EventFile(const std::filesystem::path& folder, Readers readers) {
  static std::atomic<int> files{0};  // two in one second
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  std::filesystem::create_directories(folder);
  path_ = folder / shade::text("events.out.tfevents.", std::chrono::duration_cast<std::chrono::seconds>(now).count(),
                               ".", host_name(), ".", ::getpid(), ".", files++);
  make_file(path_, readers);
  file_.open(path_, std::ios::binary);
  SHADE_REQUIRE(file_.is_open(), "the event file ", path_.string(), " could not be made; is its folder writable?");
  write(event(0, field(3, "brain.Event:2")));
}

EventFile::~EventFile() { file_.flush(); }

void EventFile::write(std::string_view data) {
  const auto length = raw(static_cast<uint64_t>(data.size()));
  file_ << length << raw(masked_crc(length)) << data << raw(masked_crc(data));
}

void EventFile::scalar(std::string_view name, double value, int64_t step) {
  write(event(step, field(5, field(1, field(1, name) + field(2, static_cast<float>(value))))));
}

void EventFile::text(std::string_view name, std::string_view markdown, int64_t step) {
  constexpr int64_t kString = 7;  // DataType
  const auto tensor = field(1, kString) + field(2, field(2, field(1, int64_t{1}))) + field(8, markdown);
  const auto metadata = field(1, field(1, "text"));  // the plugin that shows it
  write(event(step, field(5, field(1, field(1, name) + field(8, tensor) + field(9, metadata)))));
}

void EventFile::begin_at(int64_t step) {
  constexpr int64_t kStart = 1;  // SessionStatus
  write(event(step, field(7, field(1, kStart))));
}

void EventFile::flush() {
  file_.flush();
  SHADE_REQUIRE(file_.good(), "the event file ", path_.string(), " could not be written; is the disk full?");
}

}  // namespace shade::profile
