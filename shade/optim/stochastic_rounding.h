// fp32 to bf16, up or down at random, right on average.
//
// A moment changes by a small part of itself in each step: the second one by at most (1 - beta2) of itself when it
// falls, a thousandth, while neighbours in bf16 are 1/256 to 1/128 apart. Rounded to the nearest it would never fall.
// The dice are a function of key and element index: the same for every cut of the buffer, and after a restart.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

namespace shade::optim {

uint64_t rounding_key(std::string_view slot, int64_t state, int64_t step);

// `first` is the index of the first element. Both tensors are flat, contiguous and of one length.
void round_stochastically(const at::Tensor& into_bf16, const at::Tensor& from_fp32, uint64_t key, int64_t first);

// The same, bit for bit, from tensor operations: for devices that aren't a CPU. 40 bytes of scratch per element.
void round_stochastically_anywhere(const at::Tensor& into_bf16, const at::Tensor& from_fp32, uint64_t key,
                                   int64_t first);

}  // namespace shade::optim
