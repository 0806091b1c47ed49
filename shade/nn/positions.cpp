#include "shade/nn/positions.h"

#include <ATen/ATen.h>

#include <cmath>
#include <numbers>

#include "shade/nn/autograd.h"
#include "shade/nn/launches.h"

namespace shade::nn {

double sincos_position(int64_t index, int64_t grid, int64_t width) {
  const auto patch = index / width, column = index % width, half = width / 2, quarter = width / 4;
  const auto place = column < half ? patch % grid : patch / grid;
  const auto within = column % half;
  const double frequency = std::pow(10000.0, -static_cast<double>(within % quarter) / static_cast<double>(quarter));
  const double angle = static_cast<double>(place) * frequency;
  return within < quarter ? std::sin(angle) : std::cos(angle);
}

namespace {

// In one pass over halves, without the concatenations of the textbook form.
at::Tensor turn(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, double direction) {
  const auto half = x.size(-1) / 2;
  if (cos.size(-1) == x.size(-1))  // an accelerator's table: three operators instead of four
    return (x * cos.unsqueeze(1)).addcmul_(x.roll(half, -1), sin.unsqueeze(1), direction);
  const auto low = x.narrow(-1, 0, half);
  const auto high = x.narrow(-1, half, half);
  auto out = at::empty(x.sizes(), x.options());
  auto out_low = out.narrow(-1, 0, half);
  auto out_high = out.narrow(-1, half, half);
  const auto c = cos.unsqueeze(1);  // [T, 1, half], over heads
  const auto s = sin.unsqueeze(1);
  at::mul_out(out_low, low, c).addcmul_(high, s, -direction);
  at::mul_out(out_high, high, c).addcmul_(low, s, direction);
  return out;
}

struct Rotate : torch::autograd::Function<Rotate> {
  static at::Tensor forward(Context* context, const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
    context->save_for_backward({cos, sin});
    return turn(x, cos, sin, 1);
  }
  static Tensors backward(Context* context, Tensors grads) {
    const auto saved = context->get_saved_variables();
    return {turn(grads[0], saved[0], saved[1], -1), {}, {}};
  }
};

}  // namespace

RopeTable rope_table(const RopeOptions& options, int64_t positions, const at::TensorOptions& like, int64_t first) {
  if (like.device().is_meta()) {  // shapes only
    const auto columns = few_launches(at::empty({0}, like)) ? options.head_dim : options.head_dim / 2;
    return {at::empty({positions, columns}, like), at::empty({positions, columns}, like)};
  }
  const auto wide = like.dtype(like.dtype() == at::kDouble ? at::kDouble : at::kFloat);
  const auto exponent = at::arange(0, options.head_dim, 2, wide).div_(static_cast<double>(options.head_dim));
  auto frequency = at::pow(options.theta, exponent).reciprocal();
  if (options.scaling) {
    const auto& s = *options.scaling;
    const auto original = static_cast<double>(s.original_max_position);
    const auto wavelength = (2 * std::numbers::pi) / frequency;
    // Long waves are stretched by `factor`, short ones kept, those between blended.
    const auto blend = (original / wavelength - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
    const auto blended = (1 - blend) * (frequency / s.factor) + blend * frequency;
    auto stretched = at::where(wavelength > original / s.low_freq_factor, frequency / s.factor, frequency);
    const auto between = (wavelength <= original / s.low_freq_factor) & (wavelength >= original / s.high_freq_factor);
    frequency = at::where(between, blended, stretched);
  }
  const auto angle = at::outer(at::arange(first, first + positions, wide), frequency);
  const auto cos = angle.cos().to(like), sin = angle.sin().to(like);
  if (few_launches(angle)) return {at::cat({cos, cos}, 1), at::cat({-sin, sin}, 1)};
  return {cos, sin};
}

at::Tensor rotate(const at::Tensor& x, const RopeTable& table) {
  if (!plain_operators()) return Rotate::apply(x, table.cos_TH, table.sin_TH);
  const auto half = x.size(-1) / 2;
  const auto cos = table.cos_TH.unsqueeze(1), sin = table.sin_TH.unsqueeze(1);
  if (cos.size(-1) == x.size(-1)) return x * cos + x.roll(half, -1) * sin;
  const auto low = x.narrow(-1, 0, half), high = x.narrow(-1, half, half);
  return at::cat({low * cos - high * sin, high * cos + low * sin}, -1);
}

}  // namespace shade::nn
