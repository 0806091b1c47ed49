// The keys of a result of `shade bench` that stay.
#pragma once

#include <string>
#include <vector>

namespace shade::test {

inline const std::vector<std::string>& result_keys() {
  static const std::vector<std::string> all{"mode",
                                            "experiment",
                                            "model",
                                            "shard",
                                            "dp",
                                            "seq_length",
                                            "batch_size",
                                            "total_batch_size",
                                            "num_gpus",
                                            "num_ranks",
                                            "peak_memory_mb",
                                            "peak_memory_gb",
                                            "average_memory_mb",
                                            "avg_time_ms",
                                            "median_time_ms",
                                            "times_ms",
                                            "tokens_per_second",
                                            "utilisation",
                                            "communication",
                                            "cpu_overhead_ms",
                                            "breakdown",
                                            "breakdown_max",
                                            "memory_by_rank",
                                            "parameters",
                                            "snapshots",
                                            "phases_ms",
                                            "config",
                                            "environment"};
  return all;
}

}  // namespace shade::test
