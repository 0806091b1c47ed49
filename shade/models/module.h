// A model of a program's own in its shortest form: layers are members, loss() says what each row costs.
//
//   struct Net : models::Module {
//     nn::Embedding embed = add<nn::Embedding>("embed", {.rows = 64, .width = 16});
//     nn::Linear head = add<nn::Linear>("head", {.in = 16, .out = 3, .bias = true});
//
//     at::Tensor loss(const nn::Batch& batch) override {
//       return nn::class_losses(head(embed(batch.field("ids")).mean(1)), batch.field("label"));
//     }
//   };
#pragma once

#include <optional>
#include <string>

#include "shade/models/model.h"
#include "shade/nn/embedding.h"
#include "shade/nn/function.h"
#include "shade/nn/linear.h"
#include "shade/nn/losses.h"
#include "shade/nn/norm.h"
#include "shade/nn/own_layer.h"

namespace shade::models {

// All of its weights are one unit: they are gathered together. A large model that should be gathered part by part
// derives from Model, and marks its units itself (nn/unit.h).
class Module : public Model {
 public:
  // One loss per row of the batch: [B], not averaged. No row's loss may depend on another row.
  virtual at::Tensor loss(const nn::Batch& batch) = 0;
  at::Tensor losses(const nn::Batch& batch) final;  // loss() inside the unit

 protected:
  // Declares a layer with its weights: their names begin with `name`. For initialisers of members.
  template <class Layer>
  Layer add(const std::string& name, typename Layer::Options options) {
    return Layer(in_unit(), name, std::move(options));
  }
  // The same for a layer that takes numbers: add<nn::RmsNorm>("norm", width, eps).
  template <class Layer>
  Layer add(const std::string& name, int64_t width, double eps) {
    return Layer(in_unit(), name, width, eps);
  }

 private:
  nn::Parameters& in_unit() {
    if (!unit_) unit_ = parameters_.begin_unit("model");
    return parameters_;
  }

  std::optional<nn::UnitId> unit_;
};

}  // namespace shade::models
