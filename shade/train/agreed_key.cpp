#include "shade/train/agreed_key.h"

#include "shade/comm/job/sealed_words.h"

namespace shade::train {

privacy::NoiseKey agreed_key(const comm::Group& group, std::optional<uint64_t> seed) {
  if (seed) return privacy::seeded_key(*seed);
  auto key = privacy::secret_key();
  comm::share(group, {key.data(), key.size()}, "noise key");
  return key;
}

}  // namespace shade::train
