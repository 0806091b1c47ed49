// The figures of a measured experiment: a row for each with its key in result files, its unit and its heading. shade
// bench writes by these rows; shade report reads, tabulates and exports by them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>

#include "shade/base/json.h"

namespace shade::catalog {

// Of one step, unless said otherwise. Empty: unknown.
struct Figures {
  double peak_mb = 0, average_mb = 0;  // tensors, of the largest rank; over the measured steps
  // Of the slowest rank. All that is derived or compared is the median's: one step that was held up changes an average.
  double time_ms = 0, average_ms = 0;  // median; mean
  double fastest_ms = 0, slowest_ms = 0;
  std::optional<double> low_ms, high_ms;  // 99 % interval of the median, from repeated runs
  double tokens_per_second = 0;           // of all ranks
  std::optional<double> utilisation;      // CPU time over wall time of the compute threads, or the GPU's
  std::optional<double> sent_bytes;       // by a rank
  std::optional<double> comm_ms, exposed_ms, overlapped_ms;  // collectives under way; waited for; the rest
  std::optional<double> cpu_overhead_ms;                     // loading data
  std::optional<double> resident_mb;                         // the process's memory, at most
  std::optional<double> epoch_s;                             // all records of a data folder once
  std::optional<double> parameters, trainable;               // of the model
  std::optional<double> others;                              // of all cores, busy with something else meanwhile
  std::optional<double> gflops, stated_gflops, gemm_gflops;  // per second, of all ranks: of the model, stated, of the
                                                             // best matrix product
  std::optional<double> mfu, gemm_share;                     // of the stated ones; of the best matrix product's
};

struct FigureInfo {
  std::string_view key;  // a dot leads into an object
  std::string_view unit;
  std::variant<double Figures::*, std::optional<double> Figures::*> member;
  std::string_view heading = {};  // of its column on the page; empty: none
  bool required = false;          // a file without it is no result
  bool is_rate = false;           // it falls as the time of a step grows
  bool is_duration = false;       // it grows with the time of a step
  bool in_files = true;           // false: follows from others, and is not stored

  std::optional<double> of(const Figures& figures) const;
};

inline constexpr FigureInfo kFigures[] = {
    {.key = "parameters", .unit = "count", .member = &Figures::parameters, .heading = "parameters"},
    {.key = "trainable_parameters", .unit = "count", .member = &Figures::trainable},
    {.key = "peak_memory_mb", .unit = "MiB", .member = &Figures::peak_mb, .heading = "peak memory", .required = true},
    {.key = "average_memory_mb", .unit = "MiB", .member = &Figures::average_mb},
    {.key = "median_time_ms", .unit = "ms", .member = &Figures::time_ms, .heading = "step"},
    {.key = "median_low_ms", .unit = "ms", .member = &Figures::low_ms},
    {.key = "median_high_ms", .unit = "ms", .member = &Figures::high_ms},
    {.key = "avg_time_ms", .unit = "ms", .member = &Figures::average_ms, .required = true},
    {.key = "time_per_epoch_s",
     .unit = "s",
     .member = &Figures::epoch_s,
     .heading = "time per epoch",
     .is_duration = true},
    {.key = "min_time_ms", .unit = "ms", .member = &Figures::fastest_ms, .in_files = false},
    {.key = "max_time_ms", .unit = "ms", .member = &Figures::slowest_ms, .in_files = false},
    {.key = "tokens_per_second",
     .unit = "tokens/s",
     .member = &Figures::tokens_per_second,
     .heading = "tokens/s",
     .is_rate = true},
    {.key = "utilisation", .unit = "share", .member = &Figures::utilisation, .heading = "utilisation"},
    {.key = "communication.bytes", .unit = "bytes", .member = &Figures::sent_bytes, .heading = "sent per step"},
    {.key = "communication.time_ms", .unit = "ms", .member = &Figures::comm_ms},
    {.key = "communication.exposed_ms", .unit = "ms", .member = &Figures::exposed_ms, .heading = "waits"},
    {.key = "communication.overlapped_ms", .unit = "ms", .member = &Figures::overlapped_ms},
    {.key = "cpu_overhead_ms", .unit = "ms", .member = &Figures::cpu_overhead_ms},
    {.key = "peak_resident_mb", .unit = "MiB", .member = &Figures::resident_mb},
    {.key = "load.others", .unit = "share", .member = &Figures::others, .heading = "load by others"},
    {.key = "gflops_per_second", .unit = "GFLOP/s", .member = &Figures::gflops, .is_rate = true},
    {.key = "stated_gflops_per_second", .unit = "GFLOP/s", .member = &Figures::stated_gflops},
    {.key = "mfu", .unit = "share", .member = &Figures::mfu, .heading = "MFU", .is_rate = true},
    {.key = "gemm_gflops_per_second", .unit = "GFLOP/s", .member = &Figures::gemm_gflops},
    {.key = "gemm_share",
     .unit = "share",
     .member = &Figures::gemm_share,
     .heading = "share of best product",
     .is_rate = true},
};

// What `tokens_per_second` counts: a sample of length 1, of the linear model say, is no text, and is called a sample.
constexpr std::string_view throughput_unit(int64_t seq_length) { return seq_length == 1 ? "samples/s" : "tokens/s"; }

// A number, or what is wrong with it: an Error that names the key.
double number_at(const Json& json, std::string_view key);
std::optional<double> number_if(const Json& json, std::string_view key);  // empty: absent or null

// What is known of them; `derived`: those that are not stored too.
void write_figures(Json& to, const Figures& figures, bool derived = false);
// Those that are stored. Throws Error that names the key.
void read_figures(Figures& to, const Json& from);

}  // namespace shade::catalog
