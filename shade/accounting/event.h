// What a private run does to its records, said once. The sampler, the noise and the accountant are all built from this
// object, so that no epsilon is printed for a sampler that is not the one that ran.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "shade/base/names.h"

namespace shade::privacy {

// poisson: every record joins a step's batch on its own with probability `sample_rate`.
// truncated_poisson: the same, and of a batch larger than `max_batch` only the first `max_batch` are kept, in an order
//   that is drawn without looking at the records (a uniformly random subset is one such order).
// shuffled: the data set is permuted and cut into batches. No accountant here answers for it.
enum class Sampler { poisson, truncated_poisson, shuffled };
inline std::span<const Name<Sampler>> names_of(Sampler) {
  static constexpr Name<Sampler> kNames[] = {{"poisson", Sampler::poisson},
                                             {"truncated_poisson", Sampler::truncated_poisson},
                                             {"shuffled", Sampler::shuffled}};
  return kNames;
}

// Which two data sets must look alike: one has a record more than the other. Both directions are accounted.
enum class Neighbours { add_remove };
inline std::span<const Name<Neighbours>> names_of(Neighbours) {
  static constexpr Name<Neighbours> kNames[] = {{"add_remove", Neighbours::add_remove}};
  return kNames;
}

// What that "record" is: a record of the data, a window of tokens cut from all texts in a row, or a user with all
// records. A text may reach into several windows, so an epsilon per window is no epsilon of a text or a person.
enum class PrivacyUnit { record, window, user };
inline std::span<const Name<PrivacyUnit>> names_of(PrivacyUnit) {
  static constexpr Name<PrivacyUnit> kNames[] = {
      {"record", PrivacyUnit::record}, {"window", PrivacyUnit::window}, {"user", PrivacyUnit::user}};
  return kNames;
}

// "add or remove one record", "add or remove one user with all records": the one wording of what an epsilon protects,
// for help, reports and result files.
std::string adjacency(PrivacyUnit unit, Neighbours neighbours = Neighbours::add_remove);

// One step as an accountant sees it. Lengths are in units of the clip norm.
struct Mechanism {
  Sampler sampler = Sampler::poisson;  // how a step's batch is drawn
  double sample_rate = 0;              // q
  double noise_multiplier = 0;         // sigma: the noise on the sum has standard deviation sigma * clip norm
  int64_t max_batch = 0;               // truncated_poisson only
  int64_t population = 0;              // truncated_poisson only: the data set has at most this many records

  bool operator==(const Mechanism&) const = default;
  void require_valid() const;  // throws UsageError naming the field
};

// Outside of these an accountant's arithmetic has not been tried.
constexpr double kMinNoise = 0.01;            // smallest noise multiplier
constexpr double kMaxNoise = 1e6;             // largest noise multiplier
constexpr double kMinDelta = 1e-50;           // smallest delta; it must also be below 1
constexpr int64_t kMaxSteps = 1'000'000'000;  // largest number of steps of one kind

// So many steps of one kind. A run is a list of these.
struct Steps {
  Mechanism mechanism;  // of each of them
  int64_t count = 0;    // from 0 to kMaxSteps
};

// Valid, non-empty, and equal mechanisms added up. What every accountant starts with.
std::vector<Steps> checked(std::span<const Steps> steps);
// Throws UsageError unless delta is at least kMinDelta and below 1.
void require_delta(double delta);

// A private run: its steps, what they clip to, and what its epsilon protects.
struct PrivacyEvent {
  Mechanism mechanism;   // of every step
  double clip_norm = 1;  // largest norm of what one sample adds to a sum; adaptive clipping begins with it
  double divisor = 0;    // public: the expected batch, never the drawn one nor the size of the data set
  Neighbours neighbours = Neighbours::add_remove;  // which data sets must look alike
  PrivacyUnit unit = PrivacyUnit::record;          // what they differ in
  int64_t steps = 0;                               // of the whole run, from 1 to kMaxSteps
  double delta = 0;                                // at which epsilon is stated
  // What else decides what a unit is. Of users: the field that names them; of windows: their length; of records of .txt
  // files: paragraph or line.
  std::string unit_by{};

  void require_valid() const;  // throws UsageError naming the value that is out of range
  double noise_deviation() const { return mechanism.noise_multiplier * clip_norm; }  // per element of the sum
  // What an accountant counts for the whole run.
  Steps accounted() const { return {mechanism, steps}; }
};

}  // namespace shade::privacy
