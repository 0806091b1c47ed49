#include "shade/train/loader.h"

#include "shade/base/memory_scope.h"
#include "shade/nn/sample_rows.h"
#include "shade/train/budget.h"

namespace shade::train {

std::unique_ptr<data::Sampler> Loader::sampler(const privacy::NoiseKey& key) const {
  return make_sampler(options_.event, options_.split.training(options_.event.unit), options_.batch_size, key);
}

std::string Loader::describe() const {
  return text(sampler({})->describe(),
              draws_users() ? text(", at most ", options_.max_records_per_user, " records each") : "");
}

std::vector<int64_t> Loader::records_of(int64_t user, int64_t step) const {
  const auto key = privacy::derived_key(options_.key(step), "shade records");
  return options_.split.users()->draw(user, options_.max_records_per_user, key.bytes(), step);
}

std::vector<MicroBatch> Loader::dealt(std::vector<int64_t> drawn, int64_t step) const {
  const Share share{options_.ranks, options_.rank};
  if (!draws_users()) {
    for (auto& record : drawn) record = options_.split.training_record(record);
    return deal(*data_, drawn, options_.shapes, share);
  }
  std::vector<Sample> samples;
  for (const auto user : drawn) {
    const auto records = records_of(user, step);
    Sample sample{user, {.rows = std::ssize(records)}};
    for (const auto record : records)
      if (options_.shapes.vary()) sample.shape.length = std::max(sample.shape.length, data_->length_of(record));
    samples.push_back(sample);
  }
  return deal(std::move(samples), options_.shapes, share);
}

nn::Batch Loader::batch_of(const MicroBatch& micro, int64_t step) const {
  return options_.shapes.vary() ? data_->padded_batch(micro.records, micro.shape.length)
                                : data_->batch_at(micro.records, static_cast<uint64_t>(step));
}

nn::Batch Loader::batch_of_users(const MicroBatch& micro, int64_t step) const {
  MicroBatch all{.shape = micro.shape};
  std::vector<int64_t> counts;
  for (const auto user : micro.records) {
    const auto records = records_of(user, step);
    all.records.insert(all.records.end(), records.begin(), records.end());
    counts.push_back(std::ssize(records));
  }
  return nn::in_samples(batch_of(all, step), counts, micro.shape.rows);
}

Loader::Loaded Loader::load(int64_t step) const {
  const MemoryScope scope(MemoryKind::data);
  nn::use_device(options_.device);  // this may be a thread that reads ahead
  const auto begin = Clock::now();
  const auto drawn = sampler(options_.key(step))->draw(step);
  Loaded out{.samples = static_cast<int64_t>(drawn.size())};
  for (const auto& micro : dealt(drawn, step)) {
    auto batch = draws_users() ? batch_of_users(micro, step) : batch_of(micro, step);
    batch.records = micro.records;
    out.micro_batches.push_back(batch.to(options_.device));
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
