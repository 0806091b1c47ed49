#include "shade/plan/recorder.h"

#include <algorithm>
#include <cstring>

#include "shade/base/error.h"
#include "shade/plan/operators.h"
#include "shade/profile/memory.h"

namespace shade::plan {
namespace {

Recorder* active = nullptr;

bool inside(const char* name) {
  for (const auto* span = Span::innermost(); span != nullptr; span = span->outer())
    if (std::strcmp(span->name(), name) == 0) return true;
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

Recorder::Recorder(comm::World& world, const shard::Runtime& runtime) : world_(&world), runtime_(&runtime) {
  SHADE_CHECK(active == nullptr, "another step is being recorded in this process");
  active = this;
  previous_ = Span::listen(this);
  WorkSkipped::listen(&work_skipped);
  handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&operator_began, &operator_ended)
                                           .needsInputs(true)
                                           .needsOutputs(true)
                                           .scopes({at::RecordScope::FUNCTION}));
}

Recorder::~Recorder() {
  at::removeCallback(handle_);
  WorkSkipped::listen(nullptr);
  Span::listen(previous_);
  if (previous_ == nullptr) profile::TensorMemory::forget_units();
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
  if (previous_ != nullptr) previous_->began(record);
  const std::string_view name = record.name;
  if (name != "gather_wait" && name != "reduce_wait") return;
  add_collectives();
  wait_for(labels_of(name == "gather_wait" ? "gather" : "reduce", record.index));
}

void Recorder::ended(const SpanRecord& record) noexcept {
  if (previous_ != nullptr) previous_->ended(record);
  if (std::string_view(record.name) != "reduce") return;  // all reductions are complete
  add_collectives();
  wait_for_all();
}

void Recorder::in_unit(const UnitSpan* owner, int64_t unit) noexcept {
  profile::TensorMemory::in_unit(owner, unit);
  unit_ = unit;
  if (previous_ != nullptr) previous_->in_unit(owner, unit);
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
  const bool counts = event && !delegates && complete(*event, function) && !inside("exchange");
  if (!counts && !delegates) return;
  if (!active->open_.empty()) active->open_.back().delegates = true;
  if (counts) active->add(std::move(*event));
}

void Recorder::work_skipped(const ShapedWork& work) {
  if (active == nullptr) return;
  const bool noise = std::string_view(work.name) == "noise";
  active->add({.kind = noise ? EventKind::noise : EventKind::compute,
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
