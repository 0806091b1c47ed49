// The words of this module: which collectives there are, what one costs on the wire, and an operation as data.
//
//   W        ranks of the group
//   N        payload: elements (or bytes) of the full buffer, i.e. what all_gather produces and reduce_scatter consumes
//   wire     bytes one rank hands to the transport (sends); summed over ranks it is the traffic of the group
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "shade/base/names.h"
#include "shade/base/units.h"

namespace shade::comm {

enum class Collective { all_gather, reduce_scatter, all_reduce, all_to_all, broadcast, barrier };

inline std::span<const Name<Collective>> names_of(Collective) {
  static constexpr Name<Collective> kNames[] = {
      {"all_gather", Collective::all_gather}, {"reduce_scatter", Collective::reduce_scatter},
      {"all_reduce", Collective::all_reduce}, {"all_to_all", Collective::all_to_all},
      {"broadcast", Collective::broadcast},   {"barrier", Collective::barrier}};
  return kNames;
}

// There is no average: dividing is the caller's, once, by a stated factor.
enum class Reduce { sum, max, min };

// An operation as data, from the caller's options to the transport.
struct Operation {
  Collective kind = Collective::barrier;
  at::Tensor output;  // all_reduce and broadcast work in place: output and input are the same
  at::Tensor input;
  Reduce reduce = Reduce::sum;
  int root = 0;
  std::vector<int64_t> output_splits;  // all_to_all, in elements, one per rank
  std::vector<int64_t> input_splits;
  std::string label;  // what the caller calls it, e.g. "unit 7"; appears in traces and failure reports

  Bytes payload() const;       // bytes of the larger buffer
  c10::Device device() const;  // of its tensors; the CPU if it has none
};

// Bus factor: algorithm bandwidth x this = what the links carry (nccl-tests' definition).
double bus_factor(Collective kind, int ranks);

}  // namespace shade::comm
