#include "shade/data/appender.h"

namespace shade::data {
namespace {

constexpr size_t kBuffer = size_t{1} << 20;

}  // namespace

void Appender::add(std::span<const std::byte> bytes) {
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  if (buffer_.size() >= kBuffer) flush();
}

void Appender::flush() {
  file_.write_at(written_, buffer_);
  hasher_.add(buffer_);
  written_ += buffer_.size();
  buffer_.clear();
}

std::string Appender::commit() {
  flush();
  file_.commit();
  return hash::to_hex(hasher_.digest());
}

}  // namespace shade::data
