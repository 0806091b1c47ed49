#include "shade/plan/calibrate.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "shade/base/median.h"
#include "shade/base/terminal.h"
#include "shade/comm/world.h"
#include "shade/measure/collectives.h"
#include "shade/measure/experiment_job.h"
#include "shade/measure/feed.h"
#include "shade/nn/attention_kernels.h"
#include "shade/nn/device.h"
#include "shade/optim/adamw.h"
#include "shade/plan/dry_run.h"
#include "shade/privacy/noise.h"
#include "shade/profile/device.h"
#include "shade/profile/host_memory.h"
#include "shade/profile/memory.h"
#include "shade/profile/placement.h"

namespace shade::plan {
namespace {

// What a rank's process has in memory besides the pages of its tensors: the program and its libraries, threads, buffers
// of kernels and connections.
struct BesideTensors {
  Bytes fp32, bf16;  // of runs in this type
};

measure::Experiment small_experiment(int ranks) {
  measure::Experiment out;
  out.model.model = "llama3-8b";
  out.work.seq_length = 128;
  out.sizes = {.hidden_dim = 256, .num_layers = 2, .num_heads = 4, .num_kv_heads = 2, .ffn_dim = 768};
  out.sizes.vocab_size = 512;
  out.shard.shard = ranks > 1 ? catalog::Strategy::zero3 : catalog::Strategy::none;
  return out;
}

Bytes peak_resident(comm::World& world, const measure::Experiment& experiment, const shard::Groups& groups) {
  const auto model = models::make_model(experiment.model.model, experiment.sizes, experiment.model.options());
  measure::Feed feed(experiment, *model, world.place(), world.device());
  auto options = measure::job_options(experiment, *model, world.size());
  options.device = world.device();
  options.groups = groups;
  train::Job job(world, std::move(options));
  for (int step = 0; step < 2; ++step) job.step(feed.next());
  return profile::process_memory().peak_resident;
}

// Two steps of a small model in each type: the most that the process had, less what a plan counts as pages of its
// tensors. Collective; the largest of the ranks. The peak of a process never falls: call it before anything large.
BesideTensors beside_tensors(comm::World& world) {
  auto experiment = small_experiment(world.size());
  const auto groups = shard::connect_groups(world, shard::policy_of(experiment.shard, world.size()));
  const auto besides = [&](train::ComputeType type) {
    experiment.model.dtype = type;
    const auto resident = peak_resident(world, experiment, groups);
    const auto pages = dry_run(experiment, {.ranks = world.size()}).pages;
    auto most = at::tensor(std::vector<int64_t>{resident.count, pages.count}, at::kLong);
    groups.control.all_reduce(most, {.reduce = comm::Reduce::max}).wait();
    return Bytes{most[0].item<int64_t>() - most[1].item<int64_t>()};
  };
  const auto fp32 = besides(train::ComputeType::fp32);
  return {.fp32 = fp32, .bf16 = besides(train::ComputeType::bf16)};
}

using Run = std::function<void()>;

constexpr int kTrials = 59;  // what the time is divided by
constexpr int kMaxRepetitions = 200;
constexpr int kTogether = 9;  // repetitions of what ranks do together
// With less time for each of them things are tried, not measured: one repetition will do.
constexpr Seconds kShort{0.05};
// Sizes are skipped that would take much longer than the time of one; the first few, and what takes no longer than
// this, are always measured.
constexpr Seconds kAlways{0.1};
constexpr size_t kLeastPoints = 3;
// All ranks of a plan are taken to share this host, up to so many.
constexpr int kRanksOfAHost = 64;

// Times one thing after the other, on all ranks at once.
class Meter {
 public:
  Meter(comm::World& world, Seconds each)
      : world_(world),
        control_(world.control("calibrate/control")),
        each_(each),
        progress_("calibrating", kTrials, world.rank() == 0) {}

  at::Device device() const { return world_.device(); }

  // Ranks repeat as often as each has time for. What has collectives in it is repeated as often by all.
  enum class Repeat { alone, together };

