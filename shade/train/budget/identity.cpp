#include "shade/train/budget/identity.h"

#include <ATen/ATen.h>

#include "shade/checkpoint/owned.h"
#include "shade/comm/job/sealed_store.h"
#include "shade/hash/content_hash.h"
#include "shade/hash/digest.h"
#include "shade/io/dtype.h"
#include "shade/train/spec/computes_with.h"

namespace shade::train {
namespace {

std::string first_weights(shard::Runtime& runtime, optim::Optimizer& optimizer) {
  hash::Hasher all;
  for (const auto& piece : checkpoint::owned_by(runtime, optimizer)) {
    if (piece.part != checkpoint::kWeightPart || piece.values.is_meta()) continue;
    const auto here = piece.values.cpu();
    const auto hash = hash::content_hash(io::bytes_of(here));
    all.add(text(piece.name(), ' ', hash[0], ' ', hash[1], '\n'));
  }
  return hash::to_hex(all.digest());
}

}  // namespace

Identity identity_of(Job& job) {
  auto all = computes_with(job.device());
  all["job"] = parse_json(job.settings());
  all["weights"] = first_weights(job.runtime(), job.optimizer());
  const auto& group = job.groups().control;
  auto mine = hash::digest_of(all.dump());
  const auto length = static_cast<int64_t>(mine.size());
  auto all_ranks = at::empty({length * group.size()}, at::kByte);
  group.all_gather(all_ranks, at::from_blob(mine.data(), {length}, at::kByte), {.label = "identity"}).wait();
  const auto bytes = std::as_bytes(std::span(all_ranks.data_ptr<uint8_t>(), static_cast<size_t>(all_ranks.numel())));
  return {hash::to_hex(hash::digest_of(bytes)), std::move(all)};
}

privacy::NoiseKey agreed_key(const comm::Group& group, std::optional<uint64_t> seed) {
  if (seed) return privacy::seeded_key(*seed);
  auto key = privacy::secret_key();
  comm::share(group, {key.data(), key.size()}, "noise key");
  return key;
}

}  // namespace shade::train
