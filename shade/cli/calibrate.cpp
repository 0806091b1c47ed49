// shade calibrate: this machine as a device profile for shade plan.
#include <cstdio>
#include <ctime>

#include "shade/base/log.h"
#include "shade/base/terminal.h"
#include "shade/cli/verb.h"
#include "shade/measure/load.h"
#include "shade/plan/calibrate.h"

namespace shade::cli {
namespace {

constexpr int kDefaultRanks = 2;
// Share of the cores that other processes may use before the profile is called into question.
constexpr double kBusy = 0.05;

void add(Table& table, const std::string& what, const plan::Rate& rate, const char* unit) {
  if (!rate.known()) return;
  const auto& last = rate.points.back();
  table.add({what, to_string(rate.points.front().time), to_string(last.time),
             text(significant(last.amount / last.time.count() / 1e9), " ", unit)});
}

void print(const plan::DeviceProfile& profile, Seconds took) {
  Table table({"work", "smallest", "largest", "rate of the largest"});
  for (const auto& [type, rate] : profile.products) add(table, type + " products", rate, "GFLOP/s");
  add(table, "attention", profile.attention, "GFLOP/s");
  add(table, "element-wise passes", profile.elementwise, "GB/s");
  add(table, "copies", profile.copies, "GB/s");
  add(table, "noise", profile.noise, "GB/s");
  for (const auto& [name, rate] : profile.operators)
    if (name != "flash_attention") add(table, name, rate, name.starts_with("flash") ? "GFLOP/s" : "GB/s");
  for (const auto& of : profile.collectives)
    add(table, text(to_string(of.kind), ", ", of.ranks, " ranks"), of.rate, "GB/s");
  std::printf("%s\n%s, measured in %s: %s\n", table.str().c_str(), profile.device.c_str(), to_string(took).c_str(),
              profile.source.c_str());
  for (const auto& [width, share] : profile.widths)
    std::printf("a product %g wide reaches %s %% of the rate of a square one\n", width,
                significant(100 * share, 2).c_str());
  if (!profile.collectives.empty())
    std::printf("a collective under way takes %s %% of the computing rate\n",
                significant(100 * profile.contention, 2).c_str());
}

struct Calibrate final : LineVerb {
  comm::CommConfig comm_config;
  plan::CalibrateConfig calibrate;
  Config config;

  Calibrate()
      : LineVerb("calibrate",
                 "Measures this machine and writes a device profile for shade plan --device-profile FILE: matrix "
                 "products, attention, passes over memory, noise, collectives.\nMeasure with the ranks and threads of "
                 "the run to be planned, on an otherwise idle machine. Without --ranks: 2 local ranks.",
                 "shade calibrate --json here.json\n  shade plan --device-profile here.json ...") {
    config.add("calibrate", calibrate);
    config.add("comm", comm_config);
    line.add(config);
  }

  int run(const Arguments& arguments) override;
};

}  // namespace

std::unique_ptr<Invocation> declare_calibrate() { return std::make_unique<Calibrate>(); }

int Calibrate::run(const Arguments& arguments) {
  if (comm::place_from_environment().origin == "alone")
    line.ranks = kDefaultRanks;  // before parse(): it asks who starts ranks
  if (const auto status = line.parse(arguments)) return *status;
  line.require_effects({{kRanks, ranks_fact(expected_place(line))}});
  if (const auto status = start_ranks(line, "calibrate", arguments, comm_config)) return *status;

  in_world(line.ranks, comm_config, [&](comm::World& world) {
    say_device(world);
    use_threads(calibrate.threads, world.place(), world.device());
    const auto begin = Clock::now();
    const measure::LoadMeter meter;
    const auto before = std::clock();
    const auto profile = plan::calibrate(world, calibrate);
    if (world.rank() != 0) return;
    print(profile, Clock::now() - begin);
    // Ranks do the same: their CPU times are alike.
    const Seconds own(static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC * world.place().local_size);
    if (const auto load = meter.end(own); load.others > kBusy)
      log::warning("other processes used ", significant(100 * load.others, 2),
                   " % of the cores meanwhile, so the rates are too low; measure again on an idle machine");
    if (line.json_file.empty())
      std::printf("add --json FILE to keep the profile\n");
    else
      write_json(line.json_file, profile.json());
  });
  return 0;
}

}  // namespace shade::cli
