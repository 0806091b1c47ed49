// shade comm: the collectives of this machine, measured.
#include <cstdio>

#include "shade/base/json.h"
#include "shade/base/strings.h"
#include "shade/base/terminal.h"
#include "shade/cli/verb.h"
#include "shade/measure/collectives.h"

namespace shade::cli {
namespace {

void print(const std::vector<measure::CollectiveRow>& rows) {
  Table table({"collective", "size", "ours", "algorithm bw", "bus bw", "stock", "ratio"});
  for (const auto& row : rows) {
    const auto bus = Seconds(row.ours / std::max(1e-9, comm::bus_factor(row.collective, row.ranks)));
    table.add({to_string(row.collective), to_string(row.bytes), to_string(row.ours),
               to_string_bandwidth(row.bytes, row.ours), to_string_bandwidth(row.bytes, bus), to_string(row.stock),
               significant(row.ratio(), 2)});
  }
  std::printf("%s", table.str().c_str());
  std::printf(
      "\n%d ranks, %s, best of the iterations, slowest rank. size: bytes of the full buffer. algorithm bw: "
      "size / time.\nbus bw: what the links carry, (W-1)/W of it for gathers and scatters, twice that for "
      "all_reduce.\nratio: ours / stock c10d, measured interleaved.\n",
      rows.empty() ? 0 : rows.front().ranks, rows.empty() ? "" : to_string(rows.front().dtype).c_str());
}

struct Comm final : LineVerb {
  comm::CommConfig comm_config;
  measure::CollectivesConfig bench;
  Config config;

  Comm()
      : LineVerb("comm", "Times of the collectives on this machine, compared with stock c10d.",
                 "shade comm --ranks 2 --sizes 1MiB,64MiB --json comm.json") {
    config.add("collectives", bench);
    config.add("comm", comm_config);
    line.add(config);
  }

  int run(const Arguments& arguments) override;
};

}  // namespace

std::unique_ptr<Invocation> declare_comm() { return std::make_unique<Comm>(); }

int Comm::run(const Arguments& arguments) {
  if (const auto status = line.parse(arguments)) return *status;
  line.require_effects({{kRanks, ranks_fact(expected_place(line))}});
  if (const auto status = start_ranks(line, "comm", arguments, comm_config)) return *status;

  in_world(line.ranks, comm_config, [&](comm::World& world) {
    SHADE_REQUIRE(world.size() > 1, "a world of one rank has no collectives to measure; add --ranks 2");
    say_device(world);
    const auto rows = measure::measure_collectives(world, bench);
    if (world.rank() != 0) return;
    print(rows);
    if (line.json_file.empty()) return;
    Json out{{"rows", Json::array()}, {"config", json_values(config)}};
    for (const auto& row : rows) out["rows"].push_back(row.json());
    write_json(line.json_file, out);
  });
  return 0;
}

}  // namespace shade::cli
