#include "shade/proof/check_gradients.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "shade/base/error.h"
#include "shade/base/json.h"
#include "shade/base/strings.h"
#include "shade/comm/group.h"
#include "shade/comm/job/sealed_store.h"
#include "shade/models/flops.h"
#include "shade/nn/parameters.h"
#include "shade/privacy/clip/method.h"
#include "shade/proof/meshes.h"
#include "shade/proof/noise_figures.h"
#include "shade/proof/reference.h"
#include "shade/train/step/job.h"

namespace shade::proof {
namespace {

// Lines for `shade verify --verbose`: the norms of each sample, layer by layer and in all, beside their definition.

// Sample `in_batch` of a recorded micro-batch.
struct NormDetails {
  int rank;
  size_t sample;  // of this rank, over its micro-batches
  const privacy::RecordedNorms& recorded;
  int64_t in_batch;
  const std::map<nn::WeightId, std::vector<double>>& wanted;  // squared, by sample
};

// A line per trainable weight, and one for the sample: its norm before any reduction over ranks (the sum over layers on
// its own rank), after it (what it is clipped by), and by definition.
void add_lines(std::vector<std::string>& to, const nn::Parameters& parameters, const NormDetails& details) {
  const auto sample = text("rank ", details.rank, " sample ", details.sample, " ");
  double before = 0, wanted = 0;
  for (const auto& weight : parameters.weights()) {
    if (!weight.trainable()) continue;
    const double mine = details.recorded.by_weight.at(weight.id())[details.in_batch].item<double>();
    const double truth = details.wanted.at(weight.id())[details.sample];
    before += mine;
    wanted += truth;
    to.push_back(text(sample, weight.name(), " norm ", std::sqrt(mine), " expected ", std::sqrt(truth)));
  }
  const double after = details.recorded.squares_B[details.in_batch].item<double>();
  to.push_back(text(sample, "total norm ", std::sqrt(before), " before reduction, ", std::sqrt(after),
                    " after reduction, expected ", std::sqrt(wanted)));
}

// The lines of all ranks, by rank, on every rank: one process prints them, so none is cut into another. Collective.
std::vector<std::string> gathered_lines(const comm::Group& group, const std::vector<std::string>& mine) {
  const auto words = join(mine, "\n");
  auto sizes = at::empty({group.size()}, at::kLong);
  group.all_gather(sizes, at::tensor({static_cast<int64_t>(words.size())}, at::kLong), {.label = "size of details"})
      .wait();
  std::vector<std::string> out;
  const auto most = static_cast<size_t>(sizes.max().item<int64_t>());
  if (most == 0) return out;
  for (const auto& rank : comm::gather_texts(group, words, most, "details")) {
    if (rank.empty()) continue;
    const auto lines = split(rank, '\n');
    out.insert(out.end(), lines.begin(), lines.end());
  }
  return out;
}

constexpr uint64_t kNoiseSeed = 11;
constexpr double kSigma = 0.7;  // not 1: a factor that is forgotten would not be seen

// What one reference answers for, and the strategy that is compared with it.
struct Case {
  const GradientCheck* check;
  nn::DType dtype = nn::DType::fp32;
  int64_t micro_steps = 1;
  ClipRule rule{};
  int64_t most = 1;       // samples of a micro-batch
  int64_t positions = 1;  // of a sample, at most
  shard::ShardConfig shard{};
  bool alone = false;  // each sample is the only one of a step, too
};

// What the reference says of a case.
struct Truth {
  ExpectedSum expected;
  Source source;
  double difference = 0;  // of the gradients from differences of losses
};

std::vector<SampleGradient> sample_gradients(const Case& c, int ranks, Source& source) {
  Reference reference(c.check->make_model(), c.dtype, c.check->seed);
  std::vector<SampleGradient> out;
  for (int rank = 0; rank < ranks; ++rank)
    for (int64_t m = 0; m < c.micro_steps; ++m) {
      const auto batch = c.check->batch(reference.model(), c.dtype, rank, m);
      for (int64_t i = 0; i < batch.samples(); ++i) {
        out.push_back(reference.gradient(batch, i));
        out.back().rank = rank;
      }
    }
  source = reference.source();
  return out;
}

// Of all ranks' first micro-batches. A reference that reads the tap is always compared.
double difference_of(const GradientCheck& check, int ranks, Source source) {
  const int directions = source == Source::tap ? std::max(1, check.directions) : check.directions;
  Reference reference(check.make_model(), nn::DType::fp64, check.seed);
  const bool slopes = !reference.model().stops_gradients();
  SHADE_REQUIRE(
      slopes || source == Source::autograd, "the gradients of ", check.label,
      " can't be judged: autograd doesn't see a layer's weights, and a part "
      "of the loss is a constant, so that differences of losses say nothing; give its layers a plain forward");
  if (directions == 0 || !slopes) return 0;
  double worst = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto batch = check.batch(reference.model(), nn::DType::fp64, rank, 0);
    worst = std::max(worst, largest_difference(reference, batch, {.directions = directions, .seed = check.seed}));
  }
  return worst;
}

struct Differences {
  double norm = 0, gradient = 0;
  double share = 0;  // of one sample alone: the length of its part in the sum, over C
  double noise_ratio = 0;
  bool noise_equal = true, noise_plausible = true;
  std::vector<std::string> details{};
};

double relative(double found, double wanted) {
  if (!std::isfinite(wanted)) return std::isfinite(found) ? INFINITY : 0;
  return std::isfinite(found) ? std::abs(found - wanted) / std::max(std::abs(wanted), 1e-30) : INFINITY;
}

// A job on its own model, and what it is asked for.
class Checked {
 public:
  Checked(comm::World& world, const Case& c, const CheckedMethod& method, const shard::Groups& groups)
      : case_(&c),
        rank_(world.rank()),
        ranks_(world.size()),
        model_(c.check->make_model()),
        job_(world, {.model = model_.get(),
                     .step = {.privacy = privacy::PrivacyEvent{.mechanism = {.noise_multiplier = kSigma},
                                                               .clip_norm = c.rule.clip_norm,
                                                               .divisor = 1},
                              .method = method.make,
                              .noise_seed = kNoiseSeed,
                              .rehearsal = true},
                     .shard = c.shard,
                     .dtype = c.dtype,
                     .micro_batch = c.most,
                     .weights = [&](shard::Runtime& weights) { fill(weights); },
                     .groups = groups}) {
    job_.method().record_norms(true);
    for (int64_t m = 0; m < c.micro_steps; ++m)
      batches_.push_back(c.check->batch(*model_, c.dtype, rank_, m).to(job_.device()));
  }

