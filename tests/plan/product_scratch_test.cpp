// Predicted scratch memory of matrix products against what libtorch's CPU kernels allocate.
#include "shade/plan/product_scratch.h"

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

double scratch_planned(at::IntArrayRef shape, int64_t inner, at::ScalarType type = at::kBFloat16) {
  const auto product = at::empty(shape, at::TensorOptions(at::kMeta).dtype(type));
  return static_cast<double>(product_scratch(product, inner).count);
}

TEST(ProductScratch, IsThatOfTheKernels) {
  constexpr double kPadding = 1024;
  const auto a = narrow_zeros({6, 200, 64}), b = narrow_zeros({6, 64, 300}), small = narrow_zeros({16, 16});
  if (scratch_allocated([&] { return at::mm(a[0], b[0]); }) < 4 * 200 * 300)
    GTEST_SKIP() << "this CPU multiplies bf16 by kernels that need no fp32 copy of the result";
  const auto threads = at::get_num_threads();
  for (const int count : {1, 2}) {
    at::set_num_threads(count);
    SCOPED_TRACE(count);
    const auto batch = scratch_allocated([&] { return at::bmm(a, b); });
    EXPECT_GT(batch, count * 4 * 200 * 300);
    EXPECT_NEAR(scratch_planned({6, 200, 300}, 64), batch, kPadding);
    EXPECT_NEAR(scratch_planned({200, 300}, 64), scratch_allocated([&] { return at::mm(a[0], b[0]); }), kPadding);
    EXPECT_EQ(scratch_planned({16, 16}, 16), scratch_allocated([&] { return at::mm(small, small); }));
  }
  at::set_num_threads(threads);
}

TEST(ProductScratch, IsOfNarrowProductsOnACpu) {
  EXPECT_EQ(scratch_planned({512, 512}, 512, at::kFloat), 0);
  const nn::AsAccelerator accelerator(GiB(1));
  EXPECT_EQ(scratch_planned({512, 512}, 512), 0);
}

}  // namespace
}  // namespace shade::plan
