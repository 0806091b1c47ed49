// A trainable tensor as a layer sees it.
//
// A layer never keeps the tensor: it asks in forward and again in backward, so the owner of the storage (a sharding
// runtime, or a plain holder) may free it in between.
#pragma once

#include <ATen/core/Tensor.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace shade::nn {

// Stable across strategies and world sizes: the position in the model's declaration. Also the noise key.
using WeightId = int32_t;
using UnitId = int32_t;

// How a weight begins: N(0, std^2), U(-bound, bound), a constant, or waves (nn/positions.h). Drawn per element from
// (seed, name, element index): the same for every strategy, world size and order.
struct Init {
  enum class Kind { normal, uniform, constant, sincos } kind = Kind::normal;
  double value = 0.02;  // std, bound, or the constant

  static Init normal(double std) { return {Kind::normal, std}; }
  static Init uniform(double bound) { return {Kind::uniform, bound}; }
  // Glorot and Bengio 2010: outputs and gradients as large as their inputs.
  static Init xavier(int64_t in, int64_t out) { return uniform(std::sqrt(6.0 / static_cast<double>(in + out))); }
  static Init constant(double value) { return {Kind::constant, value}; }
  static Init sincos() { return {Kind::sincos, 0}; }  // of a weight [1, grid * grid, width]
};

class Weight {
 public:
  Weight(WeightId id, UnitId unit, std::string name, std::vector<int64_t> shape, Init init)
      : id_(id), unit_(unit), name_(std::move(name)), shape_(std::move(shape)), init_(init) {}

  // Gathered, in the compute dtype. Throws, naming the weight, while nothing is bound.
  const at::Tensor& value() const;

  WeightId id() const { return id_; }
  UnitId unit() const { return unit_; }
  const std::string& name() const { return name_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  const Init& init() const { return init_; }
  int64_t numel() const;
  bool trainable() const { return trainable_; }
  // A head that the task brings: weights of another task, from which training may start, don't have it.
  bool task_head() const { return task_head_; }

  // For the owner of the storage and the builder of the model; not for layers.
  void bind(at::Tensor value);
  void release() { value_.reset(); }
  bool bound() const { return value_.defined(); }
  void freeze() { trainable_ = false; }
  void mark_task_head() { task_head_ = true; }

 private:
  WeightId id_;
  UnitId unit_;
  std::string name_;
  std::vector<int64_t> shape_;
  Init init_;
  bool trainable_ = true, task_head_ = false;
  at::Tensor value_;
};

}  // namespace shade::nn
