// y_t = table[ids_t].
#pragma once

#include "shade/nn/parameters.h"

namespace shade::nn {

// A lookup table: a vector for each id.
class Embedding {
 public:
  // Shape and initial values of the table.
  struct Options {
    int64_t rows = 0;                // ids are below it
    int64_t width = 0;               // elements of a row
    int64_t padding = -1;            // this id's row gets no gradient; -1: none
    Init init = Init::normal(0.02);  // initial values
  };
  // Declares the table as `name`.weight.
  Embedding(Parameters& parameters, const std::string& name, Options options);

  // `start` hangs it into its unit (see nn/unit.h).
  at::Tensor operator()(const at::Tensor& ids_BT, const at::Tensor& start) const;
  // Hung on the anchor: in a models::Module, whose unit is all of it.
  at::Tensor operator()(const at::Tensor& ids_BT) const;

  Weight& table() const { return *table_; }          // [rows, width]
  int64_t padding() const { return padding_; }       // Options::padding
  const Wiring& wiring() const { return *wiring_; }  // where backward reports gradients

 private:
  Weight* table_;
  int64_t padding_;
  const Wiring* wiring_;
};

// Classifier-free guidance: each label becomes `none` with this probability. The draw belongs to the sample (its batch
// is made once, whatever passes and micro-batches a gradient method needs), so it is made with the batch, not in
// forward.
at::Tensor dropped_labels(const at::Tensor& labels_B, int64_t none, double probability, at::Generator generator);

// x + added, one vector per position, the same for every sample: [T, D] or [1, T, D].
class Added {
 public:
  // Declares the vectors as the weight `name`.
  Added(Parameters& parameters, const std::string& name, std::vector<int64_t> shape, Init init);
  at::Tensor operator()(const at::Tensor& x_BTD) const;  // -> [B, T, D]
  Weight& added() const { return *added_; }              // [T, D] or [1, T, D]
  const Wiring& wiring() const { return *wiring_; }      // where backward reports gradients

 private:
  Weight* added_;
  const Wiring* wiring_;
};

}  // namespace shade::nn
