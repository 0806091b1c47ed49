#include "shade/plan/meta_kernels.h"

#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <ATen/Parallel.h>
#include <ATen/ops/add_meta_dispatch.h>
#include <ATen/ops/addmm_meta_dispatch.h>
#include <ATen/ops/bmm_meta_dispatch.h>
#include <ATen/ops/mm_meta_dispatch.h>
#include <ATen/record_function.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "shade/nn/launches.h"
#include "shade/profile/memory.h"

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

void register_kernels() {
  static const auto library = [] {
    auto out =
        std::make_unique<torch::Library>(torch::Library::IMPL, "aten", c10::DispatchKey::Meta, __FILE__, __LINE__);
    out->impl("abs.out", TORCH_FN(same_shape));
    out->impl("logical_not.out", TORCH_FN(same_shape));
    out->impl("logical_and.out", TORCH_FN(common_shape));
    out->impl("where.self", TORCH_FN(where));
    out->impl("index_select", TORCH_FN(index_select));
    out->impl("roll", TORCH_FN(roll));
    out->impl("add.Tensor", TORCH_FN(add));
    out->impl("mm", TORCH_FN(mm));
    out->impl("mm.out", TORCH_FN(mm_into));
    out->impl("bmm", TORCH_FN(bmm));
    out->impl("addmm", TORCH_FN(addmm));
    out->impl("addmm_", TORCH_FN(addmm_to));
    return out;
  }();
}

}  // namespace

MetaKernels::MetaKernels() {
  register_kernels();
  functions_ = at::addThreadLocalCallback(
      at::RecordFunctionCallback(&function_began, &function_ended).scopes({at::RecordScope::BACKWARD_FUNCTION}));
}

MetaKernels::~MetaKernels() { at::removeCallback(functions_); }

namespace {

constexpr int64_t kWithoutOneDnn = 16 * 16 * 16;  // multiplications up to which libtorch doesn't call oneDNN
constexpr int64_t kLargest = int64_t{1} << 31;    // multiplications of a product that is tried

struct AllocatedByThread final : c10::MemoryReportingInfoBase {
  void reportMemoryUsage(void*, int64_t bytes, size_t, size_t, c10::Device) override {
    total += std::max<int64_t>(0, bytes);
  }
  bool memoryProfilingEnabled() const override { return true; }

  int64_t total = 0;
};

// Zeros of the shape, with its rows and columns in the same order in memory.
at::Tensor zeros_like(const at::Tensor& shape, int64_t rows, int64_t columns) {
  auto sizes = shape.sizes().vec();
  const bool transposed = shape.stride(-2) == 1 && shape.size(-1) > 1;
  sizes[sizes.size() - 2] = transposed ? columns : rows, sizes.back() = transposed ? rows : columns;
  const auto out = at::zeros(sizes, shape.options().device(at::kCPU));
  return transposed ? out.transpose(-2, -1) : out;
}

// Besides the result.
int64_t allocated_for(const at::Tensor& a, const at::Tensor& b) {
  const at::RecordFunctionGuard not_recorded(/*is_enabled=*/false);
  const profile::TensorMemory::Uncounted uncounted;
  const auto allocated = std::make_shared<AllocatedByThread>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, allocated);
  const auto product = at::matmul(a, b);
  return allocated->total - static_cast<int64_t>(product.nbytes());
}

}  // namespace

Bytes product_scratch(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != at::kBFloat16 || nn::few_launches(a)) return {};
  const auto numbers = a.size(-2) * b.size(-1);
  if (numbers * a.size(-1) <= kWithoutOneDnn) return {};
  static std::mutex mutex;
  static std::map<std::vector<int64_t>, Bytes> known;
  std::vector<int64_t> shape{at::get_num_threads()};
  for (const auto* each : {&a, &b}) {
    shape.insert(shape.end(), each->sizes().begin(), each->sizes().end());
    shape.push_back(each->stride(-2));
  }
  const std::lock_guard lock(mutex);
  const auto [at, is_new] = known.try_emplace(shape);
  if (!is_new) return at->second;
  std::array tried{a.size(-2), a.size(-1), b.size(-1)};
  while (tried[0] * tried[1] * tried[2] > kLargest) *std::max_element(tried.begin(), tried.end()) /= 2;
  const auto x = zeros_like(a, tried[0], tried[1]), y = zeros_like(b, tried[1], tried[2]);
  auto bytes = allocated_for(x, y);
  // Without instructions for bf16, oneDNN multiplies into an fp32 copy of the whole result, one for each thread.
  const auto copies = std::min<int64_t>(a.dim() == 3 ? a.size(0) : 1, at::get_num_threads());
  if (bytes >= 4 * copies * tried[0] * tried[2]) bytes += 4 * copies * (numbers - tried[0] * tried[2]);
  return at->second = Bytes{bytes};
}

}  // namespace shade::plan
