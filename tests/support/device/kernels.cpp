// Every operator that libtorch doesn't compose from others, by its CPU kernel on the bytes of the device.
#include "tests/support/device/kernels.h"

#include <torch/library.h>

#include <functional>
#include <set>

#include "tests/support/device/device.h"
#include "tests/support/device/host_view.h"
#include "tests/support/device/memory.h"

namespace shade::test::device {
namespace {

// Their result's shape, or the result itself, depends on data: CUDA's kernels wait for the device.
bool synchronises(const std::string& op) {
  static const std::set<std::string> all{"aten::nonzero",
                                         "aten::nonzero.out",
                                         "aten::masked_select",
                                         "aten::masked_select.out",
                                         "aten::_unique2",
                                         "aten::_unique",
                                         "aten::unique_dim",
                                         "aten::unique_consecutive",
                                         "aten::bincount",
                                         "aten::equal",
                                         "aten::repeat_interleave.Tensor",
                                         "aten::multinomial",
                                         "aten::unique_dim_consecutive"};
  return all.contains(op);
}

// One call: its tensors on the device, and as the CPU kernel gets them.
class Call {
 public:
  Call(const c10::OperatorHandle& op, torch::jit::Stack& stack)
      : op_(op), schema_(op.schema()), name_(toString(schema_.operator_name())), stack_(stack) {
    for (const auto& result : schema_.returns())
      view_ = view_ || (result.alias_info() != nullptr && !result.alias_info()->isWrite());
  }

  void run() {
    std::vector<Argument> arguments;
    const auto first = stack_.size() - schema_.arguments().size();
    for (size_t i = 0; i < schema_.arguments().size(); ++i) visit(i, stack_[first + i], arguments);
    check_devices(arguments);
    const c10::DeviceGuard guard(device_.value());
    const Allocating naming(name_);
    for (size_t i = 0; i < schema_.arguments().size(); ++i) to_host(stack_[first + i]);
    if (view_) {
      op_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack_);
      for_results([this](const at::Tensor& result) { return to_device(result, nullptr); });
      return;
    }
    const auto stream = current_stream(device_->index());
    {
      const Turn turn(stream);
      for (const auto& argument : arguments) access(turn, name_, argument.tensor, argument.written);
      turn.await_unfinished();
      const at::AutoDispatchBelowADInplaceOrView below;
      op_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack_);
      for_results([&](const at::Tensor& result) { return to_device(result, &turn); });
      count_launch(device_->index(), name_);
    }
    if (masked_ || synchronises(name_)) synchronise(stream);
  }

 private:
  struct Argument {
    at::Tensor tensor;
    bool written = false;
  };

  void visit(size_t i, const c10::IValue& value, std::vector<Argument>& arguments) {
    const auto* alias = schema_.arguments()[i].alias_info();
    const bool written = alias != nullptr && alias->isWrite();
    const auto add = [&](const at::Tensor& tensor) {
      if (tensor.defined()) arguments.push_back({tensor, written});
    };
    if (value.isTensor()) {
      add(value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) add(tensor);
    } else if (value.isOptionalTensorList()) {
      for (const auto& tensor : value.toOptionalTensorVector())
        if (tensor) {
          add(*tensor);
          masked_ = masked_ || (tensor->scalar_type() == at::kBool && name_.find("index_put") != std::string::npos);
        }
    } else if (value.isDevice()) {
      asked_ = value.toDevice();
    } else if (value.isGenerator() && value.toGenerator().defined() && value.toGenerator().device().is_cpu()) {
      throw DeviceFault(text(name_, " got a generator of the CPU for a tensor of a device"));
    }
  }

