// From norms to coefficients: what a sample may weigh, and how far one sample can move the sum.
#pragma once

#include <vector>

#include "shade/base/json.h"
#include "shade/nn/parameters.h"
#include "shade/privacy/config.h"

namespace shade::privacy {

// The share of C that stays unused, so that one sample moves the sum by at most C and not by a rounding more: of its
// term on the grid of the sum (clip/exact_sum.h), sqrt(weights) 2^-33, and of norms and coefficients in fp64.
double clip_margin(int64_t weights);

class Clipper {
 public:
  // Begins with the event's clip norm.
  Clipper(const nn::Parameters& parameters, const PrivacyEvent& event, const ClipOptions& options);

  const ClipOptions& options() const { return options_; }
  Json settings() const;  // the options, and how many groups they made

  // Weights whose gradients are clipped together. One group: flat, automatic, adaptive.
  size_t groups() const { return thresholds_; }
  size_t group_of(const nn::Weight& weight) const { return group_of_[static_cast<size_t>(weight.id())]; }
  bool flat() const { return thresholds_ == 1; }

  // [B] from the squared norms [B] of a group: clipped to C (1 - margin). A norm that is not a number gets 0, and so
  // does one beyond 1e30, whose sums fp32 may have no room for.
  at::Tensor coefficients(const at::Tensor& squares_B) const;
  double margin() const { return margin_; }

  // C, which one sample's part in the sum does not exceed: what noise is scaled by.
  double sensitivity() const { return norm_; }
  double clip_norm() const { return norm_; }
  double sigma() const { return sigma_; }  // of the event it was made for

  // adaptive: the sum over all samples of [norm <= C] - 1/2 (C itself, without the margin) has sensitivity 1/2, gets
  // noise of `count_sigma`, and its share of the divisor moves C. Both releases together cost what one with `sigma`
  // would.
  bool adaptive() const { return options_.style == ClipStyle::adaptive; }
  double gradient_sigma() const;  // sigma, or the larger one that pays for the count
  double count_sigma() const { return options_.count_sigma; }
  void follow(double noisy_count, double divisor);
  void continue_at(double clip_norm);  // where an earlier process left off

 private:
  ClipOptions options_;
  double sigma_, norm_, margin_;
  size_t thresholds_ = 1;
  std::vector<size_t> group_of_;  // by WeightId
};

}  // namespace shade::privacy