  Differences compare(const ExpectedSum& wanted) {
    Differences out;
    job_.gradients(batches_);
    compare_norms(wanted, out);
    const auto clean = whole();
    compare_sum(wanted, clean, out);
    job_.add_noise();
    compare_noise(clean, out);
    if (case_->alone) try_alone(out);
    return out;
  }

 private:
  using Whole = std::map<nn::WeightId, at::Tensor>;

  void fill(shard::Runtime& weights) const {
    weights.fill([&](const nn::Weight& weight, int64_t begin, at::Tensor out) {
      out.copy_(checked_value(weight, case_->check->seed).view(-1).narrow(0, begin, out.numel()));
    });
  }

  // Collective.
  Whole whole() {
    Whole out;
    for (const auto& weight : model_->parameters().weights())
      if (weight.trainable())
        out[weight.id()] = job_.runtime().whole(weight, shard::Runtime::Part::gradient).cpu().clone();
    return out;
  }

  void compare_norms(const ExpectedSum& wanted, Differences& out) {
    const auto& norms = wanted.norms[static_cast<size_t>(rank_)];
    size_t at = 0;
    for (const auto& recorded : job_.method().drain_norms()) {
      const auto squares = recorded.squares_B.cpu();
      for (int64_t i = 0; i < squares.numel(); ++i, ++at) {
        const double norm = std::sqrt(squares[i].item<double>());
        out.norm = std::max(out.norm, at < norms.size() ? relative(norm, norms[at]) : INFINITY);
        if (case_->check->verbose)
          add_lines(out.details, model_->parameters(),
                    {.rank = rank_,
                     .sample = at,
                     .recorded = recorded,
                     .in_batch = i,
                     .wanted = wanted.by_weight[static_cast<size_t>(rank_)]});
      }
    }
    if (at != norms.size()) out.norm = INFINITY;
  }

