#include "shade/plan/meta_kernels.h"

#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <torch/library.h>

namespace shade::plan {
namespace {

// An output that was made empty gets a storage of its size by the allocator, which counts it; resized it would not be.
at::Tensor& sized(at::Tensor& out, at::IntArrayRef shape) {
  if (out.sizes() != shape) out.set_(at::empty(shape, out.options()));
  return out;
}

at::Tensor& same_shape(const at::Tensor& self, at::Tensor& out) { return sized(out, self.sizes()); }

at::Tensor& common_shape(const at::Tensor& self, const at::Tensor& other, at::Tensor& out) {
  return sized(out, at::infer_size(self.sizes(), other.sizes()));
}

at::Tensor where(const at::Tensor& condition, const at::Tensor& self, const at::Tensor& other) {
  const auto shape = at::infer_size(condition.sizes(), at::infer_size(self.sizes(), other.sizes()));
  return at::empty(shape, self.options().dtype(at::result_type(self, other)));
}

at::Tensor index_select(const at::Tensor& self, int64_t dim, const at::Tensor& index) {
  auto shape = self.sizes().vec();
  shape.at(static_cast<size_t>(at::maybe_wrap_dim(dim, self.dim()))) = index.numel();
  return at::empty(shape, self.options());
}

at::Tensor roll(const at::Tensor& self, c10::SymIntArrayRef, at::IntArrayRef) { return at::empty_like(self); }

}  // namespace

MetaKernels::MetaKernels()
    : library_(
          std::make_unique<torch::Library>(torch::Library::IMPL, "aten", c10::DispatchKey::Meta, __FILE__, __LINE__)) {
  library_->impl("abs.out", TORCH_FN(same_shape));
  library_->impl("logical_not.out", TORCH_FN(same_shape));
  library_->impl("logical_and.out", TORCH_FN(common_shape));
  library_->impl("where.self", TORCH_FN(where));
  library_->impl("index_select", TORCH_FN(index_select));
  library_->impl("roll", TORCH_FN(roll));
}

MetaKernels::~MetaKernels() = default;

}  // namespace shade::plan
