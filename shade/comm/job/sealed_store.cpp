#include "shade/comm/job/sealed_store.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "shade/comm/errors.h"

namespace shade::comm {

SealedStore::SealedStore(c10::intrusive_ptr<c10d::Store> store, Secret secret)
    : store_(std::move(store)), secret_(std::move(secret)) {}

c10::intrusive_ptr<c10d::Store> SealedStore::clone() {
  return c10::make_intrusive<SealedStore>(store_->clone(), secret_);
}

std::vector<uint8_t> SealedStore::opened(const std::string& key, const std::vector<uint8_t>& sealed) const {
  auto value = secret_.open(key, sealed);
  if (!value) throw SealBroken(key, kForged);
  return *std::move(value);
}

void SealedStore::set(const std::string& key, const std::vector<uint8_t>& value) {
  store_->set(key, secret_.seal(key, value));
}

std::vector<uint8_t> SealedStore::get(const std::string& key) { return opened(key, store_->get(key)); }

void SealedStore::multiSet(const std::vector<std::string>& keys, const std::vector<std::vector<uint8_t>>& values) {
  SHADE_CHECK(keys.size() == values.size(), "as many values as keys");
  std::vector<std::vector<uint8_t>> sealed;
  for (size_t i = 0; i < keys.size(); ++i) sealed.push_back(secret_.seal(keys[i], values[i]));
  store_->multiSet(keys, sealed);
}

std::vector<std::vector<uint8_t>> SealedStore::multiGet(const std::vector<std::string>& keys) {
  auto values = store_->multiGet(keys);
  SHADE_CHECK(keys.size() == values.size(), "as many values as keys");
  for (size_t i = 0; i < keys.size(); ++i) values[i] = opened(keys[i], values[i]);
  return values;
}

std::vector<uint8_t> SealedStore::compareSet(const std::string& key, const std::vector<uint8_t>& expected,
                                             const std::vector<uint8_t>& value) {
  if (expected.empty()) return opened(key, store_->compareSet(key, {}, secret_.seal(key, value)));
  auto present = store_->compareSet(key, expected, expected);
  return present == expected ? present : opened(key, present);
}

namespace {

at::Tensor tensor_of(std::vector<uint8_t>& bytes) {
  return at::from_blob(bytes.data(), {static_cast<int64_t>(bytes.size())}, at::kByte);
}

// Names are the number of the message: labels may differ from rank to rank.
std::vector<uint8_t> opened(const Group& group, const std::string& name, std::span<const uint8_t> sealed, int rank,
                            const std::string& label) {
  auto bytes = group.seals().secret.open(name, sealed);
  if (!bytes)
    throw CommError(text("'", label, "' of rank ", group.global_ranks()[static_cast<size_t>(rank)],
                         " doesn't open with the job secret: it was changed on its way. Let only the job's hosts reach "
                         "each other's ports (SECURITY.md)"));
  return *std::move(bytes);
}

}  // namespace

void share(const Group& group, std::span<uint8_t> bytes, const std::string& label) {
  if (group.size() == 1) return;
  const auto name = text("share ", group.seals().count++);
  auto sealed = group.seals().secret.seal(name, bytes);
  group.broadcast(tensor_of(sealed), {.label = label}).wait();
  const auto words = opened(group, name, sealed, 0, label);
  std::copy(words.begin(), words.end(), bytes.begin());
}

std::vector<std::string> gather_texts(const Group& group, const std::string& words, size_t most,
                                      const std::string& label) {
  if (group.size() == 1) return {words};
  SHADE_CHECK(words.size() <= most, "words of ", words.size(), " bytes where ", most, " were agreed on");
  const auto name = [&, message = group.seals().count++](int rank) {
    return text("gather ", message, " from ", group.seals().solo ? group.rank() : rank);
  };
  std::vector<uint8_t> padded(words.begin(), words.end());
  padded.resize(most, 0);
  auto mine = group.seals().secret.seal(name(group.rank()), padded);
  std::vector<uint8_t> all(mine.size() * static_cast<size_t>(group.size()));
  group.all_gather(tensor_of(all), tensor_of(mine), {.label = label}).wait();
  std::vector<std::string> out;
  for (int rank = 0; rank < group.size(); ++rank) {
    const auto part = std::span(all).subspan(mine.size() * static_cast<size_t>(rank), mine.size());
    const auto bytes = opened(group, name(rank), part, rank, label);
    out.emplace_back(bytes.begin(), std::find(bytes.begin(), bytes.end(), 0));
  }
  return out;
}

}  // namespace shade::comm
