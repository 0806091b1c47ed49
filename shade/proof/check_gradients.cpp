#include "shade/proof/check_gradients.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "shade/base/error.h"
#include "shade/proof/norm_details.h"
#include "shade/train/job.h"

namespace shade::proof {
namespace {

constexpr uint64_t kNoiseSeed = 11;
constexpr double kSigma = 1;

// What one reference answers for, and the strategy that is compared with it.
struct Case {
  const GradientCheck* check;
  at::Device device = at::kCPU;  // of what is checked
  nn::DType dtype = nn::DType::fp32;
  int64_t micro_steps = 1;
  double clip_norm = 1;
  int64_t most = 1;  // samples of a micro-batch
  shard::ShardConfig shard{};
};

// Weights that hide nothing: where a model begins at zero (adaLN, LoRA's B, biases) half of the gradients would be too.
at::Tensor value_of(const nn::Weight& weight, uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed * 1000 + static_cast<uint64_t>(weight.id()));
  const bool constant = weight.init().kind == nn::Init::Kind::constant;
  const double spread = constant ? 0.1 : std::max(0.1, weight.init().value);
  return at::randn(weight.shape(), generator, at::kFloat).mul_(spread).add_(constant ? weight.init().value : 0);
}

// The definition: each sample alone, its whole gradient, its norm, the clipped sum in fp64. The gradient of a sample of
// several records is the mean of theirs.
struct Reference {
  std::vector<std::vector<double>> norms;                              // by rank, in the order of its samples
  std::vector<std::map<nn::WeightId, std::vector<double>>> by_weight;  // squared, by rank
  std::map<nn::WeightId, at::Tensor> sum;
};

struct SampleGradient {
  int rank;
  std::map<nn::WeightId, at::Tensor> parts;
};

// The records that a sample is made of, each alone.
std::vector<nn::Batch> records_of(const nn::Batch& batch, int64_t sample) {
  auto rows = batch;
  rows.rows_per_sample = 1;
  rows.present_B.reset();
  rows.records.clear();
  std::vector<nn::Batch> out;
  for (auto row = sample * batch.rows_per_sample; row < (sample + 1) * batch.rows_per_sample; ++row)
    if (!batch.present_B.defined() || batch.present_B[row].item<int64_t>() == 1) out.push_back(rows.rows(row, 1));
  return out;
}

// On the CPU, whatever is checked: another device's kernels must give the same. In bf16 two devices round as far apart
// as the tolerance is, so there the definition is computed where it is compared.
std::vector<SampleGradient> sample_gradients(const Case& c, int ranks) {
  const auto model = c.check->make_model();
  const auto device = c.dtype == nn::DType::bf16 ? c.device : at::Device(at::kCPU);
  for (auto& weight : model->parameters().weights())
    weight.bind(value_of(weight, c.check->seed).to(device, nn::scalar_type(c.dtype)));
  nn::PlainGradients gradients(c.dtype == nn::DType::fp64 ? at::kDouble : at::kFloat);
  model->parameters().wiring.tap = &gradients;
  std::vector<SampleGradient> out;
  for (int rank = 0; rank < ranks; ++rank)
    for (int64_t m = 0; m < c.micro_steps; ++m) {
      const auto batch = c.check->batch(*model, c.dtype, rank, m).to(device);
      for (int64_t i = 0; i < batch.samples(); ++i) {
        gradients.free();
        const auto records = records_of(batch, i);
        for (const auto& record : records)
          torch::autograd::backward({model->losses(record).sum() / static_cast<double>(records.size())}, {});
        out.push_back({rank, {}});
        for (const auto& weight : model->parameters().weights())
          if (weight.trainable())
            out.back().parts[weight.id()] = gradients.of(weight).cpu().to(at::kDouble, false, /*copy=*/true);
      }
    }
  return out;
}

// Clipping by its definition, in another way than privacy/clip does it.
std::map<std::string, double> factors(const nn::Parameters& parameters, const SampleGradient& sample, const Case& c) {
  const auto& clip = c.check->clip;
  const auto group = [&](const nn::Weight& weight) -> std::string {
    switch (clip.style) {
      case privacy::ClipStyle::per_layer: return weight.name().substr(0, weight.name().rfind('.'));
      case privacy::ClipStyle::group: return std::to_string(weight.unit());
      default: return "";
    }
  };
  std::map<std::string, double> squares;
  for (const auto& weight : parameters.weights())
    if (weight.trainable()) squares[group(weight)] += sample.parts.at(weight.id()).square().sum().item<double>();
  const double threshold = c.clip_norm * (1 - privacy::clip_margin(nn::scalar_type(c.dtype))) /
                           std::sqrt(static_cast<double>(squares.size()));
  std::map<std::string, double> out;
  for (const auto& weight : parameters.weights()) {
    if (!weight.trainable()) continue;
    const double norm = std::sqrt(squares[group(weight)]);
    out[weight.name()] = clip.style == privacy::ClipStyle::automatic ? threshold / (norm + clip.gamma)
                                                                     : (norm > threshold ? threshold / norm : 1.0);
  }
  return out;
}

Reference reference(const Case& c, const nn::Parameters& parameters, const std::vector<SampleGradient>& samples,
                    int ranks) {
  Reference out;
  out.norms.resize(static_cast<size_t>(ranks));
  out.by_weight.resize(static_cast<size_t>(ranks));
  for (const auto& sample : samples) {
    const auto factor = factors(parameters, sample, c);
    double square = 0;
    for (const auto& weight : parameters.weights()) {
      if (!weight.trainable()) continue;
      const auto& part = sample.parts.at(weight.id());
      const double mine = part.square().sum().item<double>();
      square += mine;
      out.by_weight[static_cast<size_t>(sample.rank)][weight.id()].push_back(mine);
      auto& sum = out.sum[weight.id()];
      const auto clipped = part * factor.at(weight.name());
      sum = sum.defined() ? sum + clipped : clipped;
    }
    out.norms[static_cast<size_t>(sample.rank)].push_back(std::sqrt(square));
  }
  return out;
}

// Half of the samples are clipped, half are not.
double middle_norm(const std::vector<SampleGradient>& samples) {
  std::vector<double> norms;
  for (const auto& sample : samples) {
    double square = 0;
    for (const auto& [id, part] : sample.parts) square += part.square().sum().item<double>();
    norms.push_back(std::sqrt(square));
  }
  SHADE_REQUIRE(!norms.empty(), "no rank has a sample to check gradients with; make batches of one sample or more");
  std::sort(norms.begin(), norms.end());
  return norms[norms.size() / 2] * 0.9;
}

// Of the released sum, by its definition: the event's, and with adaptive clipping what pays for the count as well.
double noise_deviation(const privacy::PrivacyEvent& event, const privacy::ClipOptions& clip) {
  if (clip.style != privacy::ClipStyle::adaptive) return event.noise_deviation();
  const double sigma = event.mechanism.noise_multiplier, count = clip.count_sigma;
  return 1 / std::sqrt(1 / (sigma * sigma) - 1 / (4 * count * count)) * event.clip_norm;
}

struct Differences {
  double norm = 0, gradient = 0;
  bool noise_equal = true;
  std::vector<std::string> details{};
};

double relative(double found, double wanted) {
  return std::isfinite(found) ? std::abs(found - wanted) / std::max(std::abs(wanted), 1e-30)
                              : std::numeric_limits<double>::infinity();
}

Differences compare(comm::World& world, const Case& c, const CheckedMethod& checked, const Reference& wanted,
                    const shard::Groups& groups) {
  const auto model = c.check->make_model();
  auto& parameters = model->parameters();
  const auto fill = [&](shard::Runtime& weights) {
    weights.fill([&](const nn::Weight& weight, int64_t begin, at::Tensor out) {
      out.copy_(value_of(weight, c.check->seed).view(-1).narrow(0, begin, out.numel()));
    });
  };
  const privacy::PrivacyEvent event{.mechanism = {.noise_multiplier = kSigma}, .clip_norm = c.clip_norm, .divisor = 1};
  train::Job job(world, {.model = model.get(),
                         .privacy = event,
                         .method = checked.make,
                         .noise_seed = kNoiseSeed,
                         .shard = c.shard,
                         .dtype = c.dtype,
                         .micro_batch = c.most,
                         .weights = fill,
                         .groups = groups,
                         .rehearsal = true});
  auto& runtime = job.runtime();
  auto& method = job.method();
  method.record_norms(true);
  const int rank = world.rank();
  std::vector<nn::Batch> batches;
  for (int64_t m = 0; m < c.micro_steps; ++m)
    batches.push_back(c.check->batch(*model, c.dtype, rank, m).to(job.device()));
  job.gradients(batches);

  Differences out;
  const auto& norms = wanted.norms[static_cast<size_t>(rank)];
  size_t at = 0;
  for (const auto& recorded : method.drain_norms()) {
    const auto squares = recorded.squares_B.cpu();
    for (int64_t i = 0; i < squares.numel(); ++i, ++at) {
      const double norm = std::sqrt(squares[i].item<double>());
      out.norm = std::max(out.norm, at < norms.size() ? relative(norm, norms[at]) : INFINITY);
      if (c.check->verbose)
        add_lines(out.details, parameters,
                  {.rank = rank,
                   .sample = at,
                   .recorded = recorded,
                   .in_batch = i,
                   .wanted = wanted.by_weight[static_cast<size_t>(rank)]});
    }
  }
  if (at != norms.size()) out.norm = INFINITY;

  double size = 0, whole = 0;
  for (const auto& [id, sum] : wanted.sum) size += sum.square().sum().item<double>();
  std::map<nn::WeightId, at::Tensor> clean;
  for (const auto& weight : parameters.weights()) {
    if (!weight.trainable()) continue;
    clean[weight.id()] = runtime.whole(weight, shard::Runtime::Part::gradient).cpu();
    const auto& truth = wanted.sum.at(weight.id());
    const double gap = (clean[weight.id()].to(at::kDouble) - truth).norm().item<double>();
    whole += gap * gap;
    // Weight by weight; one whose true gradient is next to nothing is measured by the whole.
    const double scale = std::max(truth.norm().item<double>(), 1e-2 * std::sqrt(size));
    if (c.dtype != nn::DType::bf16) out.gradient = std::max(out.gradient, std::isfinite(gap) ? gap / scale : INFINITY);
  }
  // In bf16 a sample's products are rounded differently alone and in a batch: 1 to 2 % of a small weight's gradient.
  if (c.dtype == nn::DType::bf16) out.gradient = std::isfinite(whole) ? std::sqrt(whole / size) : INFINITY;
  // The noise, drawn shard by shard, is the noise of the whole weight.
  job.add_noise();
  const privacy::Noise noise(privacy::seeded_key(kNoiseSeed));
  const double deviation = noise_deviation(event, c.check->clip);
  for (const auto& weight : parameters.weights()) {
    if (!weight.trainable()) continue;
    auto expected = clean[weight.id()].view(-1);
    noise.add(expected, deviation, 0, weight.id(), 0);
    if (!runtime.whole(weight, shard::Runtime::Part::gradient).cpu().view(-1).equal(expected)) out.noise_equal = false;
  }
  return out;
}

int64_t most_samples(const GradientCheck& check, nn::DType dtype, int ranks, int64_t micro_steps) {
  const auto model = check.make_model();
  int64_t most = 1;
  for (int rank = 0; rank < ranks; ++rank)
    for (int64_t m = 0; m < micro_steps; ++m) most = std::max(most, check.batch(*model, dtype, rank, m).samples());
  return most;
}

// Groups by the shape of their mesh: names of groups are unique in a world.
using Meshes = std::map<std::pair<int, int>, shard::Groups>;

shard::Groups groups_of(comm::World& world, const shard::ShardConfig& config, Meshes& meshes) {
  const auto policy = shard::policy_of(config, world.size());
  const std::pair shape{policy.replicate, policy.shard};
  if (!meshes.contains(shape)) meshes[shape] = shard::connect_groups(world, policy, "check ");
  auto groups = meshes[shape];
  groups.policy = policy;
  return groups;
}

VerifyRow row_of(comm::World& world, const Case& c, const CheckedMethod& method, const Reference& truth,
                 const shard::Groups& groups) {
  auto found = compare(world, c, method, truth, groups);
  auto worst = at::empty({world.size() * 3}, at::kDouble);
  groups.control
      .all_gather(worst, at::tensor({found.norm, found.gradient, found.noise_equal ? 0.0 : 1.0}, at::kDouble),
                  {.label = "differences"})
      .wait();
  worst = std::get<0>(worst.view({world.size(), 3}).max(0));
  VerifyRow row{
      .method = method.name,
      .strategy = to_string(c.shard.shard),
      .dtype = to_string(c.dtype),
      .model = c.check->label,
      .ranks = world.size(),
      .micro_steps = c.micro_steps,
      .max_rel_norm = worst[0].item<double>(),
      .max_rel_grad = worst[1].item<double>(),
      .noise_equal = worst[2].item<double>() == 0,
      .details = c.check->verbose ? gathered_lines(groups.control, found.details) : std::vector<std::string>{}};
  row.pass = row.max_rel_norm <= tolerance(c.dtype) && row.max_rel_grad <= tolerance(c.dtype) && row.noise_equal;
  return row;
}

void run(comm::World& world, const GradientCheck& check, Meshes& meshes, const std::function<void(VerifyRow)>& done) {
  SHADE_REQUIRE(check.make_model && check.batch, "a check of gradients needs make_model and batch");
  const auto methods = check.methods.empty() ? checked_methods(catalog::private_methods(), check.clip) : check.methods;
  const auto strategies = check.strategies.empty() ? catalog::strategies_for(world.size()) : check.strategies;
  for (const auto dtype : check.dtypes)
    for (const auto steps : check.micro_steps) {
      Case c{.check = &check, .device = world.device(), .dtype = dtype, .micro_steps = steps};
      c.most = most_samples(check, dtype, world.size(), steps);
      const auto samples = sample_gradients(c, world.size());
      c.clip_norm = middle_norm(samples);
      const auto truth = reference(c, check.make_model()->parameters(), samples, world.size());
      for (const auto strategy : strategies) {
        c.shard.shard = strategy;
        c.shard.segment = KiB(16);  // several segments in a unit
        const auto groups = groups_of(world, c.shard, meshes);
        for (const auto& method : methods) done(row_of(world, c, method, truth, groups));
      }
    }
}

}  // namespace

