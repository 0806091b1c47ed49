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

// A part of a model whose weights are needed together: a block, an embedding, a head.
struct Unit {
  UnitId id = 0;                 // its place in Parameters::units()
  std::string name;              // as passed to begin_unit()
  std::vector<Weight*> weights;  // in the order in which they were added
  bool read_in_backward = true;  // false: its weights are not needed there (a lookup table)
};

// The weights that a model declares, by name, shape and initial values; their storage is bound later (nn/weight.h).
class Parameters {
 public:
  Parameters() = default;
  Parameters(const Parameters&) = delete;  // layers refer to the weights
  Parameters& operator=(const Parameters&) = delete;

  UnitId begin_unit(std::string name);  // weights added from now on belong to it
  void only_looked_up(UnitId unit);     // no layer of it reads its weights in backward
  // The reference stays valid. Throws Error if no unit was begun, or if there is a weight of that name.
  Weight& add(std::string name, std::vector<int64_t> shape, Init init);

  std::deque<Weight>& weights() { return weights_; }              // in the order of their ids
  const std::deque<Weight>& weights() const { return weights_; }  // the same, to read
  const std::vector<Unit>& units() const { return units_; }       // in the order of their ids
  Weight* find(std::string_view name);                            // null: no weight has that name
  int64_t count() const;                                          // elements of all weights
  int64_t count_trainable() const;                                // elements of weights that are not frozen

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
