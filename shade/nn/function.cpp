#include "shade/nn/autograd.h"

#include <ATen/ATen.h>

#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "shade/base/error.h"

namespace shade::nn {

namespace {

struct Hang : torch::autograd::Function<Hang> {
  static at::Tensor forward(Context*, const at::Tensor& x, const at::Tensor&) { return x.view_as(x); }
  static Tensors backward(Context*, Tensors) { return {{}, {}}; }
};

thread_local at::Tensor anchor_here;

}  // namespace

at::Tensor hang(const at::Tensor& x, const at::Tensor& start) { return Hang::apply(x, start); }

AnchorScope::AnchorScope(at::Tensor start) {
  SHADE_CHECK(!anchor_here.defined(), "anchors are not nested");
  anchor_here = std::move(start);
}
AnchorScope::~AnchorScope() { anchor_here.reset(); }

const at::Tensor& anchor(at::Device device) {
  if (anchor_here.defined() && anchor_here.device() == device) return anchor_here;
  static const at::Tensor on_cpu = at::zeros({}).set_requires_grad(true);
  if (device.is_cpu()) return on_cpu;
  static std::mutex mutex;
  static auto* const made = new std::map<std::string, at::Tensor>;  // outlives the devices' own end
  const std::lock_guard lock(mutex);
  auto& instance = (*made)[device.str()];
  if (!instance.defined()) instance = at::zeros({}, device).set_requires_grad(true);
  return instance;
}

at::Tensor as_BTD(const at::Tensor& x) {
  SHADE_CHECK(x.dim() >= 2, "expected [B, ..., D], got ", x.sizes());
  if (x.dim() == 3) return x;
  int64_t positions = 1;  // said, not inferred: of no samples nothing can be inferred
  for (int64_t i = 1; i + 1 < x.dim(); ++i) positions *= x.size(i);
  return x.reshape({x.size(0), positions, x.size(-1)});
}

namespace {

thread_local bool plain = false;

}  // namespace

bool plain_operators() { return plain; }

PlainOperators::PlainOperators() : before_(std::exchange(plain, true)) {}
PlainOperators::~PlainOperators() { plain = before_; }

}  // namespace shade::nn
