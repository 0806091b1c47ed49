// The result files of a folder as rows: what `shade report` knows, and all it knows.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shade/base/json.h"
#include "shade/catalog/figures.h"
#include "shade/catalog/parts.h"
#include "shade/catalog/remedies.h"
#include "shade/report/time_ratio.h"

namespace shade::report {

using catalog::amount_of;
using catalog::Amounts;
using catalog::Course;
using catalog::Settings;
using catalog::Timeline;
void add_settings(Settings& to, const Json& section);  // what of it is a value, and not about measuring

struct Snapshot {
  std::string stage;
  double allocated_mb = 0, highest_mb = 0;  // now; so far
};

// One experiment. `mode` is the word of its file; `method` the same without what the strategy adds to it, so that
// ghost and ghost_fsdp have one colour.
struct ResultRow : catalog::Figures, catalog::Parts {
  std::string file, mode, method, model, shard, log_key;
  std::string model_name;  // what it may be called: "llama 256 x 2, shape of llama3-8b"
  std::string preset;      // "dit at scale small"; empty: none
  Settings settings;       // all that must be equal for a fair comparison of methods, except the sequence length
  Settings privacy;        // the rest of a private method's configuration
  Settings environment;
  int64_t seq_length = 0, batch_size = 0, ranks = 1, grad_accum = 1;
  std::optional<TimeRatio> ratio;
  std::vector<double> rank_peaks_mb;  // by rank
  std::vector<Snapshot> snapshots;    // of rank 0
  std::optional<Timeline> timeline;   // of one step; empty: unknown
  std::string peak_owner;             // in words
  std::string planned_for;            // the device profile of a planned row; empty: it was measured
  std::optional<bool> fits;           // of a planned row: within the memory of its device
  std::string failure;                // why it has no figures; empty: it has

  std::vector<std::pair<std::string, std::string>> shape;  // {setting, words}: what differs in this folder
  std::string group;                                       // "seq 128, zero3": its words
  std::string name;                                        // mode and group

  std::string shape_without(const std::vector<std::string>& left_out) const;
  const Course& course() const {  // of the memory in that step
    static const Course kUnknown;
    return timeline ? timeline->memory : kUnknown;
  }
  bool failed() const { return !failure.empty(); }
  bool is_private() const { return method != "no_dp"; }
  bool moves_bytes() const { return sent_bytes.value_or(0) > 0; }
  double waits_ms() const { return exposed_ms.value_or(0); }
  std::optional<std::pair<double, double>> interval_ms() const {  // of its median; empty: too few runs
    return low_ms && high_ms ? std::optional(std::pair(*low_ms, *high_ms)) : std::nullopt;
  }
};

struct SkippedFile {
  std::string file, reason;
};

// What `shade plan --advise` tried. Time and cost are per sample: ms and device-ms, or without a device profile FLOPs
// and bytes sent.
struct AdvisedRow {
  std::string name, verdict, reason;
  double peak_mb = 0, time = 0, cost = 0;

  bool on_front() const { return verdict == "front"; }
};
struct Advice {
  std::string file, recommended;  // empty: nothing fits
  double limit_mb = 0;
  bool timed = false;
  std::vector<AdvisedRow> rows;  // but those that would be refused
};

struct Results {
  std::vector<ResultRow> rows;       // with figures; by shape, then by method
  std::vector<ResultRow> failures;   // in the same order
  std::vector<SkippedFile> foreign;  // JSON of something else
  std::string common;                // "llama-nano, 2 ranks": what is the same in all rows
  std::vector<SkippedFile> broken;   // no JSON, or not the types that were expected
  std::vector<Advice> advice;        // of files of shade plan --advise
  size_t unfinished = 0;             // rows that are from repeats/ alone: their matrix was cut short

  double largest_peak_mb() const;
  std::string throughput_unit() const;  // "tokens/s"; of samples without a length "samples/s"
  std::string baseline() const;  // the word of rows that are not private: no_dp, or vanilla if they are all called so
  bool all_planned() const;      // none was measured
  // What is drawn around a median: its 99 % interval, or if no row has one, the fastest to the slowest step.
  std::pair<double, double> range_ms(const ResultRow& row) const;
  std::string range_text() const;
  const ResultRow* without_privacy(const ResultRow& row) const;  // the same shape; nullptr: it wasn't measured
};

// One row. Throws Error naming the key whose value is not what it should be.
ResultRow row_of(const Json& json, const std::string& file);
bool is_result(const Json& json);

// All *.json directly in the folder, and what repeats/ has of rows without a result there; or one file. Throws
// UsageError if there is no such folder or no result in it.
Results read_results(const std::filesystem::path& folder);

// The modes of the rows in the order in which pictures show them: {method, the word for it}.
std::vector<std::pair<std::string, std::string>> methods_of(const std::vector<ResultRow>& rows);

}  // namespace shade::report
