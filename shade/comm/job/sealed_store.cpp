#include "shade/comm/job/sealed_store.h"

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

}  // namespace shade::comm
