// Predicted scratch memory of matrix products against what libtorch's CPU kernels allocate.
#include "shade/plan/meta_kernels.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <functional>

#include "shade/nn/launches.h"
#include "shade/profile/memory.h"

namespace shade::plan {
namespace {

at::Tensor narrow_zeros(at::IntArrayRef shape) { return at::zeros(shape, at::kBFloat16); }

// Besides the result.
double scratch_allocated(const std::function<at::Tensor()>& multiply) {
  using profile::TensorMemory;
  TensorMemory::track();
  const auto before = TensorMemory::current().count;
  TensorMemory::reset_peak();
  const auto product = multiply();
  return static_cast<double>(TensorMemory::peak().count - before) - static_cast<double>(product.nbytes());
}

double scratch_planned(const at::Tensor& a, const at::Tensor& b) {
  return static_cast<double>(product_scratch(a.to(at::kMeta), b.to(at::kMeta)).count);
}

TEST(ProductScratch, IsThatOfTheKernels) {
  constexpr double kPadding = 1024;
  const auto a = narrow_zeros({6, 200, 64}), b = narrow_zeros({6, 64, 300}), few = narrow_zeros({16, 16});
  const auto threads = at::get_num_threads();
  for (const int count : {1, 2}) {
    at::set_num_threads(count);
    SCOPED_TRACE(count);
    EXPECT_NEAR(scratch_planned(a, b), scratch_allocated([&] { return at::bmm(a, b); }), kPadding);
    for (const auto& x : {a[0], narrow_zeros({64, 200}).t()})
      for (const auto& y : {b[0], narrow_zeros({300, 64}).t()})
        EXPECT_NEAR(scratch_planned(x, y), scratch_allocated([&] { return at::mm(x, y); }), kPadding) << x.strides();
    EXPECT_EQ(scratch_planned(few, few), scratch_allocated([&] { return at::mm(few, few); }));
  }
  at::set_num_threads(threads);
}

// Of products that are too large to be tried: a copy of the result, or what kernels for bf16 need, which hardly grows.
TEST(ProductScratch, FollowsFromASmallerProduct) {
  const auto a = narrow_zeros({6000, 400}), b = narrow_zeros({400, 3000});
  const auto found = scratch_allocated([&] { return at::mm(a, b); });
  EXPECT_NEAR(scratch_planned(a, b), found, 0.05 * found + (2 << 20));
}

TEST(ProductScratch, IsOfNarrowProductsOnACpu) {
  const auto wide = at::zeros({512, 512}), narrow = narrow_zeros({512, 512});
  EXPECT_EQ(scratch_planned(wide, wide), 0);
  const nn::AsAccelerator accelerator(GiB(1));
  EXPECT_EQ(scratch_planned(narrow, narrow), 0);
}

}  // namespace
}  // namespace shade::plan