  // Weight by weight; one whose true gradient is next to nothing is measured by the whole. What the grid of the sum
  // does to each sample's numbers, up to 2^-33 C, counts as no difference. In bf16 products are rounded by 1 to 2 % of
  // a small weight's gradient: there the whole is measured.
  void compare_sum(const ExpectedSum& wanted, const Whole& clean, Differences& out) const {
    double size = 0, whole = 0;
    for (const auto& [id, sum] : wanted.sum) size += sum.square().sum().item<double>();
    for (const auto& [id, truth] : wanted.sum) {
      const double grid = std::ldexp(case_->rule.clip_norm, -33) * std::sqrt(static_cast<double>(truth.numel())) *
                          static_cast<double>(wanted.samples());
      const double off = (clean.at(id).to(at::kDouble) - truth).norm().item<double>();
      const double gap = off <= grid ? 0 : off - grid;  // not a number stays one
      whole += gap * gap;
      const double scale = std::max(truth.norm().item<double>(), 1e-2 * std::sqrt(size));
      if (case_->dtype != nn::DType::bf16)
        out.gradient = std::max(out.gradient, std::isfinite(gap) ? gap / scale : INFINITY);
    }
    if (case_->dtype == nn::DType::bf16) out.gradient = std::isfinite(whole) ? std::sqrt(whole / size) : INFINITY;
  }

  // Drawn shard by shard, it is the noise of the whole weight, bit by bit; and its numbers have the deviation that
  // follows from C, sigma and the style.
  void compare_noise(const Whole& clean, Differences& out) {
    const privacy::Noise noise(privacy::seeded_key(kNoiseSeed));
    const double deviation = case_->rule.noise_deviation(kSigma);
    NoiseFigures figures(deviation);
    const auto noisy = whole();
    for (const auto& [id, sum] : clean) {
      figures.add(noisy.at(id).to(at::kDouble) - sum.to(at::kDouble));
      const auto expected = sum.clone().view(-1);
      noise.add(expected, deviation, 0, id, 0);
      if (!noisy.at(id).view(-1).equal(expected)) out.noise_equal = false;
    }
    out.noise_ratio = figures.ratio();
    out.noise_plausible = figures.plausible();
  }

  // Every sample of the first micro-batches as the only one of all ranks: what it adds to the sum must not be longer
  // than C. There is no tolerance: the noise is made for C.
  void try_alone(Differences& out) {
    for (int rank = 0; rank < ranks_; ++rank) {
      const auto samples = case_->check->batch(*model_, case_->dtype, rank, 0).samples();
      for (int64_t i = 0; i < samples; ++i) {
        job_.runtime().updated();  // the gradients before are given up
        const auto batch = rank == rank_ ? batches_[0].rows(i, 1) : batches_[0].rows(0, 0);
        job_.gradients({&batch, 1});
        double square = 0;
        for (const auto& [id, sum] : whole()) square += sum.to(at::kDouble).square().sum().item<double>();
        const double share = std::sqrt(square) / case_->rule.clip_norm;
        out.share = std::max(out.share, std::isfinite(share) ? share : INFINITY);
      }
    }
    job_.method().drain_norms();
  }

