// Result files as shade bench writes them, of figures that are easy to follow.
#pragma once

#include "shade/base/json.h"
#include "shade/catalog/methods.h"

namespace shade::test {

struct SampleRow {
  std::string dp = "none", shard = "none";
  int64_t seq = 64, batch = 2, accum = 1;
  std::string model = "llama-nano";
  double grows = 1;  // time and memory
};

// Strategies over batch sizes and accumulation.
inline std::vector<SampleRow> eighteen_rows() {
  std::vector<SampleRow> rows;
  for (const int64_t batch : {2, 4, 8})
    for (const int64_t accum : {1, 2, 4})
      for (const auto* shard : {"zero2", "zero3"})
        rows.push_back({.shard = shard, .batch = batch, .accum = accum, .grows = static_cast<double>(batch)});
  return rows;
}

inline std::vector<SampleRow> forty_rows() {
  std::vector<SampleRow> rows;
  for (const int64_t seq : {512, 1024})
    for (const int64_t batch : {1, 2, 4, 8, 16})
      for (const auto* shard : {"zero2", "zero3"})
        for (const auto* dp : {"none", "flash_bookkeeping"})
          rows.push_back(
              {.dp = dp, .shard = shard, .seq = seq, .batch = batch, .grows = static_cast<double>(seq * batch) / 512});
  return rows;
}

inline Json result_of(const SampleRow& row) {
  const double peak = (row.dp == "none" ? 100 : 130) * row.grows, ms = (row.dp == "none" ? 50 : 80) * row.grows;
  const bool sharded = row.shard != "none";
  const Json bench{{"model", row.model}, {"checkpointing", "none"}, {"dtype", "fp32"}, {"grad_accum", row.accum}};
  const Json span{{"name", "forward"}, {"from_ms", 0.0}, {"to_ms", 0.4 * ms}};
  const auto stage = [&](const char* name, double now, double highest) {
    return Json{{"stage", name}, {"allocated_mb", now}, {"max_allocated_mb", highest}};
  };
  return {{"mode", catalog::mode_of(row.dp)},
          {"model", row.model},
          {"shard", row.shard},
          {"dp", row.dp},
          {"seq_length", row.seq},
          {"batch_size", row.batch},
          {"num_ranks", sharded ? 2 : 1},
          {"peak_memory_mb", peak},
          {"avg_time_ms", ms},
          {"times_ms", {0.9 * ms, 1.1 * ms}},
          {"tokens_per_second", 1e3 * static_cast<double>(row.seq * row.batch) / ms},
          {"communication", {{"bytes", sharded ? 3 << 20 : 0}, {"time_ms", 12.0}, {"exposed_ms", 4.0}}},
          {"cpu_overhead_ms", 1.0},
          {"breakdown", {{"parameters", 0.2 * peak}, {"activations", 0.7 * peak}, {"gradients", 0.1 * peak}}},
          {"phases_ms", {{"forward", 0.3 * ms}, {"backward", 0.6 * ms}}},
          {"snapshots",
           {stage("after data creation", 0.1, 0.1), stage("after model creation", 0.2 * peak, 0.2 * peak),
            stage("after warmup", 0.3 * peak, peak)}},
          {"timeline",
           {{"step_ms", ms},
            {"spans", {span}},
            {"collectives", Json::array()},
            {"memory",
             {{"ms", {0.0, 0.5 * ms, ms}},
              {"parameters", {0.2 * peak, 0.2 * peak, 0.2 * peak}},
              {"activations", {0.1 * peak, 0.7 * peak, 0.0}}}}}},
          {"config",
           {{"bench", bench}, {"shard", {{"shard", row.shard}}}, {"dp", {{"dp", row.dp}, {"clip_style", "flat"}}}}},
          {"environment",
           {{"shade", "0.2.0"},
            {"libtorch", "2.15.0"},
            {"cpu", "Example CPU"},
            {"cores", 2},
            {"host", "example-host"},
            {"date", "2026-01-31T12:00:00Z"},
            {"command", "shade bench --model llama-nano"}}}};
}

}  // namespace shade::test
