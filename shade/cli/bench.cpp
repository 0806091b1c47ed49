// shade bench: one measured experiment.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <utility>

#include "shade/base/strings.h"
#include "shade/base/terminal.h"
#include "shade/base/units.h"
#include "shade/base/visible_text.h"
#include "shade/cli/bench_line.h"
#include "shade/cli/memory.h"
#include "shade/cli/version.h"
#include "shade/measure/bench.h"
#include "shade/train/run/model_states.h"

namespace shade::cli {
namespace {

// What `shade bench` prints beside its first table: the memory of each stage, and where the time of a step goes.

// With the norms of so many layers, the slowest first.
inline constexpr size_t kSlowestLayers = 3, kEveryLayer = std::numeric_limits<size_t>::max();

std::vector<std::pair<std::string, double>> largest_first(const std::map<std::string, double>& times) {
  std::vector<std::pair<std::string, double>> out(times.begin(), times.end());
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return out;
}

// The rows of the first table that are about memory.
void add_memory(Table& table, const measure::BenchResult& result) {
  const auto &at_peak = result.largest().at_peak, most = result.most();
  table.add({"peak tensor memory",
             text(to_string(at_peak.total), " per rank (process ", to_string(from_mib(*result.resident_mb)), ")")});
  for (const auto& [name, kind] : names_of(MemoryKind{})) {
    if (most.of(kind).count == 0) continue;
    const auto now = to_string(at_peak.of(kind)), highest = to_string(most.of(kind));
    table.add({text("  ", name), highest == now ? now : text(now, ", at most ", highest)});
  }
  if (result.peak_owner) table.add({"  reached by", result.peak_owner->describe()});
  if (result.ranks == 1) return;
  std::vector<std::string> ranks;
  for (const auto& rank : result.memory) ranks.push_back(to_string(rank.at_peak.total));
  table.add({"  by rank", join(ranks, ", ")});
}

void print_phases(const measure::BenchResult& result, size_t layers) {
  if (result.phases_ms.empty()) return;
  Table table({"phase", "per step", "share"});
  const auto add = [&](const std::string& name, double ms) {
    table.add({visible(name), to_string(Seconds(ms / 1e3)), text(significant(100 * ms / result.time_ms, 2), " %")});
  };
  for (const auto& [name, ms] : largest_first(result.phases_ms)) {
    add(name, ms);
    if (name != "norm") continue;
    const auto norms = largest_first(result.norms_ms);
    for (size_t i = 0; i < std::min(layers, norms.size()); ++i) add("  of " + norms[i].first, norms[i].second);
  }
  std::printf("\nphases of rank 0; they nest: a norm is part of its backward\n%s", table.str().c_str());
}

// A line of JSON per rank, with the keys of PyTorch's FSDP example; a heading before the first stage.
void print_stage(const std::vector<measure::MemoryLine>& by_rank, bool on_gpu, bool first) {
  if (is_terminal(stderr)) std::fprintf(stderr, "\r\033[K");  // a line of progress
  if (first)
    std::printf("memory by stage and rank%s\n",
                on_gpu ? "" : "; on a CPU the keys cuda_* hold the tensor memory of the CPU");
  for (int rank = 0; rank < std::ssize(by_rank); ++rank)
    std::printf("%s\n", measure::stage_record(by_rank[static_cast<size_t>(rank)], rank, on_gpu).dump().c_str());
  std::fflush(stdout);
}

// A share that is known, in per cent.
std::string share(const std::optional<double>& value, const char* words) {
  return value ? text(", ", significant(100 * *value), words) : "";
}

void print(const measure::BenchResult& result, const measure::Experiment& experiment, const Json& json) {
  Table table({"what", "value"});
  const auto& called = result.model_name;
  table.add({"model", text(result.description.starts_with(called) ? "" : called + ": ", result.description, ", ",
                           significant(*result.parameters / 1e6), " M parameters")});
  if (!experiment.data.data_folder.empty())
    table.add({"data", text(result.data, "; loading takes ", significant(*result.cpu_overhead_ms), " ms of a step (",
                            significant(100 * *result.cpu_overhead_ms / result.time_ms, 2), " %)")});
  const bool whole = experiment.bench.work == measure::Work::step;
  if (const auto& dp = experiment.dp; dp.is_private())
    table.add({"privacy", text(to_string(dp.dp), ", ", to_string(dp.clip.style), " clipping at ", dp.max_grad_norm,
                               ", sigma ", dp.sigma, dp.noise_seed >= 0 ? " (seeded: NOT private)" : "",
                               result.tells_of_records(dp) ? ""
                                                           : text("; ", result.clipped, " samples clipped, ",
                                                                  result.not_finite, " not finite"))});
  table.add({"step", text(to_string(Seconds(result.time_ms / 1e3)),
                          whole ? " (forward, backward, optimizer; " : " (forward and backward; ", result.ranks,
                          result.ranks == 1 ? " rank" : " ranks", ", median of ", result.times_ms.size(), ")")});
  if (result.epoch_s)
    table.add(
        {"epoch", text(to_string(Seconds(*result.epoch_s)), " for the ", result.records, " records of the data")});
  table.add(
      {"throughput", text(significant(result.tokens_per_second), " ", catalog::throughput_unit(result.length), ", ",
                          significant(*result.gflops), " GFLOP/s", share(result.mfu, " % of the stated peak (MFU)"),
                          share(result.gemm_share, " % of this machine's best matrix product"))});
  if (result.ranks > 1)
    table.add({"traffic",
               text(to_string(Bytes{std::llround(*result.sent_bytes)}), " sent a step, ", significant(*result.comm_ms),
                    " ms under way, ", significant(*result.exposed_ms), " ms waited for")});
  add_memory(table, result);
  if (!result.tells_of_records(experiment.dp))
    table.add({"loss", result.losses.size() > 1
                           ? text(significant(result.losses.front(), 5), " -> ", significant(result.losses.back(), 5))
                           : significant(result.loss, 5)});
  if (json.contains("rows")) {
    const auto& row = json["rows"][0];
    table.add(
        {"PyTorch", text(significant(row["peer_ms"].get<double>()), " ms, ", significant(row["peer_mb"].get<double>()),
                         " MiB (best of ", result.peer_times_ms.size(), ", interleaved)")});
    table.add({"ours / PyTorch", text("time ", significant(row["ratio_time"].get<double>(), 2), " x, memory ",
                                      significant(row["ratio_memory"].get<double>(), 2), " x")});
  }
  std::printf("%s", table.str().c_str());
}

// Called before anything is allocated, in the process that starts the ranks, so that there is one message.
void require_states_fit(const measure::Experiment& experiment, const comm::Place& place) {
  const auto& model = experiment.model;
  const auto size = models::size_of(model.model, experiment.sizes, model.options());
  if (experiment.bench.work == measure::Work::forward_backward)
    return train::require_memory(train::plain_states(size, train::dtype_of(model.dtype)));
  if (on_gpus(experiment.comm)) return;
  train::require_memory(train::model_states(size, {.shard = experiment.shard,
                                                   .compute = train::dtype_of(model.dtype),
                                                   .optim = experiment.optim,
                                                   .ranks = place.size,
                                                   .local_ranks = place.local_size}));
}

struct Bench final : Invocation {
  BenchLine own{"One measured experiment: training steps of a model, on synthetic data or a folder of texts.",
                "shade bench --model dit-l --batch-size 2 --num-iter 2 --dtype bf16 --ranks 2 --shard zero3"};
  std::string folder;

