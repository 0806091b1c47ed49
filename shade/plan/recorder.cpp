#include "shade/plan/recorder.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "shade/base/error.h"
#include "shade/plan/step_record.h"
#include "shade/profile/memory.h"

namespace shade::plan {
namespace {

// What an operator of libtorch costs, from its name and the shapes of its tensors.

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

// Of an operator that is about to run on meta tensors: name, FLOPs, and what it reads. None: it launches nothing (a
// view, an allocation, a question, tensors of the host).
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

// What it has written. False: nothing was computed.
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

thread_local Recorder* active = nullptr;  // callbacks of libtorch's are plain functions

bool inside(SpanName name) {
  for (const auto* span = Span::innermost(); span != nullptr; span = span->outer())
    if (span->name() == name) return true;
  return false;
}

c10::ScalarType type_of(int64_t element_size) {
  switch (element_size) {
    case 2: return c10::ScalarType::BFloat16;
    case 8: return c10::ScalarType::Double;
    default: return c10::ScalarType::Float;
  }
}

// The groups of shard::Groups by name; of all others nothing is known but that they are of the whole world.
CollectiveEvent collective_of(const comm::TrafficRecord& record, const shard::Groups& groups) {
  CollectiveEvent out{.kind = record.kind,
                      .group = record.group,
                      .axis = "world",
                      .ranks = record.ranks,
                      .stride = 1,
                      .payload = record.payload,
                      .wire = record.wire,
                      .host = record.group == groups.control.name()};
  const auto along = [&](const comm::Group& group, const char* axis) {
    if (record.group != group.name()) return;
    out.axis = axis;
    const auto& ranks = group.global_ranks();
    if (ranks.size() > 1) out.stride = ranks[1] - ranks[0];
  };
  along(groups.gather, "shard");
  along(groups.reduce, "shard");
  along(groups.replicate, "replicate");
  return out;
}

}  // namespace

Recorder::Recorder(comm::World& world, const shard::Runtime& runtime, Execution& execution, profile::MemoryBook& memory)
    : world_(&world), runtime_(&runtime), execution_(&execution), memory_(&memory) {
  SHADE_CHECK(active == nullptr, "another step is being recorded on this thread");
  active = this;
  execution.spans = this;
  execution.work = this;
  handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&operator_began, &operator_ended)
                                           .needsInputs(true)
                                           .needsOutputs(true)
                                           .scopes({at::RecordScope::FUNCTION}));
}

Recorder::~Recorder() {
  at::removeCallback(handle_);
  execution_->spans = nullptr;
  execution_->work = nullptr;
  memory_->forget_units();
  active = nullptr;
}

void Recorder::restart() {
  (void)world_->traffic().drain();
  events_.clear();
  over_.clear();
  flights_.clear();
}

std::vector<StepEvent> Recorder::take() {
  add_collectives();
  flights_.clear();
  return std::exchange(events_, {});
}

size_t Recorder::event_at(Clock::time_point time) const {
  return static_cast<size_t>(std::lower_bound(over_.begin(), over_.end(), time) - over_.begin());
}

void Recorder::append(StepEvent event) {
  events_.push_back(std::move(event));
  over_.push_back(Clock::now());
}

void Recorder::place(StepEvent& event) const {
  const auto* const innermost = Span::innermost();
  const auto* outermost = innermost;
  while (outermost != nullptr && outermost->outer() != nullptr) outermost = outermost->outer();
  if (outermost != nullptr) event.phase = outermost->name();
  if (innermost != outermost) event.within = innermost->name();
  if (unit_ >= 0) event.owner = runtime_->units()[static_cast<size_t>(unit_)]->layout().name;
}

void Recorder::add(StepEvent event) {
  add_collectives();
  place(event);
  append(std::move(event));
}

void Recorder::add_collectives() {
  for (const auto& record : world_->traffic().drain()) {
    StepEvent event{
        .kind = EventKind::collective, .name = record.label, .collective = collective_of(record, runtime_->groups())};
    place(event);
    const auto index = events_.size();
    const bool host = event.collective.host;
    append(std::move(event));
    if (host) {  // agreed upon at once
      StepEvent wait{.kind = EventKind::wait, .name = record.label, .waits_for = index};
      place(wait);
      append(std::move(wait));
    } else {
      flights_.push_back({index, record.label});
    }
  }
}

void Recorder::wait_for(const std::vector<std::string>& labels) {
  std::erase_if(flights_, [&](const Flight& flight) {
    if (std::find(labels.begin(), labels.end(), flight.label) == labels.end()) return false;
    StepEvent wait{.kind = EventKind::wait, .name = flight.label, .waits_for = flight.event};
    place(wait);
    append(std::move(wait));
    return true;
  });
}

void Recorder::wait_for_all() {
  std::vector<std::string> labels;
  for (const auto& flight : flights_) labels.push_back(flight.label);
  wait_for(labels);
}

std::vector<std::string> Recorder::labels_of(const char* verb, int64_t unit) const {
  std::vector<std::string> out;
  for (const auto& flat : runtime_->units()[static_cast<size_t>(unit)]->layout().flats)
    out.push_back(text(verb, " ", flat.name));
  return out;
}

void Recorder::began(const SpanRecord& record) noexcept {
  if (record.name != SpanName::gather_wait && record.name != SpanName::reduce_wait) return;
  add_collectives();
  wait_for(labels_of(record.name == SpanName::gather_wait ? "gather" : "reduce", record.index));
}

void Recorder::ended(const SpanRecord& record) noexcept {
  if (record.name != SpanName::reduce) return;  // all reductions are complete
  add_collectives();
  wait_for_all();
}

void Recorder::in_unit(const UnitSpan* owner, int64_t unit) noexcept {
  memory_->in_unit(owner, unit);
  unit_ = unit;
}

std::unique_ptr<at::ObserverContext> Recorder::operator_began(const at::RecordFunction& function) {
  if (active == nullptr) return nullptr;
  active->open_.push_back({begun_operator(function)});
  return nullptr;
}

void Recorder::operator_ended(const at::RecordFunction& function, at::ObserverContext*) {
  if (active == nullptr || active->open_.empty()) return;
  auto [event, delegates] = std::move(active->open_.back());
  active->open_.pop_back();
  const bool counts = event && !delegates && complete(*event, function) && !inside(SpanName::exchange);
  if (!counts && !delegates) return;
  if (!active->open_.empty()) active->open_.back().delegates = true;
  if (counts) active->add(std::move(*event));
}

void Recorder::skipped(const ShapedWork& work) {
  const bool noise = std::string_view(work.name) == "noise";
  add({.kind = noise ? EventKind::noise : EventKind::compute,
       .name = work.name,
       .dtype = type_of(work.element_size),
       .flops = work.flops,
       .bytes_read = work.read,
       .bytes_written = work.written,
       .batch = work.rows > 0 ? 1 : 0,
       .rows = work.rows,
       .inner = work.inner,
       .columns = work.columns});
}

}  // namespace shade::plan
