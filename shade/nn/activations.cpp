#include "shade/nn/activations.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <array>

#include "shade/base/parallel.h"
#include "shade/nn/autograd.h"

namespace shade::nn {
namespace {

constexpr int64_t kVectors = 64;      // numbers: a multiple of what any kernel takes at once
constexpr int64_t kAtOnce = 1 << 14;  // so few that libtorch doesn't share them among threads

// kernel(out, inputs), number by number. On a CPU in whole vectors.
template <size_t n, class Kernel>
at::Tensor in_whole_vectors(std::array<at::Tensor, n> in, const Kernel& kernel) {
  for (auto& x : in) x = x.contiguous();
  auto out = at::empty_like(in[0]);
  if (!out.is_cpu()) return kernel(out, in), out;
  auto flat = out.view({-1});
  for (auto& x : in) x = x.view({-1});
  const auto of = [&](int64_t from, int64_t size) {
    auto part = in;
    for (auto& x : part) x = x.narrow(0, from, size);
    return part;
  };
  const auto whole = flat.numel() / kVectors, rest = flat.numel() % kVectors;
  parallel_for(0, whole, at::internal::GRAIN_SIZE / kVectors, [&](int64_t begin, int64_t end) {
    const at::AutoDispatchBelowADInplaceOrView no_graph;  // other threads don't know that there is none
    // A kernel that runs beside others shares its numbers with no further thread.
    const auto most = at::in_parallel_region() || at::get_num_threads() == 1 ? (end - begin) * kVectors : kAtOnce;
    for (auto from = begin * kVectors; from < end * kVectors; from += most) {
      const auto size = std::min(most, end * kVectors - from);
      auto part = flat.narrow(0, from, size);
      kernel(part, of(from, size));
    }
  });
  if (rest > 0) {
    auto last = of(whole * kVectors, rest);
    for (auto& x : last) x = at::constant_pad_nd(x, {0, kVectors - rest});
    auto filled = at::empty({kVectors}, out.options());
    kernel(filled, last);
    flat.narrow(0, whole * kVectors, rest).copy_(filled.narrow(0, 0, rest));
  }
  return out;
}

struct Silu : torch::autograd::Function<Silu> {
  static at::Tensor forward(Context* context, const at::Tensor& x) {
    context->save_for_backward({x});
    return silu_forward(x);
  }
  static Tensors backward(Context* context, Tensors grads) {
    return {silu_input_grad(grads[0], context->get_saved_variables()[0])};
  }
};

struct Sigmoid : torch::autograd::Function<Sigmoid> {
  static at::Tensor forward(Context* context, const at::Tensor& x) {
    const auto y = in_whole_vectors<1>({x}, [](at::Tensor& out, const auto& in) { at::sigmoid_out(out, in[0]); });
    context->save_for_backward({y});
    return y;
  }
  static Tensors backward(Context* context, Tensors grads) {
    const auto y = context->get_saved_variables()[0];
    return {(1 - y).mul_(y).mul_(grads[0])};
  }
};

}  // namespace

at::Tensor silu_activation(const at::Tensor& x) { return plain_operators() ? at::silu(x) : Silu::apply(x); }
at::Tensor sigmoid_activation(const at::Tensor& x) { return plain_operators() ? at::sigmoid(x) : Sigmoid::apply(x); }

at::Tensor silu_forward(const at::Tensor& x) {
  return in_whole_vectors<1>({x}, [](at::Tensor& out, const auto& in) { at::silu_out(out, in[0]); });
}
at::Tensor silu_input_grad(const at::Tensor& g, const at::Tensor& x) {
  return in_whole_vectors<2>({g, x}, [](at::Tensor& out, const auto& in) { at::silu_backward_out(out, in[0], in[1]); });
}
at::Tensor swiglu_forward(const at::Tensor& gate, const at::Tensor& up) {
  return in_whole_vectors<2>({gate, up}, [](at::Tensor& out, const auto& in) { at::silu_out(out, in[0]).mul_(in[1]); });
}
at::Tensor gelu_forward(const at::Tensor& x) {
  return in_whole_vectors<1>({x}, [](at::Tensor& out, const auto& in) { at::gelu_out(out, in[0], "tanh"); });
}
at::Tensor gelu_input_grad(const at::Tensor& g, const at::Tensor& x) {
  return in_whole_vectors<2>({g, x},
                             [](at::Tensor& out, const auto& in) { at::gelu_backward_out(out, in[0], in[1], "tanh"); });
}

}  // namespace shade::nn