  // The median of repetitions, averaged over ranks. The first one makes threads and plans, and is not counted.
  Seconds time(const std::string& what, const Run& run, Repeat repeat = Repeat::alone) {
    std::vector<double> times;
    Seconds spent{0};
    control_.barrier().wait();
    once(run);
    const int least = each_ < kShort ? 1 : repeat == Repeat::together ? kTogether : 3;
    const int most = repeat == Repeat::together ? least : kMaxRepetitions;
    for (int i = 0; i < least || (spent < each_ && i < most); ++i) {
      const auto took = once(run);
      times.push_back(took.count());
      spent += took;
    }
    auto typical = at::tensor(std::vector<double>{median(times)}, at::kDouble);
    control_.all_reduce(typical).wait();
    progress_.advance(what);
    return Seconds(typical.item<double>() / world_.size());
  }

  // Whether one repetition that takes so long leaves the others too little time. All ranks have the same times.
  bool exceeds(Seconds expected) const { return expected > std::max<Seconds>(4 * each_, kAlways); }
  void skip(const std::string& what) { progress_.advance(what); }

 private:
  Seconds once(const Run& run) const {
    const auto begin = Clock::now();
    run();
    nn::Issued(device()).wait();
    return Clock::now() - begin;
  }

  comm::World& world_;
  comm::Group control_;
  Seconds each_;
  Progress progress_;
};

// Times by size: `make` allocates what a size needs and returns what is timed; `amount` is what the rate counts.
Rate measured(Meter& meter, const std::string& what, const std::vector<int64_t>& sizes,
              const std::function<double(int64_t)>& amount, const std::function<Run(int64_t)>& make) {
  std::vector<RatePoint> points;
  for (const auto size : sizes) {
    const auto name = text(what, " ", size);
    const bool late =
        points.size() >= kLeastPoints && meter.exceeds(points.back().time * (amount(size) / points.back().amount));
    if (late)
      meter.skip(name);
    else
      points.push_back({amount(size), meter.time(name, make(size))});
  }
  return fitted(std::move(points));
}

at::TensorOptions on(const Meter& meter, at::ScalarType type) { return at::TensorOptions(type).device(meter.device()); }

Run timed_product(const Meter& meter, at::ScalarType type, int64_t rows, int64_t inner, int64_t columns) {
  const auto options = on(meter, type);
  return [a = at::ones({rows, inner}, options), b = at::ones({inner, columns}, options),
          out = at::empty({rows, columns}, options)]() mutable { at::mm_out(out, a, b); };
}

double product_flops(double rows, double inner, double columns) { return 2 * rows * inner * columns; }

// The amount that takes this time: Rate::time() backwards.
double amount_in(const Rate& rate, Seconds time) {
  double low = 0, high = std::log(1e18);
  for (int i = 0; i < 80; ++i) {
    const double middle = (low + high) / 2;
    (rate.time(std::exp(middle)) < time ? low : high) = middle;
  }
  return std::exp(low);
}

void measure_products(Meter& meter, DeviceProfile& profile) {
  const bool cpu = meter.device().is_cpu();
  for (const auto& [name, type] : {std::pair{"fp32", at::kFloat}, {"bf16", at::kBFloat16}}) {
    auto sides = cpu ? std::vector<int64_t>{16, 32, 64, 128, 256, 512, 1024, 2048}
                     : std::vector<int64_t>{64, 128, 256, 512, 1024, 2048, 4096, 8192};
    if (cpu && type == at::kBFloat16) sides.push_back(4096);  // fast enough to be measured
    profile.products[name] = measured(
        meter, text(name, " products"), sides,
        [](int64_t n) { return product_flops(static_cast<double>(n), static_cast<double>(n), static_cast<double>(n)); },
        [&, type](int64_t n) { return timed_product(meter, type, n, n, n); });
  }
  const int64_t side = cpu ? 512 : 4096;
  for (const int64_t width : {4, 16, 64, 128}) {
    const double flops =
        product_flops(static_cast<double>(side), static_cast<double>(width), static_cast<double>(side));
    double shares = 1;
    for (const bool inner : {true, false}) {
      const auto took =
          meter.time(text("narrow products ", width), inner ? timed_product(meter, at::kFloat, side, width, side)
                                                            : timed_product(meter, at::kFloat, side, side, width));
      shares *= std::min(1.0, flops / amount_in(profile.products["fp32"], took));
    }
    profile.widths.push_back({static_cast<double>(width), std::sqrt(shares)});
  }
}

// Causal, fp32 on CPUs and bf16 on GPUs, forward and backward.
void measure_attention(Meter& meter, DeviceProfile& profile) {
  constexpr int64_t kHeads = 8, kHeadDim = 64;
  const bool cpu = meter.device().is_cpu();
  const auto input = [&](int64_t length) {
    const auto x = at::ones({1, kHeads, length, kHeadDim}, on(meter, cpu ? at::kFloat : at::kBFloat16));
    return nn::FlashInput{.q = x, .k = x.clone(), .v = x.clone(), .causal = true};
  };
  // A causal mask spares half of two products; backward has five of them.
  const auto flops = [](int64_t length) {
    return 4 * 0.5 * static_cast<double>(kHeads * kHeadDim) * static_cast<double>(length) * static_cast<double>(length);
  };
  const auto lengths = cpu ? std::vector<int64_t>{64, 256, 1024} : std::vector<int64_t>{256, 1024, 4096};
  profile.attention = measured(meter, "attention", lengths, flops, [&](int64_t length) -> Run {
    return [in = input(length)] { (void)nn::flash_forward(in); };
  });
  profile.operators["flash_attention"] = profile.attention;
  profile.operators["flash_attention_backward"] = measured(
      meter, "attention backward", lengths, [&](int64_t length) { return 2.5 * flops(length); },
      [&](int64_t length) -> Run {
        const auto in = input(length);
        const auto [out, lse] = nn::flash_forward(in);
        return [in, out, lse] { (void)nn::flash_backward(in, out, out, lse); };
      });
}

// Passes over memory, by bytes read and written: small ones stay in caches, the largest don't.
void measure_passes(Meter& meter, DeviceProfile& profile) {
  const std::vector<int64_t> elements{1 << 6, 1 << 12, 1 << 16, 1 << 20, 1 << 23};
  const auto fp32 = on(meter, at::kFloat);
  const auto bytes = [](double each) { return [each](int64_t n) { return each * static_cast<double>(n); }; };
  profile.elementwise = measured(meter, "element-wise passes", elements, bytes(12), [&](int64_t n) -> Run {
    return [a = at::ones({n}, fp32), b = at::ones({n}, fp32), out = at::empty({n}, fp32)]() mutable {
      at::add_out(out, a, b);
    };
  });
  profile.copies = measured(meter, "copies", elements, bytes(6), [&](int64_t n) -> Run {
    return [from = at::ones({n}, fp32), to = at::empty({n}, fp32.dtype(at::kBFloat16))] { to.copy_(from); };
  });
  using Operator = at::Tensor& (*)(at::Tensor&, const at::Tensor&);
  for (const auto& [name, run] : {std::pair{"silu", static_cast<Operator>(at::silu_out)},
                                  {"exp", static_cast<Operator>(at::exp_out)},
                                  {"sigmoid", static_cast<Operator>(at::sigmoid_out)}})
    profile.operators[name] = measured(meter, name, {1 << 12, 1 << 16, 1 << 20}, bytes(8), [&, run](int64_t n) -> Run {
      return [a = at::ones({n}, fp32), out = at::empty({n}, fp32), run]() mutable { run(out, a); };
    });
  profile.operators["optimizer_update"] =
      measured(meter, "optimizer", {1 << 12, 1 << 16, 1 << 20}, bytes(28), [&](int64_t n) -> Run {
        auto slots = std::make_shared<std::vector<optim::Slot>>(
            1, optim::Slot{.name = "weights", .master = at::ones({n}, fp32), .gradient = at::ones({n}, fp32)});
        std::shared_ptr<optim::Optimizer> adamw = optim::make_adamw({});
        return [slots, adamw] { adamw->step(*slots, 1e-4); };
      });
  // On any device the host adds it.
  profile.noise = measured(meter, "noise", {1 << 8, 1 << 12, 1 << 16, 1 << 19}, bytes(16), [](int64_t n) -> Run {
    const auto noise = std::make_shared<privacy::Noise>(privacy::seeded_key(1));
    return [noise, sum = at::zeros({n}, at::kDouble)] { noise->add(sum, 1, 1, 0, 0); };
  });
  if (meter.device().is_cpu()) return;
  // How fast the host issues: many small operators, and one wait.
  constexpr int kIssued = 1000;
  profile.launch = meter.time("launches", [a = at::ones({1}, fp32)]() mutable {
    for (int i = 0; i < kIssued; ++i) a.add_(1);
  }) / kIssued;
}

void measure_links(comm::World& world, Meter& meter, Seconds each, DeviceProfile& profile) {
  const std::vector<Bytes> sizes{KiB(4), KiB(64), MiB(1), MiB(8), MiB(32)};
  const auto rows =
      measure::measure_collectives(world, {.sizes = sizes,
                                           .collectives = {"all_gather", "reduce_scatter", "all_reduce", "broadcast"},
                                           .iterations = each < kShort ? 1 : 7,
                                           .warmup = 1});
  std::map<comm::Collective, std::vector<RatePoint>> points;
  for (const auto& row : rows)
    points[row.collective].push_back({static_cast<double>(row.bytes.count), row.ours_median});
  const auto nodes = (world.size() + world.place().local_size - 1) / world.place().local_size;
  for (auto& [kind, of] : points)
    profile.collectives.push_back({.kind = kind, .ranks = world.size(), .nodes = nodes, .rate = fitted(std::move(of))});

  const auto& gather = *std::find_if(profile.collectives.begin(), profile.collectives.end(),
                                     [](const auto& of) { return of.kind == comm::Collective::all_gather; });
  // For kinds that were not measured.
  const double speed = gather.rate.per_second * comm::bus_factor(gather.kind, gather.ranks);
  (nodes > 1 ? profile.network : profile.inside) = {.latency = gather.rate.start, .spec = speed, .reachable = speed};

  // Work that takes one and a half times as long as a gather, with the gather under way: what is lost of its rate.
  constexpr int64_t kSide = 256;
  const auto group = world.group("calibrate/contention");
  const Bytes buffer = MiB(32);
  const auto alone = gather.rate.time(static_cast<double>(buffer.count));
  const auto one = timed_product(meter, at::kFloat, kSide, kSide, kSide);
  const auto single = profile.products["fp32"].time(product_flops(kSide, kSide, kSide));
  const auto repetitions = std::max<int64_t>(1, std::llround(1.5 * alone / single));
  const auto elements = buffer.count / 4 / world.size() * world.size();
  const auto whole = at::zeros({elements}, on(meter, at::kFloat));
  const auto mine = at::zeros({elements / world.size()}, on(meter, at::kFloat));
  const auto work = [&] {
    for (int64_t i = 0; i < repetitions; ++i) one();
  };
  const auto undisturbed = meter.time("products alone", work);
  const auto during = [&] {
    const auto flight = group.all_gather(whole, mine);
    work();
    flight.wait();
  };
  const auto disturbed = meter.time("products during a gather", during, Meter::Repeat::together);
  profile.contention = std::clamp((disturbed - undisturbed) / alone, 0.0, 0.9);
}

}  // namespace

void CalibrateConfig::declare(Fields& fields) {
  fields.add("time", time, {.help = "approximate duration of the measurement", .min = 0.5, .flags = {"--time"}});
  fields.add("threads", threads,
             {.help = "compute threads per rank, as in the run to be planned (0: chosen as shade train does)",
              .min = 0,
              .max = 4096,
              .flags = {"--threads"}});
  fields.add("name", name, {.help = "name of the profile", .flags = {"--name"}});
}

DeviceProfile calibrate(comm::World& world, const CalibrateConfig& config) {
  nn::use_device(world.device());
  const bool cpu = world.device().is_cpu();
  DeviceProfile out;
  if (cpu) {
    const auto process = beside_tensors(world);
    out.process = process.fp32;
    out.process_bf16 = process.bf16;
  }
  const profile::TensorMemory::Uncounted probe;
  out.name = config.name;
  out.device = cpu ? profile::cpu_name() : profile::device_name(world.device());
  out.source = text("shade calibrate: ", world.size(), world.size() == 1 ? " rank" : " ranks at once", ", ",
                    at::get_num_threads(), " threads each");
  out.memory = cpu ? Bytes{profile::host_memory().available.count / world.place().local_size}
                   : profile::available_memory(world.device());
  out.asynchronous = !cpu;
  out.ranks_per_node = cpu ? std::max(kRanksOfAHost, world.place().local_size) : world.place().local_size;
  const Seconds each = config.time / kTrials;
  Meter meter(world, each);
  measure_products(meter, out);
  measure_attention(meter, out);
  measure_passes(meter, out);
  if (world.size() > 1) measure_links(world, meter, each, out);
  out.memory_spec = out.elementwise.per_second;
  return out;
}

}  // namespace shade::plan