  const Case* case_;
  int rank_, ranks_;
  std::unique_ptr<models::Model> model_;
  train::Job job_;
  std::vector<nn::Batch> batches_;
};

void look_at_batches(Case& c, int ranks) {
  const auto model = c.check->make_model();
  for (int rank = 0; rank < ranks; ++rank)
    for (int64_t m = 0; m < c.micro_steps; ++m) {
      const auto batch = c.check->batch(*model, c.dtype, rank, m);
      c.most = std::max(c.most, batch.samples());
      c.positions = std::max(c.positions, batch.rows_per_sample * models::padded_positions(*model, batch).each);
    }
}

VerifyRow row_of(comm::World& world, const Case& c, const CheckedMethod& method, const Truth& truth,
                 const shard::Groups& groups) {
  const auto found = Checked(world, c, method, groups).compare(truth.expected);
  const auto mine = at::tensor({found.norm, found.gradient, found.share, found.noise_ratio,
                                found.noise_equal ? 0.0 : 1.0, found.noise_plausible ? 0.0 : 1.0},
                               at::kDouble);
  auto all = at::empty({world.size() * mine.numel()}, at::kDouble);
  groups.control.all_gather(all, mine, {.label = "differences"}).wait();
  const auto worst = std::get<0>(all.view({world.size(), -1}).max(0));
  VerifyRow row{
      .method = method.name,
      .strategy = to_string(c.shard.shard),
      .dtype = to_string(c.dtype),
      .model = c.check->label,
      .style = to_string(c.rule.options.style),
      .reference = to_string(truth.source),
      .ranks = world.size(),
      .micro_steps = c.micro_steps,
      .max_rel_norm = worst[0].item<double>(),
      .max_rel_grad = worst[1].item<double>(),
      .max_rel_difference = truth.difference,
      .max_share = worst[2].item<double>(),
      .noise_ratio = worst[3].item<double>(),
      .noise_equal = worst[4].item<double>() == 0,
      .details = c.check->verbose ? gathered_lines(groups.control, found.details) : std::vector<std::string>{}};
  const bool noise = row.noise_equal && worst[5].item<double>() == 0;
  const double mark = tolerance(c.dtype, c.positions);
  row.pass = row.max_rel_norm <= mark && row.max_rel_grad <= mark && row.max_rel_difference <= kDifferenceMark &&
             row.max_share <= 1 && noise && (row.max_share > 0 || !c.alone);
  return row;
}

void run(comm::World& world, const GradientCheck& check, Meshes& meshes, const std::function<void(VerifyRow)>& done) {
  SHADE_REQUIRE(check.make_model && check.batch, "a check of gradients needs make_model, and batch or records");
  const auto methods = check.methods.empty() ? checked_methods(catalog::private_methods(), check.clip) : check.methods;
  const auto strategies = check.strategies.empty() ? catalog::strategies_for(world.size()) : check.strategies;
  std::optional<double> difference;
  for (const auto dtype : check.dtypes)
    for (const auto steps : check.micro_steps) {
      Case c{.check = &check, .dtype = dtype, .micro_steps = steps};
      look_at_batches(c, world.size());
      Truth truth;
      const auto samples = sample_gradients(c, world.size(), truth.source);
      if (!difference) difference = difference_of(check, world.size(), truth.source);
      truth.difference = *difference;
      c.rule = {.options = check.clip, .clip_norm = middle_norm(samples)};
      truth.expected = expected_sum(check.make_model()->parameters(), samples, c.rule, world.size());
      for (const auto strategy : strategies) {
        c.shard.shard = strategy;
        c.shard.segment = KiB(16);  // several segments in a unit
        c.alone = strategy == strategies.front();
        const auto groups = meshes.groups(world, c.shard);
        for (const auto& method : methods) done(row_of(world, c, method, truth, groups));
      }
    }
}

}  // namespace

double tolerance(nn::DType dtype, int64_t positions) {
  const double terms = 4 * std::pow(static_cast<double>(positions), 1.5);
  switch (dtype) {
    case nn::DType::fp64: return 1e-10 + terms * 0x1p-53;
    case nn::DType::bf16: return 2.5e-2;  // two computations whose kernels differ: 1.4e-2 measured
    case nn::DType::fp32: break;
  }
  return 1e-5 + terms * 0x1p-24;
}