  Bench() {
    own.line.app()
        .add_option("--output-dir", folder, "folder that the result is also written to, as <mode>_seq<T>_result.json")
        ->type_name("DIR");
  }

  Description description() const override { return own.line.description(); }
  int run(const Arguments& arguments) override;
};

}  // namespace

std::unique_ptr<Invocation> declare_bench() { return std::make_unique<Bench>(); }

int Bench::run(const Arguments& arguments) {
  const auto [experiment, line] = std::tie(own.experiment, own.line);
  auto& bench = experiment.bench;
  if (const auto status = own.parse(arguments)) return *status;
  if (!own.unused.empty()) throw UsageError(own.unused.front().message);
  require_states_fit(experiment, expected_place(line));
  if (!folder.empty()) std::filesystem::create_directories(folder);
  c10::Device device = c10::kCPU;
  const auto deliver = [&](const measure::BenchResult& result) {
    auto json = result.json(experiment);
    json["environment"] = origin("bench", arguments, device);
    print(result, experiment, json);
    print_phases(result, bench.enable_profiling ? kEveryLayer : kSlowestLayers);
    if (const auto place = bench.trace_place(); !place.empty())
      std::printf("%s %s\n", result.ranks == 1 ? "trace in" : "traces, one per rank, in",
                  visible(place.ends_with('/') ? place + result.log_key + "/" : place).c_str());
    if (!bench.tensorboard.empty()) result.write_events(experiment);
    if (!line.json_file.empty()) write_json(line.json_file, json);
    if (!folder.empty())
      write_json(
          std::filesystem::path(folder) / text(json["mode"].get<std::string>(), "_seq", result.length, "_result.json"),
          json);
  };
  if (bench.work == measure::Work::forward_backward) {
    SHADE_REQUIRE(!line.ranks || *line.ranks == 1, "--work forward_backward runs in one process; drop --ranks");
    use_threads(experiment.work.threads, {});
    deliver(measure::measure_forward_backward(experiment));
    return 0;
  }
  if (const auto status = start_ranks(line, "bench", arguments, experiment.comm)) return *status;
  in_world(line.ranks, experiment.comm, [&](comm::World& world) {
    use_threads(experiment.work.threads, world.place(), world.device());
    say_device(world);
    device = world.device();
    if (world.rank() == 0)
      for (const auto& note : own.notes) std::printf("%s\n", visible(note).c_str());
    warn_of_memory(experiment, world);
    bool first = true;
    const auto result = measure::measure_training(world, experiment, [&](const auto& by_rank, bool on_gpu) {
      print_stage(by_rank, on_gpu, std::exchange(first, false));
    });
    if (world.rank() != 0) return;
    std::printf("\n");
    deliver(result);
  });
  return 0;
}

}  // namespace shade::cli
