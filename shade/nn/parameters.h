// All weights of a model, in declaration order, grouped into units.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "shade/nn/tap.h"
#include "shade/nn/weight.h"

namespace shade::nn {

struct Unit {
  UnitId id = 0;
  std::string name;
  std::vector<Weight*> weights;
  bool read_in_backward = true;  // false: its weights are not needed there (a lookup table)
};

class Parameters {
 public:
  Parameters() = default;
  Parameters(const Parameters&) = delete;  // layers refer to the weights
  Parameters& operator=(const Parameters&) = delete;

  UnitId begin_unit(std::string name);  // weights added from now on belong to it
  void only_looked_up(UnitId unit);     // no layer of it reads its weights in backward
  Weight& add(std::string name, std::vector<int64_t> shape, Init init);

  std::deque<Weight>& weights() { return weights_; }
  const std::deque<Weight>& weights() const { return weights_; }
  const std::vector<Unit>& units() const { return units_; }
  Weight* find(std::string_view name);
  int64_t count() const;  // elements of all weights
  int64_t count_trainable() const;

  Wiring wiring;  // layers refer to it

 private:
  std::deque<Weight> weights_;
  std::vector<Unit> units_;
  std::unordered_map<std::string_view, Weight*> by_name_;  // views of the weights' own names
};

// Fills elements [begin, begin + flat.numel()) of the weight, as its Init says.
void initialise(at::Tensor flat, const Weight& weight, uint64_t seed, int64_t begin = 0);

// Holds every weight whole, on one device: what a single process uses. Values are freshly initialised.
void bind_all(Parameters& parameters, const at::TensorOptions& options, uint64_t seed);

}  // namespace shade::nn
