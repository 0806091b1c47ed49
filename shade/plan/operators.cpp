#include "shade/plan/operators.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>

namespace shade::plan {
namespace {

// How an operator is counted.
struct Traits {
  std::string name;           // without namespace, overload and the underscore of in-place operators
  bool nothing = false;       // launches nothing
  bool writes_last = false;   // its last tensor is where the result goes (out=)
  bool writes_first = false;  // its first tensor is overwritten without being read
  bool copies = false;
};

constexpr std::array kNothing{"empty",
                              "empty_like",
                              "empty_strided",
                              "new_empty",
                              "new_empty_strided",
                              "resize",
                              "resize_as",
                              "set",
                              "detach",
                              "lift_fresh",
                              "item",
                              "is_same_size",
                              "result_type",
                              "_local_scalar_dense",
                              "record_stream"};
constexpr std::array kCopies{"copy", "clone", "_to_copy", "cat", "stack", "index_select", "repeat", "roll"};
constexpr std::array kOverwrites{"copy", "fill", "zero"};

bool among(const auto& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Traits traits_of(const c10::OperatorName& of, const at::RecordFunction& function) {
  Traits out;
  out.name = of.name.substr(of.name.find("::") == std::string::npos ? 0 : of.name.find("::") + 2);
  const bool in_place = out.name.ends_with('_') && !out.name.ends_with("__");
  if (in_place) out.name.pop_back();
  out.nothing = among(kNothing, out.name);
  if (const auto schema = function.operator_schema()) {
    for (const auto& result : schema->returns())  // a view
      if (result.alias_info() != nullptr && !result.alias_info()->isWrite()) out.nothing = true;
    if (!schema->arguments().empty() && schema->arguments().back().is_out()) out.writes_last = true;
  }
  out.copies = among(kCopies, out.name);
  out.writes_first = in_place && among(kOverwrites, out.name);
  return out;
}

// By name and overload; asking libtorch for a schema copies it.
const Traits* known_traits(const at::RecordFunction& function) {
  static thread_local std::unordered_map<std::string, Traits> known;
  const auto of = function.operator_name();
  if (!of) return nullptr;
  const auto [entry, unknown] = known.try_emplace(of->name + "." + of->overload_name);
  if (unknown) entry->second = traits_of(*of, function);
  return &entry->second;
}

std::vector<at::Tensor> tensors_in(const auto& values) {
  std::vector<at::Tensor> out;
  const auto add = [&](const at::Tensor& tensor) {
    if (tensor.defined()) out.push_back(tensor);
  };
  for (const auto& value : values) {
    if (value.isTensor())
      add(value.toTensor());
    else if (value.isTensorList())
      for (const at::Tensor& tensor : value.toTensorList()) add(tensor);
  }
  return out;
}

// Of an expanded tensor: those that exist.
double bytes_of(const at::Tensor& tensor) {
  return static_cast<double>(std::min(tensor.nbytes(), tensor.storage().nbytes()));
}

void add_product(StepEvent& event, const at::Tensor& a, const at::Tensor& b) {
  const bool batch = a.dim() == 3, vector = b.dim() == 1;
  event.batch = batch ? a.size(0) : 1;
  event.rows = a.dim() == 1 ? 1 : a.size(-2);
  event.inner = a.size(-1);
  event.columns = vector ? 1 : b.size(-1);
  event.flops = 2 * static_cast<double>(event.batch) * static_cast<double>(event.rows) *
                static_cast<double>(event.inner) * static_cast<double>(event.columns);
}

}  // namespace

std::optional<StepEvent> begun_operator(const at::RecordFunction& function) {
  const auto* const traits = known_traits(function);
  if (traits == nullptr || traits->nothing) return std::nullopt;
  auto tensors = tensors_in(function.inputs());
  StepEvent event{.kind = traits->copies ? EventKind::copy : EventKind::compute, .name = traits->name};
  const auto& name = traits->name;
  if ((name == "mm" || name == "bmm" || name == "mv" || name == "dot") && tensors.size() >= 2)
    add_product(event, tensors[0], tensors[1]);
  else if ((name == "addmm" || name == "baddbmm" || name == "addmv") && tensors.size() >= 3)
    add_product(event, tensors[1], tensors[2]);
  if (traits->writes_last && !tensors.empty()) tensors.pop_back();
  if (traits->writes_first && !tensors.empty()) tensors.erase(tensors.begin());
  int64_t largest = -1;
  for (const auto& tensor : tensors) {
    if (!tensor.is_meta()) continue;
    event.bytes_read += bytes_of(tensor);
    if (tensor.numel() <= largest) continue;
    largest = tensor.numel();
    event.dtype = tensor.scalar_type();
  }
  if (largest < 0) event.dtype = c10::ScalarType::Undefined;
  return event;
}

bool complete(StepEvent& event, const at::RecordFunction& function) {
  bool any = false;
  for (const auto& tensor : tensors_in(function.outputs())) {
    if (!tensor.is_meta() || tensor.numel() == 0) continue;
    any = true;
    event.bytes_written += bytes_of(tensor);
    if (event.dtype == c10::ScalarType::Undefined) event.dtype = tensor.scalar_type();
  }
  return any;
}

}  // namespace shade::plan
