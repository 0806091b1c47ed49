// bf16 is the upper half of fp32: adding a random lower half carries into it with the probability of what is cut off.
// One 64-bit draw gives the lower halves of four neighbours: element i takes 16-bit word i % 4 of draw i / 4.
#include "shade/optim/stochastic_rounding.h"

#include <ATen/ATen.h>

#include <bit>

#include "shade/base/parallel.h"

namespace shade::optim {
namespace {

constexpr uint64_t kStride = 0x9e3779b97f4a7c15;  // splitmix64
constexpr uint64_t kFirstFactor = 0xbf58476d1ce4e5b9, kSecondFactor = 0x94d049bb133111eb;

uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * kFirstFactor;
  x = (x ^ (x >> 27)) * kSecondFactor;
  return x ^ (x >> 31);
}

}  // namespace

uint64_t rounding_key(std::string_view slot, int64_t state, int64_t step) {
  uint64_t key = 0;
  const auto add = [&](uint64_t word) { key = mix(key + kStride + word); };
  for (const char c : slot) add(static_cast<unsigned char>(c));
  add(static_cast<uint64_t>(state));
  add(static_cast<uint64_t>(step));
  return key;
}

void round_stochastically(const at::Tensor& into_bf16, const at::Tensor& from_fp32, uint64_t key, int64_t first) {
  if (!from_fp32.is_cpu()) return round_stochastically_anywhere(into_bf16, from_fp32, key, first);
  const auto* const from = from_fp32.const_data_ptr<float>();
  auto* const into = into_bf16.mutable_data_ptr<at::BFloat16>();
  parallel_for(0, from_fp32.numel(), 1 << 14, [=](int64_t begin, int64_t end) {
    const auto draw_of = [=](uint64_t index) { return mix(key + kStride * (index / 4)); };
    auto index = static_cast<uint64_t>(first + begin);
    auto draw = draw_of(index) >> 16 * (index % 4);
    for (auto i = begin; i < end; ++i) {
      const auto bits = std::bit_cast<uint32_t>(from[i]) + static_cast<uint32_t>(draw & 0xffff);
      into[i] = at::BFloat16(static_cast<uint16_t>(bits >> 16), at::BFloat16::from_bits());
      draw = ++index % 4 == 0 ? draw_of(index) : draw >> 16;
    }
  });
}

void round_stochastically_anywhere(const at::Tensor& into_bf16, const at::Tensor& from_fp32, uint64_t key,
                                   int64_t first) {
  // Tensors have signed integers only: they wrap alike, but shift their sign in.
  const auto same_bits = [](uint64_t x) { return static_cast<int64_t>(x); };
  const auto shifted = [](const at::Tensor& x, int64_t n) {
    return x.bitwise_right_shift(n).bitwise_and_((int64_t{1} << (64 - n)) - 1);
  };
  const auto index = at::arange(first, first + from_fp32.numel(), from_fp32.options().dtype(at::kLong));
  auto x = index.bitwise_right_shift(2).mul_(same_bits(kStride)).add_(same_bits(key));
  x.bitwise_xor_(shifted(x, 30)).mul_(same_bits(kFirstFactor));
  x.bitwise_xor_(shifted(x, 27)).mul_(same_bits(kSecondFactor));
  x.bitwise_xor_(shifted(x, 31));
  x = x.bitwise_right_shift(index.bitwise_and(3).mul_(16)).bitwise_and_(0xffff);
  const auto bits = from_fp32.view(at::kInt).add(x.to(at::kInt)).bitwise_and_(-0x10000);
  into_bf16.copy_(bits.view(at::kFloat));
}

}  // namespace shade::optim