namespace {

// Four, none and three records in turn, none of them twice while there are enough.
auto batches_of(const data::Dataset& records) {
  SHADE_REQUIRE(records.size() > 0, "gradients are checked on records, and the data set has none");
  return [&records](const models::Model&, nn::DType dtype, int rank, int64_t micro_step) {
    constexpr int64_t kSizes[] = {4, 0, 3}, kMostSteps = 16;
    std::vector<int64_t> numbers(static_cast<size_t>(kSizes[(rank + micro_step) % 3]));
    for (size_t i = 0; i < numbers.size(); ++i)
      numbers[i] = (4 * (kMostSteps * rank + micro_step) + static_cast<int64_t>(i)) % records.size();
    return in_type(records.batch(numbers), nn::scalar_type(dtype));
  };
}

}  // namespace

std::string VerifyRow::json() const {
  const Json out{{"method", method},
                 {"strategy", strategy},
                 {"ranks", ranks},
                 {"dtype", dtype},
                 {"model", model},
                 {"style", style},
                 {"reference", reference},
                 {"micro_steps", micro_steps},
                 {"max_rel_norm", max_rel_norm},
                 {"max_rel_grad", max_rel_grad},
                 {"max_rel_difference", max_rel_difference},
                 {"max_share", max_share},
                 {"noise_ratio", noise_ratio},
                 {"noise_equal", noise_equal},
                 {"pass", pass}};
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
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
  Meshes meshes("check");
  std::vector<VerifyRow> rows;
  for (auto check : checks) {
    if (!check.batch && check.records != nullptr) check.batch = batches_of(*check.records);
    run(world, check, meshes, [&](VerifyRow row) {
      rows.push_back(std::move(row));
      if (world.rank() == 0 && row_done) row_done();
    });
  }
  return rows;
}

namespace {

// Rounding costs 1e-16 / h and curvature h^2: far below the mark both.
constexpr double kStep = 1e-6;

double loss_of(models::Model& model, const std::vector<nn::Batch>& records) {
  const at::NoGradGuard no_graph;
  double out = 0;
  for (const auto& record : records) out += model.losses(record).sum().item<double>();
  return out / static_cast<double>(records.size());
}

using Direction = std::map<nn::WeightId, at::Tensor>;

void move(nn::Parameters& parameters, const Direction& direction, double by) {
  const at::NoGradGuard no_graph;
  for (auto& weight : parameters.weights())
    if (weight.trainable()) at::Tensor(weight.value()).add_(direction.at(weight.id()), by);
}

}  // namespace

double largest_difference(Reference& reference, const nn::Batch& batch, const DifferenceOptions& options) {
  auto& model = reference.model();
  auto& parameters = model.parameters();
  auto generator = at::make_generator<at::CPUGeneratorImpl>(options.seed);
  double worst = 0;
  for (int64_t sample = 0; sample < batch.samples(); ++sample) {
    const auto records = records_of(in_type(batch, at::kDouble), sample);
    const auto gradient = reference.gradient(batch, sample);
    if (!gradient.finite()) continue;
    for (int i = 0; i < options.directions; ++i) {
      Direction direction;
      double slope = 0;
      for (const auto& [id, part] : gradient.parts) {
        direction[id] = at::randn(part.sizes(), generator, at::kDouble);
        slope += (part * direction[id]).sum().item<double>();
      }
      move(parameters, direction, kStep);
      const double ahead = loss_of(model, records);
      move(parameters, direction, -2 * kStep);
      const double behind = loss_of(model, records);
      move(parameters, direction, kStep);
      const double found = (ahead - behind) / (2 * kStep);
      const double off = std::abs(found - slope) / std::max(std::sqrt(gradient.square()), 1e-3);
      worst = std::max(worst, std::isfinite(off) ? off : INFINITY);
    }
  }
  return worst;
}

}  // namespace shade::proof
