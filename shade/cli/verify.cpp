// shade verify: is every private gradient right?
#include <cstdio>

#include "shade/base/json.h"
#include "shade/base/terminal.h"
#include "shade/base/visible_text.h"
#include "shade/cli/verb.h"
#include "shade/profile/phases.h"
#include "shade/proof/verify.h"
#include "shade/train/run/model_states.h"
#include "shade/train/spec/recipe.h"

namespace shade::cli {
namespace {

using proof::VerifyRow;

// The worst of the strategies and accumulations of a model, dtype and method.
struct Line {
  const VerifyRow* first = nullptr;
  std::vector<std::string> strategies;
  double norm = 0, gradient = 0, difference = 0, share = 0, least_noise = INFINITY, most_noise = 0;
  bool noise_equal = true, pass = true;

  void add(const VerifyRow& row) {
    if (first == nullptr) first = &row;
    if (std::find(strategies.begin(), strategies.end(), row.strategy) == strategies.end())
      strategies.push_back(row.strategy);
    norm = std::max(norm, row.max_rel_norm);
    gradient = std::max(gradient, row.max_rel_grad);
    difference = std::max(difference, row.max_rel_difference);
    share = std::max(share, row.max_share);
    least_noise = std::min(least_noise, row.noise_ratio);
    most_noise = std::max(most_noise, row.noise_ratio);
    noise_equal = noise_equal && row.noise_equal;
    pass = pass && row.pass;
  }
  std::string noise() const {
    const double farthest = 1 - least_noise > most_noise - 1 ? least_noise : most_noise;
    return text(noise_equal ? "equal" : "differs", " ", significant(farthest, 4));
  }
};

void print(const std::vector<VerifyRow>& rows) {
  Table table({"model", "dtype", "method", "strategies", "norms", "gradient", "slopes", "alone / C", "noise", ""});
  std::vector<std::string> order;
  std::map<std::string, Line> lines;
  for (const auto& row : rows) {
    const auto key = row.model + row.dtype + row.method;
    if (!lines.contains(key)) order.push_back(key);
    lines[key].add(row);
  }
  for (const auto& key : order) {
    const auto& line = lines[key];
    table.add({line.first->model, line.first->dtype, line.first->method, join(line.strategies, " "),
               significant(line.norm, 2), significant(line.gradient, 2), significant(line.difference, 2),
               line.share == 0 ? "" : significant(line.share, 6), line.noise(), line.pass ? "ok" : "WRONG"});
  }
  std::printf("%s", table.str().c_str());
}

void print_phase_times(const profile::Phases& phases) {
  Table table({"phase of all cases, rank 0", "time"});
  for (const auto& [name, time] : phases.by_name()) table.add({name, to_string(Seconds(time))});
  std::printf("\n%s", table.str().c_str());
}

// Of every rank, by one process.
void print_details(const std::vector<VerifyRow>& rows) {
  bool any = false;
  for (const auto& row : rows)
    for (const auto& detail : row.details) {
      any = true;
      std::printf("%s %s %s: %s\n", row.method.c_str(), row.strategy.c_str(), row.dtype.c_str(),
                  visible(detail).c_str());
    }
  if (any)
    std::printf(
        "before reduction: over the layers of the sample's rank; after reduction: what it is clipped by. A sample is "
        "on one rank,\nso its norm is not summed over ranks, and the two agree up to rounding (docs/privacy.md).\n\n");
}

struct Verify final : LineVerb {
  proof::Verification what;
  Config config;
  train::Recipe recipe;  // --config may be one: its other sections say nothing here
  Config recipe_config;

  Verify()
      : LineVerb("verify",
                 "Compares every private gradient with its definition: each sample's gradient alone, by plain "
                 "autograd, clipped "
                 "and summed.\nCovers fp32 and bf16, every clipping style, LoRA, users, a sample that is not finite, "
                 "steps with "
                 "the data loader,\nunequal and empty local batches, padding, several segments, and the noise with a "
                 "fixed key.",
                 "shade verify --ranks 2 --all\n  shade verify --ranks 2 --model qwen2-1.5b --num-layers 2 --task lm "
                 "--shard zero3 --dp bookkeeping") {
    what.declare(config);
    recipe.declare(recipe_config);
    config.read_also(recipe_config);
    line.add(config);
  }

  int run(const Arguments& arguments) override;
};

}  // namespace

std::unique_ptr<Invocation> declare_verify() { return std::make_unique<Verify>(); }

int Verify::run(const Arguments& arguments) {
  if (const auto status = line.parse(arguments)) return *status;
  const auto& model = what.model;
  Facts facts{{kRanks, ranks_fact(expected_place(line))}};
  if (!model.model.empty())
    facts[kModelKind] = {models::kind_of(model.model, what.sizes, model.options()), {"model.model", "model.task"}};
  line.require_effects(facts);
  if (!model.model.empty())  // every rank has the definition's whole gradients
    train::require_memory(train::plain_states(models::size_of(model.model, what.sizes, model.options()),
                                              nn::DType::fp64, expected_place(line).local_size));
  if (const auto status = start_ranks(line, "verify", arguments, what.comm)) return *status;
  int failed = 0;
  in_world(line.ranks, what.comm, [&](comm::World& world) {
    if (model.model.empty()) use_threads(1, {});  // small models: a second thread only waits
    say_device(world);
    std::optional<profile::Phases> phases;
    if (what.verify.enable_profiling) phases.emplace(world.device());
    std::optional<Progress> bar;
    const auto rows = proof::verify(world, what, [&](size_t, size_t all) {
      if (!bar) bar.emplace("verify", static_cast<int64_t>(all));
      bar->advance();
    });
    bar.reset();
    for (const auto& row : rows) failed += row.pass ? 0 : 1;
    if (world.rank() != 0) return;
    print_details(rows);
    print(rows);
    if (phases) print_phase_times(*phases);
    std::printf(
        "\n%d rank%s, %zu cases, %d wrong. norms, gradient: the largest relative difference from one sample at a "
        "time,\nby plain autograd (tolerances: 1e-5 fp32, 1e-10 fp64, 2.5e-2 bf16); slopes: of those gradients "
        "from "
        "differences of\nlosses in fp64 (1e-6); alone / C: the longest part of one sample in the sum (1, without "
        "tolerance); noise: bit by bit\nagainst one process, and its deviation over that of the definition (5 standard "
        "errors).\n",
        world.size(), world.size() == 1 ? "" : "s", rows.size(), failed);
    const auto left_out = proof::left_out(what);
    if (!left_out.empty()) std::printf("left out: %s.\n", left_out.c_str());
    if (line.json_file.empty()) return;
    Json out{{"rows", Json::array()}, {"config", without_folders(json_values(config))}};
    if (!left_out.empty()) out["left_out"] = left_out;
    for (const auto& row : rows) out["rows"].push_back(parse_json(row.json()));
    write_json(line.json_file, out);
  });
  return failed == 0 ? 0 : 1;
}

}  // namespace shade::cli
