// The best settings within a memory limit, each tried by a dry run.
//
// Settings that differ in the batch alone are a family. A family is tried with 1, 2, 4, ... samples until one doesn't
// fit, twice as many are hardly faster or cheaper per sample, or an earlier family is faster and needs no more memory
// and no more cost with as many: it would be with more. What is best so far is then tried with each
// refinement, and if nothing fits every family with each last resort. What fits is ordered by time; on the front is
// what saves memory or cost against everything faster.
#pragma once

#include <compare>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "shade/base/names.h"
#include "shade/base/units.h"
#include "shade/catalog/methods.h"
#include "shade/catalog/strategies.h"
#include "shade/models/registry.h"
#include "shade/plan/cost.h"
#include "shade/shard/config.h"

namespace shade::plan {

// How a candidate differs from a run that was stated.
struct Edit {
  size_t row = 0;  // which of those that were stated
  std::optional<catalog::MethodName> dp{};
  std::optional<catalog::Strategy> shard{};
  std::optional<models::Checkpointing> checkpointing{};
  std::optional<int64_t> replicate{};
  std::optional<shard::Wrap> wrap{};
  std::optional<bool> offload{};
  std::optional<int64_t> seq_length{};

  Edit with(const Edit& more) const;  // what `more` states holds; the row stays
  auto operator<=>(const Edit&) const = default;
};

struct Candidate {
  Edit edit;
  int64_t batch = 1;  // samples that a rank computes at a time

  bool operator==(const Candidate&) const = default;
};

// What a dry run of a candidate found. Time and cost are of a sample; their units are the caller's.
struct Estimate {
  Bytes peak;
  double time = 0, cost = 0;
  std::string blame;    // what makes the peak, and which option lowers it
  std::string refused;  // why it can't be run at all; empty: it can
};
using Estimator = std::function<Estimate(const Candidate& candidate)>;

struct Family {
  Edit edit;
  std::optional<int64_t> batch;  // stated; none: it is searched
};

struct SearchSpace {
  std::vector<Family> families;
  std::vector<Edit> refinements, last_resorts;
  Bytes limit;
};

enum class Verdict { front, slower, over, refused };
inline std::span<const Name<Verdict>> names_of(Verdict) {
  static constexpr Name<Verdict> kNames[] = {
      {"front", Verdict::front}, {"slower", Verdict::slower}, {"over", Verdict::over}, {"refused", Verdict::refused}};
  return kNames;
}

struct Tried {
  Candidate candidate;
  Estimate estimate;
  Verdict verdict = Verdict::refused;
  size_t beaten_by = 0;  // of a slower one: its index
};

struct Advice {
  std::vector<Tried> tried;   // in the order of the search
  std::vector<size_t> front;  // fastest first; empty: nothing fits

  size_t recommended() const;  // the cheapest on the front of those as fast as the first; something fits
};

Advice advise(const SearchSpace& space, const Estimator& estimate);

struct ReasonWords {
  std::function<std::string(const Candidate&)> name;
  std::string slower = "slower than", alike = "as fast as";
};
// Why it is not on the front, in a line.
std::string reason(const Advice& advice, const Tried& tried, Bytes limit, const ReasonWords& words);

// The largest multiple of `step` up to `most` for which `fits` holds, if it holds for `known` and for all below the
// answer: doubled until it fails, then halved in between.
int64_t largest_that_fits(int64_t known, int64_t step, int64_t most, const std::function<bool(int64_t)>& fits);

// Which of several recorded steps is fastest, by the bandwidth of the links between their ranks.
struct Contender {
  std::string name;
  StepRecord record;
};

struct BandwidthRange {
  std::string fastest;
  double from = 0, to = 0;  // bytes per second of a device, in one direction
};

struct Crossovers {
  bool network = false;                // whether the links between nodes were varied; else those inside a node
  double present = 0;                  // what the profile has
  std::vector<BandwidthRange> ranges;  // ascending, without gaps; empty: the profile's collectives were measured
};

// From a 64th to 16 times the present bandwidth. Steps are compared by their time per sample.
Crossovers crossovers(const std::vector<Contender>& contenders, const DeviceProfile& device,
                      const TimeOptions& options = {});

}  // namespace shade::plan
