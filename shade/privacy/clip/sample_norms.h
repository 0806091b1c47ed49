// The norms of one micro-batch: squares added up layer by layer, and proof that no weight was forgotten or met twice.
#pragma once

#include <map>
#include <optional>

#include "shade/privacy/clip/clipper.h"
#include "shade/privacy/clip/layer.h"
#include "shade/privacy/norms/embedding.h"

namespace shade::privacy {

class SampleNorms {
 public:
  SampleNorms(const nn::Parameters& parameters, const Clipper& clipper);

  void begin(int64_t samples);

  // Checks what a layer hands over: as many samples as the batch has, each weight once. Throws UsageError naming the
  // weight, the reason and the remedy. Call before the norms are added.
  void admit(const nn::LayerGrad& grad);
  void add(const nn::Weight& weight, const at::Tensor& squares_B);  // which nobody changes afterwards

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
