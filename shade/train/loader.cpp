#include "shade/train/loader.h"

#include "shade/base/memory_scope.h"
#include "shade/train/budget.h"
#include "shade/train/deal.h"

namespace shade::train {

std::unique_ptr<data::Sampler> Loader::sampler(const privacy::NoiseKey& key) const {
  return make_sampler(options_.event, options_.split.training(), options_.batch_size, key);
}

std::string Loader::describe() const { return sampler({})->describe(); }

Loader::Loaded Loader::load(int64_t step) const {
  const MemoryScope scope(MemoryKind::data);
  nn::use_device(options_.device);  // this may be a thread that reads ahead
  const auto begin = Clock::now();
  auto drawn = sampler(options_.key(step))->draw(step);
  for (auto& record : drawn) record = options_.split.training_record(record);
  Loaded out{.samples = static_cast<int64_t>(drawn.size())};
  for (const auto& mine : deal(drawn, options_.ranks, options_.rank, options_.micro_batch)) {
    auto batch = data_->batch_at(mine, static_cast<uint64_t>(step)).to(options_.device);
    batch.records.assign(mine.begin(), mine.end());
    out.micro_batches.push_back(std::move(batch));
  }
  out.took = Clock::now() - begin;
  return out;
}

Loader::Loaded Loader::take(int64_t step, int64_t end) {
  auto out = ahead_ == step && next_.valid() ? next_.get() : load(step);
  ahead_ = step + 1;
  if (ahead_ < end) next_ = std::async(std::launch::async, [this, next = ahead_] { return load(next); });
  return out;
}

}  // namespace shade::train
