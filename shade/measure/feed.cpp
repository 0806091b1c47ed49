#include "shade/measure/feed.h"

#include <numeric>

#include "shade/base/error.h"
#include "shade/base/span.h"
#include "shade/data/config.h"
#include "shade/models/model.h"
#include "shade/train/feed/records.h"

namespace shade::measure {
namespace {

std::unique_ptr<data::Dataset> opened(const Experiment& experiment, const models::Model& model) {
  const auto of_text = model.text_traits();
  SHADE_REQUIRE(of_text, "--data-folder holds texts and ", model.describe(),
                " doesn't read them; drop it, or choose a language model");
  auto texts = train::open_texts(experiment.data, experiment.work.seq_length, *of_text);
  const auto classes = std::ssize(texts->classes());
  SHADE_REQUIRE(classes <= of_text->classes, "the data has ", classes, " classes, the model ", of_text->classes,
                "; set --num-classes ", classes);
  return texts;
}

}  // namespace

Feed::Feed(const Experiment& experiment, const models::Model& model, const comm::Place& place, c10::Device device)
    : batch_size_(experiment.bench.batch_size),
      micro_steps_(experiment.bench.grad_accum),
      ranks_(place.size),
      rank_(place.rank),
      device_(device) {
  const MemoryScope scope(MemoryKind::data);
  if (!experiment.data.data_folder.empty()) {
    dataset_ = opened(experiment, model);
    return;
  }
  const auto& work = experiment.work;
  const auto seed = static_cast<uint64_t>(work.seed + place.rank);  // each rank has its own samples
  const auto all =
      model.synthetic({batch_size_ * micro_steps_, work.seq_length}, seed, train::scalar_type(experiment.model.dtype))
          .to(device);
  for (int64_t i = 0; i < micro_steps_; ++i) made_up_.push_back(numbered(all.rows(i * batch_size_, batch_size_), i));
}

// Every sample of a step counts as a separate record, also where a small folder comes round within a step.
nn::Batch Feed::numbered(nn::Batch batch, int64_t micro_step) const {
  batch.records.resize(static_cast<size_t>(batch.samples()));
  std::iota(batch.records.begin(), batch.records.end(), (rank_ * micro_steps_ + micro_step) * batch_size_);
  return batch;
}

std::vector<nn::Batch> Feed::next() {
  if (!dataset_) return made_up_;
  const Span span(SpanName::data);
  const MemoryScope scope(MemoryKind::data);
  std::vector<nn::Batch> out;
  std::vector<int64_t> records(static_cast<size_t>(batch_size_));
  for (int64_t i = 0; i < micro_steps_; ++i) {
    std::iota(records.begin(), records.end(), ((step_ * ranks_ + rank_) * micro_steps_ + i) * batch_size_);
    for (auto& record : records) record %= dataset_->size();
    out.push_back(numbered(dataset_->batch(records).to(device_), i));
  }
  ++step_;
  return out;
}

std::string Feed::describe() const { return dataset_ ? dataset_->describe() : "made up"; }

}  // namespace shade::measure
