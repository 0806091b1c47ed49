// shade bench: one measured experiment.
#include <cstdio>

#include "shade/base/terminal.h"
#include "shade/cli/verb.h"
#include "shade/experiment/bench.h"

namespace shade::cli {

int run_bench(const Arguments& arguments) {
  experiment::BenchConfig bench;
  models::SizeOverrides sizes;
  Config config;
  config.add("bench", bench);
  config.add("size", sizes);
  CommandLine line("bench", "One measured experiment: forward and backward of a model on made-up data, in one process.",
                   "shade bench --model dit-l --batch-size 2 --num-iter 2 --dtype bf16 --json out.json");
  line.add(config);
  if (const auto status = line.parse(arguments)) return *status;
  SHADE_REQUIRE(!line.ranks || *line.ranks == 1, "bench runs in one process for now; drop --ranks");

  const auto result = experiment::run_bench(bench, sizes);
  const auto json = result.json(bench, config.json());
  Table table({"what", "value"});
  table.add({"model", text(result.description, ", ", significant(static_cast<double>(result.parameters) / 1e6),
                           " M parameters")});
  table.add({"step", text(to_string(Seconds(result.average_ms() / 1e3)), " (forward and backward, average of ",
                          result.times_ms.size(), ")")});
  table.add({"throughput", text(significant(json["tokens_per_second"].get<double>()), " tokens/s, ",
                                significant(json["gflops_per_second"].get<double>()), " GFLOP/s")});
  table.add({"peak tensor memory", text(to_string(result.peak), " (process ", to_string(result.resident_peak), ")")});
  table.add({"loss", significant(result.loss, 5)});
  if (json.contains("rows")) {
    const auto& row = json["rows"][0];
    table.add({"PyTorch eager",
               text(significant(row["peer_ms"].get<double>()), " ms, ", significant(row["peer_mb"].get<double>()),
                    " MiB (best of ", result.peer_times_ms.size(), ", in turns)")});
    table.add({"ours / PyTorch", text("time ", significant(row["ratio_time"].get<double>(), 2), " x, memory ",
                                      significant(row["ratio_memory"].get<double>(), 2), " x")});
  }
  std::printf("%s", table.str().c_str());
  if (!line.json_file.empty()) write_json(line.json_file, json);
  return 0;
}

}  // namespace shade::cli
