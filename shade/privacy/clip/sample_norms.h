// The norms of one micro-batch: squares added up layer by layer, and proof that no weight was forgotten or used twice.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "shade/nn/parameters.h"
#include "shade/privacy/clip/layer.h"
#include "shade/privacy/config.h"
#include "shade/privacy/norms/embedding.h"

namespace shade::privacy {

// From norms to coefficients: what a sample may weigh, and how far one sample can move the sum.

// The share of C that stays unused, so that one sample moves the sum by at most C and not by a rounding more: of its
// term on the grid of the sum (clip/exact_sum.h), sqrt(weights) 2^-33, and of norms and coefficients in fp64.
double clip_margin(int64_t weights);

class Clipper {
 public:
  // Begins with the event's clip norm.
  Clipper(const nn::Parameters& parameters, const PrivacyEvent& event, const ClipOptions& options);

  const ClipOptions& options() const { return options_; }
  std::string settings() const;  // JSON: the options, and how many groups they made

  // Weights whose gradients are clipped together. One group: flat, automatic, adaptive.
  size_t groups() const { return thresholds_; }
  size_t group_of(const nn::Weight& weight) const { return group_of_[static_cast<size_t>(weight.id())]; }
  bool flat() const { return thresholds_ == 1; }

  // [B] from the squared norms [B] of a group: clipped to C (1 - margin). A norm that is not a number gets 0, and so
  // does one beyond 1e30, whose sums may overflow fp32.
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

class SampleNorms {
 public:
  SampleNorms(const nn::Parameters& parameters, const Clipper& clipper);

  void begin(int64_t samples);

  // Checks what a layer hands over: as many samples as the batch has, each weight once. Throws UsageError naming the
  // weight, the reason and the remedy. Call before the norms are added.
  void admit(const nn::LayerGrad& grad);
  void add(const nn::Weight& weight, const at::Tensor& squares_B);  // which must not change afterwards

  // A table that is also the head: its rows wait for the lookup.
  TiedRows& tied(const nn::Weight& weight) { return tied_[weight.id()]; }
  bool is_tied(const nn::Weight& weight) const { return tied_.contains(weight.id()); }

  bool complete(size_t group) const { return pending_[group] == 0; }
  // Every trainable weight (of a group) was handed over, and its norms were added. Throws UsageError naming it.
  void require_complete(std::optional<size_t> group = {}) const;
  int64_t samples() const { return samples_; }
  at::Tensor squares(size_t group) const;  // [B] fp64, the sum of what was added
  at::Tensor total() const;                // over all groups
  const std::map<nn::WeightId, at::Tensor>& by_weight() const { return by_weight_; }

 private:
  struct Seen {
    int64_t rows = 0;  // of a linear weight, handed over so far
    bool done = false;
    int64_t admitted = 0, measured = 0;  // gradients of it that were admitted, and norms that were added
  };
  void admit_rows(const nn::LinearGrad& grad);
  void require_first(const nn::Weight& weight) const;
  void finish(const nn::Weight& weight);

  const nn::Parameters* parameters_;
  const Clipper* clipper_;
  int64_t samples_ = 0;
  std::vector<Seen> seen_;                        // by WeightId
  std::vector<int64_t> pending_;                  // by group: trainable weights not yet handed over
  std::vector<std::vector<at::Tensor>> squares_;  // by group, in the order in which they came: [B] fp64
  std::map<nn::WeightId, TiedRows> tied_;
  std::map<nn::WeightId, at::Tensor> by_weight_;
};

}  // namespace shade::privacy
