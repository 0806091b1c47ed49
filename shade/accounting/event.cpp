#include "shade/accounting/event.h"

#include <algorithm>
#include <cmath>

#include "shade/base/error.h"

namespace shade::privacy {

std::string adjacency(PrivacyUnit unit, Neighbours neighbours) {
  SHADE_CHECK(neighbours == Neighbours::add_remove, "no other neighbours are accounted");
  return text("add or remove one ", to_string(unit), unit == PrivacyUnit::user ? " with all records" : "");
}

void Mechanism::require_valid() const {
  SHADE_REQUIRE(
      sample_rate > 0 && sample_rate <= 1, "sample rate ", sample_rate,
      " is not a probability; expected above 0 and at most 1: the chance of a record to be in a step's batch");
  SHADE_REQUIRE(std::isfinite(noise_multiplier) && noise_multiplier >= kMinNoise && noise_multiplier <= kMaxNoise,
                "sigma ", noise_multiplier, " is out of range; expected ", kMinNoise, " to ", kMaxNoise,
                " (noise over clip norm); without noise there is no epsilon");
  if (sampler != Sampler::truncated_poisson) {
    SHADE_REQUIRE(max_batch == 0 && population == 0, "a largest batch of ", max_batch, " and a population of ",
                  population, " belong to the truncated_poisson sampler, but the sampler is ", to_string(sampler),
                  "; choose truncated_poisson or leave them out");
    return;
  }
  SHADE_REQUIRE(max_batch > 0, "the truncated_poisson sampler needs the largest batch (found ", max_batch,
                "); its epsilon depends on how often a batch is cut");
  SHADE_REQUIRE(population > 0,
                "the truncated_poisson sampler needs the population, a bound on the number of records (", "found ",
                population, "); its epsilon depends on how often a batch is cut");
}

void require_delta(double delta) {
  SHADE_REQUIRE(delta >= kMinDelta && delta < 1, "delta ", delta, " is out of range; expected ", kMinDelta,
                " up to, not including, 1 (usual: below 1 / number of records)");
}

std::vector<Steps> checked(std::span<const Steps> steps) {
  std::vector<Steps> merged;
  for (const auto& [mechanism, count] : steps) {
    mechanism.require_valid();
    SHADE_REQUIRE(count >= 0 && count <= kMaxSteps, "number of steps ", count, " is out of range; expected 0 to ",
                  kMaxSteps);
    if (count == 0) continue;
    const auto same =
        std::find_if(merged.begin(), merged.end(), [&](const Steps& s) { return s.mechanism == mechanism; });
    if (same == merged.end()) {
      merged.push_back({mechanism, count});
    } else {
      same->count += count;
    }
  }
  return merged;
}

void PrivacyEvent::require_valid() const {
  mechanism.require_valid();
  require_delta(delta);
  SHADE_REQUIRE(std::isfinite(clip_norm) && clip_norm > 0, "clip norm ", clip_norm,
                " is out of range; expected a positive length: it bounds what one record can add");
  SHADE_REQUIRE(std::isfinite(divisor) && divisor > 0, "divisor ", divisor,
                " is out of range; expected a positive public constant, e.g. the expected batch size");
  SHADE_REQUIRE(steps > 0 && steps <= kMaxSteps, "number of steps ", steps, " is out of range; expected 1 to ",
                kMaxSteps);
}

}  // namespace shade::privacy