double tolerance(nn::DType dtype) {
  switch (dtype) {
    case nn::DType::fp64: return 1e-10;
    case nn::DType::bf16: return 1e-2;
    case nn::DType::fp32: break;
  }
  return 1e-5;
}

Json VerifyRow::json() const {
  return {{"method", method},
          {"strategy", strategy},
          {"ranks", ranks},
          {"dtype", dtype},
          {"model", model},
          {"micro_steps", micro_steps},
          {"max_rel_norm", max_rel_norm},
          {"max_rel_grad", max_rel_grad},
          {"noise_equal", noise_equal},
          {"pass", pass}};
}

std::vector<CheckedMethod> checked_methods(std::span<const privacy::MethodName> names,
                                           const privacy::ClipOptions& options) {
  std::vector<CheckedMethod> out;
  for (const auto name : names) out.push_back({to_string(name), privacy::method_of(name, options)});
  return out;
}

std::vector<VerifyRow> check_gradients(comm::World& world, std::span<const GradientCheck> checks,
                                       const std::function<void()>& row_done) {
  nn::use_device(world.device());
  Meshes meshes;
  std::vector<VerifyRow> rows;
  for (const auto& check : checks)
    run(world, check, meshes, [&](VerifyRow row) {
      rows.push_back(std::move(row));
      if (world.rank() == 0 && row_done) row_done();
    });
  return rows;
}

}  // namespace shade::proof
