#include "shade/plan/meta_kernels.h"

#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <ATen/ops/add_meta_dispatch.h>
#include <ATen/ops/addmm_meta_dispatch.h>
#include <ATen/ops/bmm_meta_dispatch.h>
#include <ATen/ops/mm_meta_dispatch.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/library.h>

#include "shade/plan/product_scratch.h"

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

// Allocates what a CPU's kernel would, and frees it.
void take_scratch(const at::Tensor& a, const at::Tensor& b) {
  const auto bytes = product_scratch(a, b);
  if (bytes.count > 0) at::empty({bytes.count}, a.options().dtype(at::kByte));
}

at::Tensor mm(const at::Tensor& a, const at::Tensor& b) {
  auto out = at::meta::mm(a, b);
  take_scratch(a, b);
  return out;
}

at::Tensor& mm_into(const at::Tensor& a, const at::Tensor& b, at::Tensor& out) {
  at::meta::mm_out(out, a, b);
  take_scratch(a, b);
  return out;
}

at::Tensor bmm(const at::Tensor& a, const at::Tensor& b) {
  auto out = at::meta::bmm(a, b);
  take_scratch(a, b);
  return out;
}

at::Tensor addmm(const at::Tensor& self, const at::Tensor& a, const at::Tensor& b, const at::Scalar& beta,
                 const at::Scalar& alpha) {
  auto out = at::meta::addmm(self, a, b, beta, alpha);
  take_scratch(a, b);
  return out;
}

at::Tensor& addmm_to(at::Tensor& self, const at::Tensor& a, const at::Tensor& b, const at::Scalar& beta,
                     const at::Scalar& alpha) {
  at::meta::addmm_(self, a, b, beta, alpha);
  take_scratch(a, b);
  return self;
}

thread_local int functions_running = 0;  // of the graph

std::unique_ptr<at::ObserverContext> function_began(const at::RecordFunction&) {
  ++functions_running;
  return nullptr;
}

void function_ended(const at::RecordFunction&, at::ObserverContext*) { --functions_running; }

// Autograd itself, between two functions of the graph: it adds the gradients of a value that was used twice.
bool autograd_accumulates() {
  return torch::autograd::get_current_graph_task_id() >= 0 && functions_running == 0 && !at::GradMode::is_enabled();
}

bool is_only_reference(const at::Tensor& gradient) {
  return gradient.use_count() == 1 && gradient.has_storage() && gradient.storage().use_count() == 1 &&
         gradient.is_non_overlapping_and_dense();
}

// Autograd accumulates in place where it has the only reference to a gradient. On meta it doesn't.
at::Tensor add(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha) {
  if (autograd_accumulates() && is_only_reference(self))
    return at::meta::add_(const_cast<at::Tensor&>(self), other, alpha);
  return at::meta::add(self, other, alpha);
}

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
  library_->impl("add.Tensor", TORCH_FN(add));
  library_->impl("mm", TORCH_FN(mm));
  library_->impl("mm.out", TORCH_FN(mm_into));
  library_->impl("bmm", TORCH_FN(bmm));
  library_->impl("addmm", TORCH_FN(addmm));
  library_->impl("addmm_", TORCH_FN(addmm_to));
  functions_ = at::addThreadLocalCallback(
      at::RecordFunctionCallback(&function_began, &function_ended).scopes({at::RecordScope::BACKWARD_FUNCTION}));
}

MetaKernels::~MetaKernels() { at::removeCallback(functions_); }

}  // namespace shade::plan
