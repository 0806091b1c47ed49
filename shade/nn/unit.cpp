#include "shade/nn/unit.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "shade/base/error.h"
#include "shade/nn/autograd.h"

namespace shade::nn {
namespace {

struct Enter : torch::autograd::Function<Enter> {
  static Tensors forward(Context* context, at::TensorList inputs, const Wiring* wiring, int64_t unit) {
    remember(context, wiring);
    context->set_materialize_grads(false);  // an anchor has none
    context->saved_data["unit"] = unit;
    Tensors out;
    for (const auto& input : inputs) out.push_back(input.view_as(input));
    return out;
  }
  static Tensors backward(Context* context, Tensors grads) {
    const auto& wiring = recall<Wiring>(context);
    if (wiring.units != nullptr)
      wiring.units->leave(static_cast<UnitId>(context->saved_data["unit"].toInt()), Pass::backward);
    grads.resize(grads.size() + 2);
    return grads;
  }
};

struct Leave : torch::autograd::Function<Leave> {
  static at::Tensor forward(Context* context, const at::Tensor& output, const Wiring* wiring, int64_t unit) {
    remember(context, wiring);
    context->saved_data["unit"] = unit;
    return output.view_as(output);
  }
  static Tensors backward(Context* context, Tensors grads) {
    const auto& wiring = recall<Wiring>(context);
    if (wiring.units != nullptr)
      wiring.units->enter(static_cast<UnitId>(context->saved_data["unit"].toInt()), Pass::backward);
    return {grads[0], {}, {}};
  }
};

struct Recompute : torch::CustomClassHolder {
  explicit Recompute(Block b) : block(std::move(b)) {}
  Block block;
};

struct Checkpoint : torch::autograd::Function<Checkpoint> {
  static at::Tensor forward(Context* context, at::TensorList inputs, const Block* block) {
    context->saved_data["block"] = c10::IValue::make_capsule(c10::make_intrusive<Recompute>(*block));
    context->save_for_backward(inputs.vec());
    return (*block)(inputs.vec());  // grad mode is off inside of forward
  }
  static Tensors backward(Context* context, Tensors grads) {
    const auto held = c10::static_intrusive_pointer_cast<Recompute>(context->saved_data["block"].toCapsule());
    Tensors inputs, wanted;
    for (const auto& saved : context->get_saved_variables()) {
      inputs.push_back(saved.detach());
      if (saved.requires_grad()) wanted.push_back(inputs.back().set_requires_grad(true));
    }
    const at::AutoGradMode on(true);
    const auto output = held->block(inputs);
    auto found = torch::autograd::grad({output}, wanted, {grads[0]}, false, false, /*allow_unused=*/true);
    Tensors result;
    for (auto& input : inputs) {
      result.emplace_back();
      if (!input.requires_grad()) continue;
      result.back() = found.front();
      found.erase(found.begin());
    }
    result.emplace_back();
    return result;
  }
};

}  // namespace

Tensors enter_unit(const Wiring& wiring, UnitId unit, Tensors inputs) {
  if (wiring.units == nullptr || plain_operators()) return inputs;
  wiring.units->enter(unit, Pass::forward);
  return Enter::apply(at::TensorList(inputs), &wiring, static_cast<int64_t>(unit));
}

at::Tensor leave_unit(const Wiring& wiring, UnitId unit, const at::Tensor& output) {
  if (wiring.units == nullptr || plain_operators()) return output;
  wiring.units->leave(unit, Pass::forward);
  return Leave::apply(output, &wiring, static_cast<int64_t>(unit));
}

at::Tensor checkpointed(const Block& block, const Tensors& inputs) {
  if (plain_operators()) return block(inputs);
  return Checkpoint::apply(at::TensorList(inputs), &block);
}

at::Tensor run_unit(const Wiring& wiring, UnitId unit, const Block& block, Tensors inputs, bool checkpoint) {
  const auto needs_gradient = [](const at::Tensor& input) { return input.requires_grad(); };
  if (!at::GradMode::is_enabled() || std::any_of(inputs.begin(), inputs.end(), needs_gradient)) {
    inputs = enter_unit(wiring, unit, std::move(inputs));
  } else {
    const auto hung = std::find_if(inputs.begin(), inputs.end(), [](const auto& in) { return in.is_floating_point(); });
    SHADE_REQUIRE(hung != inputs.end(), "unit ", unit,
                  " has no input that can carry a gradient, so backward would never reach its weights; pass "
                  "nn::anchor() through nn::enter_unit, and what comes out to nn::Embedding");
    *hung = hang(*hung, enter_unit(wiring, unit, {anchor(hung->device())})[0]);
  }
  return leave_unit(wiring, unit, checkpoint ? checkpointed(block, inputs) : block(inputs));
}

}  // namespace shade::nn