  void check_devices(const std::vector<Argument>& arguments) {
    const at::Tensor* on_device = nullptr;
    for (const auto& argument : arguments)
      if (argument.tensor.is_privateuseone()) {
        if (on_device != nullptr && on_device->device() != argument.tensor.device())
          throw DeviceFault(text(name_, " on ", name_of_stream(number_of(current_stream(on_device->device().index()))),
                                 " got tensors of two devices: ", describe(*on_device), " and ",
                                 describe(argument.tensor)));
        on_device = &argument.tensor;
      }
    if (on_device != nullptr) {
      device_ = on_device->device();
      for (const auto& argument : arguments)
        if (argument.tensor.is_cpu() && (argument.tensor.dim() > 0 || argument.written))
          throw DeviceFault(text(name_, " on ", name_of_stream(number_of(current_stream(device_->index()))),
                                 " got a CPU tensor of ", argument.tensor.sizes(), " together with ",
                                 describe(*on_device), "; move it to ", *device_, " first"));
    } else {
      device_ = asked_ && asked_->has_index() ? *asked_ : shadow(current_device());
    }
  }

  at::Tensor host(const at::Tensor& tensor) {
    if (!tensor.defined() || !tensor.is_privateuseone()) return tensor;
    for (const auto& [original, seen] : tensors_)
      if (original.is_same(tensor)) return seen;
    auto* storage = tensor.storage().unsafeGetStorageImpl();
    auto [found, added] = storages_.try_emplace(storage);
    if (added) found->second = host_storage(tensor.storage());
    // The CPU kernel may want to make an empty output larger.
    auto seen = tensor.numel() == 0 && !view_
                    ? at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kCPU))
                    : host_view(tensor, found->second);
    tensors_.emplace_back(tensor, seen);
    return seen;
  }

  void to_host(c10::IValue& value) {
    if (value.isTensor()) {
      value = host(value.toTensor());
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> seen;
      for (const at::Tensor& tensor : value.toTensorVector()) seen.push_back(host(tensor));
      value = seen;
    } else if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> seen;
      for (const auto& tensor : value.toOptionalTensorVector())
        seen.push_back(tensor ? std::optional(host(*tensor)) : std::nullopt);
      value = seen;
    } else if (value.isDevice()) {
      value = c10::Device(c10::kCPU);
    }
  }

  // An argument that comes back, a view of one, or something new, which is copied to memory of the device.
  at::Tensor to_device(const at::Tensor& result, const Turn* turn) {
    if (!result.defined()) return result;
    for (const auto& [original, seen] : tensors_)
      if (seen.is_same(result)) {
        if (turn != nullptr && original.sizes() != seen.sizes()) fill(original.resize_(seen.sizes()), seen, *turn);
        return original;
      }
    for (const auto& [original, seen] : tensors_)
      if (seen.has_storage() && result.storage().is_alias_of(seen.storage())) return device_view(original, result);
    SHADE_CHECK(turn != nullptr, name_, " is a view of none of its arguments");
    auto made = at::empty_strided(result.sizes(), result.strides(), result.options().device(*device_));
    fill(made, result, *turn);
    return made;
  }

  void fill(const at::Tensor& tensor, const at::Tensor& from, const Turn& turn) {
    access(turn, name_, tensor, true);
    host_view(tensor).copy_(from);
  }

  void for_results(const std::function<at::Tensor(const at::Tensor&)>& change) {
    for (auto& value : torch::jit::last(stack_, schema_.returns().size())) {
      if (value.isTensor()) {
        const_cast<c10::IValue&>(value) = change(value.toTensor());
      } else if (value.isTensorList()) {
        c10::List<at::Tensor> changed;
        for (const at::Tensor& tensor : value.toTensorVector()) changed.push_back(change(tensor));
        const_cast<c10::IValue&>(value) = changed;
      }
    }
  }

  const c10::OperatorHandle& op_;
  const c10::FunctionSchema& schema_;
  std::string name_;
  torch::jit::Stack& stack_;
  bool view_ = false;
  bool masked_ = false;  // writes by mask: CUDA makes indices of it
  std::optional<c10::Device> device_, asked_;
  std::map<c10::StorageImpl*, c10::Storage> storages_;
  std::vector<std::pair<at::Tensor, at::Tensor>> tensors_;  // of the device, of the CPU
};

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
}

}  // namespace

void run_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) { Call(op, *stack).run(); }

}  // namespace shade::test::device
