#include "shade/train/step/step.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "shade/base/error.h"
#include "shade/base/memory_scope.h"
#include "shade/base/span.h"
#include "shade/models/flops.h"
#include "shade/nn/function.h"
#include "shade/nn/launches.h"
#include "shade/nn/sample_rows.h"
#include "shade/optim/gradient_norm.h"
#include "shade/privacy/norms/embedding.h"
#include "shade/train/budget/identity.h"
#include "shade/train/spec/computes_with.h"
#include "shade/train/step/slots.h"
#include "shade/train/step/step_sums.h"
#include "shade/train/step/sum_digest.h"

namespace shade::train {
namespace {

// The sum of the losses, and of what each of them counts.
at::Tensor summed(const at::Tensor& losses_B, const at::Tensor& counts_B, bool finite_alone) {
  const auto wide_B = losses_B.to(at::kDouble);
  if (!finite_alone) return at::stack({wide_B.sum(), counts_B.sum(at::kDouble)});
  const auto finite_B = at::isfinite(wide_B);
  return at::stack({wide_B.masked_fill(finite_B.logical_not(), 0).sum(), (counts_B * finite_B).sum(at::kDouble)});
}

// The layer of shade::nn that does what this operator does with a weight; empty: there is none.
std::string_view counterpart(const torch::autograd::Node& node) {
  static constexpr std::pair<std::string_view, std::string_view> kLayers[] = {
      {"AddmmBackward0", "nn::Linear"},
      {"MmBackward0", "nn::Linear"},
      {"EmbeddingBackward0", "nn::Embedding"},
      {"NativeLayerNormBackward0", "nn::LayerNorm"},
      {"ConvolutionBackward0", "nn::PatchEmbedding"}};
  const auto found =
      std::ranges::find(kLayers, std::string_view(node.name()), [](const auto& row) { return row.first; });
  return found == std::end(kLayers) ? "" : found->second;
}

// Layers report gradients of the model's weights to the tap, which clips them: a leaf of autograd's that collects a
// gradient by itself is none of these, and its .grad would be a gradient without clipping and noise.
void refuse_foreign_leaves(const at::Tensor& losses_B) {
  using torch::autograd::Node;
  const auto* const own = nn::anchor(losses_B.device()).unsafeGetTensorImpl();
  struct Visit {
    Node* node;
    std::string_view layer;  // of the operator that takes its output, perhaps transposed
  };
  std::vector<Visit> open;
  std::unordered_set<const Node*> seen;
  const auto visit = [&](Node* node, std::string_view layer) {
    if (node != nullptr && seen.insert(node).second) open.push_back({node, layer});
  };
  visit(torch::autograd::impl::gradient_edge(losses_B).function.get(), "");
  while (!open.empty()) {
    const auto [node, layer] = open.back();
    open.pop_back();
    SHADE_REQUIRE(
        node->retains_grad_hooks().empty(),
        "a tensor in the graph of the loss keeps its gradient (retain_grad()), which would be neither clipped "
        "nor noised; drop that in a private run");
    const auto of_inputs = node->name() == "TBackward0" ? layer : counterpart(*node);
    for (const auto& edge : node->next_edges()) visit(edge.function.get(), of_inputs);
    const auto* leaf = dynamic_cast<const torch::autograd::AccumulateGrad*>(node);
    SHADE_REQUIRE(
        leaf == nullptr || leaf->variable.unsafeGetTensorImpl() == own, "a tensor ", leaf->variable.sizes(),
        " that requires a gradient is in the graph of the loss and is no weight of the model, so its gradient "
        "would be neither clipped nor noised; declare it in the model's nn::Parameters (",
        layer.empty() ? "a layer of shade::nn" : layer, layer.empty() ? "" : " in place of torch's",
        ", or nn::OwnLayer around one of torch::nn), or call requires_grad_(false) on it");
  }
}

// False again at the end of its scope, also by an exception.
class ScopedFlag {
 public:
  ScopedFlag(bool& flag, bool value) : flag_(flag) { flag_ = value; }
  ~ScopedFlag() { flag_ = false; }
  ScopedFlag(const ScopedFlag&) = delete;
  ScopedFlag& operator=(const ScopedFlag&) = delete;

 private:
  bool& flag_;
};

privacy::MakeMethod method_of(const StepOptions& options) {
  if (options.method) return options.method;
  return privacy::method_of(options.privacy ? privacy::MethodName::automatic : privacy::MethodName::none);
}

}  // namespace

StepOptions step_options(const privacy::DpConfig& words, StepOptions others) {
  others.privacy = words.event();
  others.method = privacy::method_of(words);
  others.noise_seed = words.seed();
  return others;
}

Step::Step(models::Model& model, shard::Runtime& runtime, optim::Optimizer& optimizer, optim::Schedule schedule,
           StepOptions options)
    : model_(&model),
      runtime_(&runtime),
      optimizer_(&optimizer),
      schedule_(schedule),
      options_(std::move(options)),
      written_(model.parameters(), runtime),
      method_(method_of(options_)({.parameters = model.parameters(),
                                   .sink = written_,
                                   .event = options_.privacy.value_or(privacy::PrivacyEvent{}),
                                   .samples = options_.micro_shapes.most()})) {
  SHADE_REQUIRE(model.parameters().count_trainable() > 0,
                "the model declares no weight that is trained; declare weights in its nn::Parameters, by layers of "
                "shade::nn or nn::OwnLayer (those of torch::nn modules are not found), and leave some trainable");
  SHADE_REQUIRE((method_->clipper() != nullptr) == is_private(),
                is_private() ? "a privacy event, and a method that bounds no sample; choose one that clips (--dp auto)"
                             : "a clipping method without a privacy event adds no noise and counts nowhere; set "
                               "StepOptions::privacy, or leave the method out");
  if (is_private()) require_events_noise();
  if (is_private() && !options_.rehearsal) {
    require_sound(method_->repeatable(), runtime.reduce_type());
    require_computing_alike(runtime.groups().control, runtime.device());
  }
  SHADE_REQUIRE(!is_private() || options_.grad_clip == 0,
                "a private run clips every sample (--max-grad-norm); clipping their sum as well (--grad-clip) is for "
                "runs that are not private");
  if (is_private() && !options_.key)
    options_.key = [key = agreed_key(runtime.groups().control, options_.noise_seed)](int64_t) { return key; };
  if (is_private()) noise_ = privacy::independent_noise(options_.key);
  runtime.sum_exactly(is_private());
  auto& shapes = options_.micro_shapes;
  if (is_private() && shapes.most() > 0) {
    if (method_->micro_batch() > 0) shapes = shapes.at_most(method_->micro_batch());
    shapes_.emplace(shapes);
  }
  model.parameters().wiring.tap = &tap_;
  if (is_private() && !options_.rehearsal)
    optimizer.before_update([released = released_] { require_released(*released); });
}

// Ledgers and epsilons count noise: what an update without any would release, they couldn't state.
void require_released(bool released) {
  SHADE_REQUIRE(released,
                "an update of a private job's weights outside its step would release a sum without noise, and no "
                "epsilon would hold for it; call Job::step() or Step::run(), or set `rehearsal` in their options for "
                "records that need no protection");
}

// Noise is scaled by the method's clipper, and accountants count the event.
void Step::require_events_noise() const {
  const double sigma = options_.privacy->mechanism.noise_multiplier, clip_norm = options_.privacy->clip_norm;
  SHADE_REQUIRE(clipper().sigma() == sigma && clipper().clip_norm() == clip_norm,
                "the clipping method was made for sigma ", clipper().sigma(), " and clip norm ", clipper().clip_norm(),
                ", and the privacy event has ", sigma, " and ", clip_norm,
                "; make its base from the setup that it gets (privacy::MethodSetup::event)");
}

void require_sound(bool repeatable, nn::DType reduce) {
  SHADE_REQUIRE(
      reduce == nn::DType::fp32, "gradients of a private run are reduced in fp32, not ", to_string(reduce),
      ": a rounded sum moves by more than the clip norm when one record is added or removed; drop it (--reduce-dtype)");
  SHADE_REQUIRE(repeatable,
                "timing of norms (--norm-timing) chooses by measured time, so a step repeated after a crash would be "
                "another step with the same noise; measure with shade bench");
}

Step::~Step() {
  if (!taps_model()) return;  // what is left belongs to a later one
  model_->parameters().wiring.tap = nullptr;
  model_->parameters().wiring.rows_per_sample = 1;
}

// Micro-batches of the size that the method wants, as many on every rank: who has fewer samples runs empty ones.
std::vector<nn::Batch> Step::split(std::span<const nn::Batch> micro_batches) const {
  const auto size = method_->micro_batch();
  if (size == 0) return {micro_batches.begin(), micro_batches.end()};
  std::vector<nn::Batch> out;
  for (const auto& batch : micro_batches)
    for (int64_t begin = 0; begin < batch.samples(); begin += size)
      out.push_back(batch.rows(begin, std::min(size, batch.samples() - begin)));
  const auto& control = runtime_->groups().control;
  auto counts = at::empty({control.size()}, at::kLong);
  control.all_gather(counts, at::full({1}, static_cast<int64_t>(out.size()), at::kLong), {.label = "micro-steps"})
      .wait();
  const auto most = std::max<int64_t>(1, counts.max().item<int64_t>());
  while (static_cast<int64_t>(out.size()) < most) out.push_back(micro_batches.front().rows(0, 0));
  return out;
}

// A layer that mixes samples (batch statistics) makes one sample's loss depend on the others: then no clipping bounds
// what a sample does. Tried before the first batch in which it could happen on any rank, by a forward pass of one
// sample alone; a batch whose sample has no finite loss alone shows nothing, and the next one is tried.
void Step::require_separate(std::span<const nn::Batch> batches) {
  const auto several = std::find_if(batches.begin(), batches.end(), [](const auto& b) { return b.samples() > 1; });
  const auto& control = runtime_->groups().control;
  const auto on_all_ranks = [&](bool here) {
    auto count = at::full({1}, here ? 1.0 : 0.0, at::kDouble);
    control.all_reduce(count, {.label = "samples apart"}).wait();
    return count.item<double>() > 0;
  };
  if (!on_all_ranks(several != batches.end())) return;
  const at::NoGradGuard no_graph;
  const auto& batch = several != batches.end() ? *several : batches.front();
  runtime_->begin_forward();
  const auto losses_of = [&](const nn::Batch& some) { return nn::sample_losses(model_->losses(some), some); };
  const auto together = losses_of(batch);
  runtime_->begin_forward();
  const auto alone = losses_of(batch.rows(0, std::min<int64_t>(1, batch.samples())));
  bool shown = together.is_meta();
  if (several != batches.end() && !shown) {
    const auto a = together[0].item<double>(), b = alone[0].item<double>();
    shown = std::isfinite(b);
    const double tolerance = runtime_->compute() == at::kBFloat16 ? 0.05 : 1e-3;
    SHADE_REQUIRE(!shown || std::abs(a - b) <= tolerance * (1 + std::abs(b)), "the loss of a sample is ", b,
                  " alone and ", a,
                  " with others in its batch: a layer mixes samples (batch statistics?), so no gradient belongs to one "
                  "sample. Private training needs layers that treat samples one by one");
  }
  separate_ = on_all_ranks(shown);
}

void Step::backward(SpanName phase, const at::Tensor& objective, shard::BackwardOptions options) {
  const Span span(phase);
  const MemoryScope scope(MemoryKind::temporary);
  runtime_->begin_backward(options);
  torch::autograd::backward({objective}, {}, /*retain_graph=*/!options.last_use);
}

void Step::Tap::take(nn::LayerGrad grad) {
  SHADE_REQUIRE(
      step_.in_micro_step_,
      "a layer of the model reports a gradient, and none of its step's micro-batches is computed: backward was "
      "called on its losses elsewhere, or another model uses its layers; gradients come from Step::run() and "
      "Step::gradients() alone, and each model declares layers of its own");
  step_.method_->take(std::move(grad));
}

at::Tensor Step::micro_step(const nn::Batch& present) {
  const ScopedFlag in_micro_step(in_micro_step_, true);
  SHADE_REQUIRE(present.rows_per_sample == 1 || !model_->sums_tokens(),
                "the loss of a sample of several records is the mean of theirs, and the model's losses are sums over "
                "tokens; choose LossMean::record");
  const auto batch = shapes_ ? shapes_->padded(present) : present;
  count_positions(batch);
  written_.begin();
  model_->parameters().wiring.rows_per_sample = batch.rows_per_sample;
  method_->begin(batch.samples(), batch.samples() - present.samples());
  at::Tensor losses_B;
  {
    const Span span(SpanName::forward);
    const MemoryScope scope(MemoryKind::activations);
    runtime_->begin_forward();
    losses_B = nn::sample_losses(model_->losses(batch), batch);
  }
  SHADE_REQUIRE(losses_B.requires_grad(),
                "the model's losses depend on none of its trained weights; compute them by its layers, and without "
                "detach() or a NoGradGuard");
  if (is_private()) refuse_foreign_leaves(losses_B);
  const auto present_B = losses_B.detach().narrow(0, 0, present.samples());
  const auto loss = summed(present_B, model_->sums_tokens() ? model_->loss_tokens(present) : at::ones_like(present_B),
                           /*finite_alone=*/is_private());
  const auto passes = method_->passes();
  for (size_t i = 0; i < passes.size(); ++i)
    backward(passes.size() == 1 ? SpanName::backward
             : i == 0           ? SpanName::first_backward
                                : SpanName::second_backward,
             method_->objective(losses_B, i), {.final_on_leave = passes[i].gradients, .last_use = passes[i].last});
  losses_B.reset();
  method_->finish();
  if (is_private()) written_.require_all(/*says_complete=*/!passes.back().gradients);
  runtime_->end_micro_step();
  return loss;
}

void Step::count_positions(const nn::Batch& batch) {
  const auto [samples, each] = models::padded_positions(*model_, batch);
  positions_ += static_cast<double>(samples * each);
  squared_positions_ += static_cast<double>(samples * each * each);
}

void Step::require_whole() const {
  SHADE_REQUIRE(!under_way_,
                "a step failed before its end, and parts of its sums may be left; start again from the last "
                "checkpoint, with a new Job (or Runtime and Step)");
  SHADE_REQUIRE(taps_model(),
                "another Step was made for this model, or its layers report elsewhere (Wiring::tap), so this one would "
                "see no gradient; use the last one that was made");
}

Step::Losses Step::gradients(std::span<const nn::Batch> micro_batches) {
  require_whole();
  under_way_ = true;
  Readings numbers;
  const auto loss = numbers.add(sum_gradients(micro_batches), 2);
  numbers.read();
  under_way_ = false;
  return {numbers[loss], std::llround(numbers[loss + 1])};
}

at::Tensor Step::sum_gradients(std::span<const nn::Batch> micro_batches) {
  // Samples of gradients() before: the noise of a count that is released is made for those of one step.
  if (is_private()) method_->drain_counted();
  const auto batches = split(micro_batches);
  runtime_->begin_step(static_cast<int64_t>(batches.size()));
  if (is_private() && !separate_) require_separate(batches);
  at::Tensor sum;  // and number
  for (const auto& batch : batches) {
    const auto loss = micro_step(batch);
    sum = sum.defined() ? sum + loss : loss;
  }
  {
    const Span span(SpanName::reduce);
    runtime_->wait();
  }
  return sum;
}

// The same noise on two sums would give away their difference.
void Step::require_new_noise(int64_t step) const {
  SHADE_REQUIRE(options_.rehearsal || !noised_ || step > *noised_, "the noise of step ", step,
                " was drawn before, or that of a later step (", noised_.value_or(0),
                "); after going back to an earlier state make a new Step, whose key is another one");
}

void Step::begin_noise(int64_t step) {
  require_new_noise(step);
  noised_ = step;
  ++draws_;
}

// All elements have the same noise, whatever the style: thresholds of groups add up to one C.
double Step::noise_deviation() const { return clipper().gradient_sigma() * clipper().sensitivity(); }

void Step::add_noise() {
  SHADE_REQUIRE(is_private(), "a step that is not private has no noise; set StepOptions::privacy");
  require_whole();
  SHADE_REQUIRE(options_.rehearsal,
                "add_noise() is for rehearsals (StepOptions::rehearsal); run() releases sums, and counts them");
  begin_noise(optimizer_->steps());
  const auto shards = runtime_->shards();
  HostSums sums(shards, runtime_->device());
  add_noise(shards, sums);
}

void Step::add_noise(std::span<const shard::LocalShard> shards, HostSums& sums) const {
  const Span span(SpanName::noise);
  const double deviation = noise_deviation();
  const auto values = sums.values();
  for (size_t i = 0; i < shards.size(); ++i)
    for (const auto& run : shards[i].runs)
      noise_->add(values[i].narrow(0, run.at, run.size), deviation, *noised_, run.weight->id(), run.begin);
  sums.give_back();
}

// A record that two ranks or two micro-batches bring moves the sum twice: by more than the noise is made for.
void Step::require_distinct(std::span<const nn::Batch> micro_batches) const {
  std::vector<int64_t> mine;
  bool known = true;
  for (const auto& batch : micro_batches) {
    known = known && std::ssize(batch.records) == batch.samples() &&
            std::all_of(batch.records.begin(), batch.records.end(), [](int64_t id) { return id >= 0; });
    mine.insert(mine.end(), batch.records.begin(), batch.records.end());
  }
  const auto& control = runtime_->groups().control;
  const auto gathered = [&](const at::Tensor& own, const char* label) {
    const auto all = at::empty({own.numel() * control.size()}, at::kLong);
    control.all_gather(all, own, {.label = label}).wait();
    return all;
  };
  const auto counts = gathered(at::full({1}, known ? std::ssize(mine) : -1, at::kLong), "number of records");
  SHADE_REQUIRE(counts.min().item<int64_t>() >= 0,
                "a private step must know which record each sample is (nn::Batch::records, from 0), to see that none "
                "comes twice; set it on every batch");
  const auto most = std::max<int64_t>(1, counts.max().item<int64_t>());
  mine.resize(static_cast<size_t>(most), -1);
  const auto sorted = std::get<0>(gathered(at::tensor(mine, at::kLong), "records").sort());
  const auto here = sorted.narrow(0, 1, sorted.numel() - 1), before = sorted.narrow(0, 0, sorted.numel() - 1);
  const auto twice = ((here == before) & (here >= 0)).nonzero();
  if (runtime_->device().is_meta()) return;  // a plan: there are no records, and other ranks are copies of this one
  const auto unit = to_string(options_.privacy->unit);
  SHADE_REQUIRE(twice.numel() == 0, unit, " ", twice.numel() == 0 ? 0 : here[twice[0][0]].item<int64_t>(),
                " comes twice in one private step, on two ranks or in two micro-batches, so it would move the sum by "
                "twice the clip norm; deal each ",
                unit, " to one place (train/feed/loader.h)");
}

// With what else is released: the count of adaptive clipping, and the clip norm that both are made with.
hash::Digest Step::digest_of_sum(int64_t step, std::span<const shard::LocalShard> shards, double below) const {
  const auto device = runtime_->device();
  const bool planned = device.is_meta() && !shards.empty() && !nn::few_launches(shards.front().gradient);  // for a CPU
  if (!device.is_cpu() && !planned) return {};  // checkpoint::kNotKnown: such a step is never made again
  const Span span(SpanName::hash);
  return sum_digest(options_.key(step), shards, {below, clipper().clip_norm()}, runtime_->groups().control);
}

StepRecord Step::run(std::span<const nn::Batch> micro_batches, std::optional<double> divisor, Wishes wishes) {
  require_whole();
  if (!divisor && is_private() && options_.privacy->divisor > 0) divisor = options_.privacy->divisor;
  SHADE_REQUIRE(!micro_batches.empty() && divisor.value_or(1) > 0,
                "a step needs at least one micro-batch, and a positive divisor");
  SHADE_REQUIRE(!is_private() || divisor,
                "a private step needs a divisor that is public: a number of samples or tokens tells about the records");
  SHADE_REQUIRE(!is_private() || options_.rehearsal || shapes_,
                "a private step needs StepOptions::micro_shapes, the number of samples of its micro-batches: if that "
                "followed the records that were drawn, one of them could change how the others are rounded");
  StepRecord record{.learning_rate = schedule_.learning_rate(optimizer_->steps())};
  if (is_private()) require_new_noise(optimizer_->steps());
  if (is_private() && !options_.rehearsal) require_distinct(micro_batches);
  under_way_ = true;
  positions_ = squared_positions_ = 0;
  const auto losses = sum_gradients(micro_batches);
  const auto shards = runtime_->shards();
  const bool normed = !is_private() && (options_.grad_clip > 0 || options_.gradient_norm);
  std::optional<HostSums> sums;
  if (is_private()) sums.emplace(shards, runtime_->device());
  Readings numbers;  // where the host waits for its device; `sums` are there then
  const auto loss = numbers.add(losses, 2), counts = numbers.add(method_->drain_counted(), 4);
  const auto square = numbers.add(normed ? optim::squared_norm(slots_of(shards)) : at::Tensor());
  std::vector<std::pair<size_t, size_t>> tokens;  // of each sample: where they begin and end
  for (const auto& batch : micro_batches) {
    const auto tokens_B = models::real_tokens(*model_, batch);
    const auto begin = numbers.add(tokens_B, tokens_B.numel());
    tokens.emplace_back(begin, begin + static_cast<size_t>(tokens_B.numel()));
  }
  numbers.read();
  const bool stops = wishes.stop || (options_.stop && options_.stop());
  StepSums all{.loss = numbers[loss],
               .losses = numbers[loss + 1],
               .positions = std::exchange(positions_, 0),
               .squared_positions = std::exchange(squared_positions_, 0),
               .squared_norm = numbers[square] / static_cast<double>(runtime_->policy().replicate),
               .clipped = numbers[counts + 1],
               .not_finite = numbers[counts + 2],
               .below = numbers[counts + 3],
               .stop = stops ? 1.0 : 0.0,
               .save = wishes.save ? 1.0 : 0.0};
  for (const auto& batch : micro_batches) all.samples += static_cast<double>(batch.samples());
  for (const auto& [begin, end] : tokens)
    for (auto place = begin; place < end; ++place) {
      all.tokens += numbers[place];
      all.squared_tokens += numbers[place] * numbers[place];
    }
  all.reduce(runtime_->groups().control);
  record.loss = all.loss / all.losses;
  double scale = 1 / divisor.value_or(std::max(1.0, all.losses));
  record.samples = {.samples = static_cast<int64_t>(all.samples),
                    .clipped = static_cast<int64_t>(all.clipped),
                    .not_finite = static_cast<int64_t>(all.not_finite),
                    .below = all.below};
  record.tokens = static_cast<int64_t>(all.tokens);
  record.padded_tokens = static_cast<int64_t>(all.positions);
  record.length = all.squared_tokens / std::max(1.0, all.tokens);
  record.padded_length = all.squared_positions / std::max(1.0, all.positions);
  record.stop = all.stop > 0;
  record.save = all.save > 0;
  if (normed) record.gradient_norm = std::sqrt(all.squared_norm) * scale;
  // No factor mends a gradient that is not finite; the record says so (train/run/trainer.cpp).
  if (normed && options_.grad_clip > 0 && std::isfinite(*record.gradient_norm))
    scale *= optim::clip_factor(*record.gradient_norm, options_.grad_clip);
  const double noise = is_private() ? noise_deviation() : 0;  // before adaptive clipping moves the clip norm
  const auto together = shapes_ ? options_.micro_shapes.most() : 0;
  SHADE_REQUIRE(!is_private() || record.samples.samples + privacy::kHeaviestTerm * together <= privacy::kMostSummed,
                "a private step of ", record.samples.samples, " samples in micro-batches of up to ", together,
                "; its sum is exact for ", privacy::kMostSummed, " together with ", privacy::kHeaviestTerm,
                " times the micro-batch. Choose a smaller batch or micro-batch");
  if (is_private()) release(shards, *sums, all.below, *divisor, record);
  const ScopedFlag released(*released_, is_private());
  if (is_private() || record.samples.samples > 0) {
    const Span span(SpanName::optimizer);
    const MemoryScope scope(MemoryKind::optimizer);
    optimizer_->step(slots_of(runtime_->shards()), record.learning_rate, scale, noise);
  } else {  // momentum and weight decay would move the weights
    optimizer_->skip();
  }
  runtime_->updated();
  under_way_ = false;
  return record;
}

// From the sum to what may leave: the noise, and of adaptive clipping the noisy count, which moves the clip norm.
void Step::release(std::span<const shard::LocalShard> shards, HostSums& sums, double below, double divisor,
                   StepRecord& record) {
  const auto step = optimizer_->steps();
  begin_noise(step);
  if (options_.before_noise) options_.before_noise(step, digest_of_sum(step, shards, below));
  if (runtime_->device().is_cpu() || runtime_->device().is_meta()) {  // a piece at a time, while it is in a cache
    const Span span(SpanName::noise);
    const double deviation = noise_deviation();
    runtime_->narrow_gradients([&](const at::Tensor& piece, const nn::Weight& weight, int64_t begin) {
      noise_->add(piece, deviation, step, weight.id(), begin);
    });
  } else {
    add_noise(shards, sums);
    runtime_->narrow_gradients();
  }
  record.clip_norm = clipper().clip_norm();
  if (!clipper().adaptive()) return;
  clipper().follow(noise_->added(below, clipper().count_sigma(), step, -1), divisor);
}

}  // namespace shade::train
