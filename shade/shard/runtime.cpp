#include "shade/shard/runtime.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "shade/base/error.h"
#include "shade/base/span.h"
#include "shade/nn/device.h"
#include "shade/nn/function.h"

namespace shade::shard {
namespace {

OverlapRecord overlap_of(const std::string& unit, const std::vector<comm::TrafficRecord>& records) {
  OverlapRecord out{.unit = unit, .pass = nn::Pass::backward};
  for (const auto& record : records) {
    out.wire.count += record.wire.count;
    out.issued = out.issued == Clock::time_point{} ? record.enqueued : std::min(out.issued, record.enqueued);
    out.ready = std::max(out.ready, record.ended);
    out.waited += record.waited;
  }
  return out;
}

}  // namespace

void Runtime::Order::begin() {
  if (!seen.empty()) expected = std::exchange(seen, {});
}

std::optional<size_t> Runtime::Order::next() const {
  const auto at = seen.size();
  if (at == 0 || at >= expected.size() || expected[at - 1] != seen[at - 1]) return std::nullopt;
  return expected[at];
}

Runtime::Runtime(nn::Parameters& parameters, Groups groups, const ShardConfig& config, Options options)
    : parameters_(&parameters),
      config_(config),
      layout_(make_layout(parameters, config, options.device)),
      storage_(make_storage(config, options.device)),
      places_(parameters.weights().size()) {
  const auto compute = nn::scalar_type(options.compute);
  const auto master = nn::wide(compute);
  context_ = {.groups = std::move(groups),
              .storage = storage_.get(),
              .device = options.device,
              .compute = compute,
              .master = master,
              .gradients = master,
              .reduce_once = config.reduce_once,
              .offload = config.offload};
  sum_exactly(false);
  for (size_t u = 0; u < layout_.units.size(); ++u) {
    units_.push_back(std::make_unique<ShardedUnit>(layout_.units[u], context_));
    const auto& flats = layout_.units[u].flats;
    for (size_t f = 0; f < flats.size(); ++f)
      for (size_t p = 0; p < flats[f].pieces.size(); ++p)
        places_[static_cast<size_t>(flats[f].pieces[p].weight->id())] = {u, f, p};
  }
  uses_.resize(units_.size());
  // Until one pass has shown the order, it is the declared one.
  for (const auto& unit : parameters.units()) {
    const auto at = static_cast<size_t>(layout_.unit_of[static_cast<size_t>(unit.id)]);
    forward_.expected.push_back(at);
    if (unit.read_in_backward) backward_.expected.insert(backward_.expected.begin(), at);
  }
  parameters.wiring.units = this;
}

Runtime::~Runtime() {
  parameters_->wiring.units = nullptr;
  for (auto& weight : parameters_->weights()) weight.release();
}

void Runtime::fill(const Source& source) {
  for (const auto& unit : units_)
    for (const auto& flat : unit->flats())
      for (const auto& share : unit->shares(flat))
        for (const auto& run : runs_in(*flat.layout, share.owned))
          source(*run.weight, run.begin, flat.owned.narrow(0, share.local + run.at, run.size));
  updated();
}

void Runtime::initialise(uint64_t seed) {
  fill([seed](const nn::Weight& weight, int64_t begin, const at::Tensor& out) {
    nn::initialise(out, weight, seed, begin);
  });
}

void Runtime::begin_step(int64_t micro_steps) {
  SHADE_REQUIRE(!summing_ && reducing_.empty(),
                "the last step on these weights failed before its end, and parts of its sums may be left; start again "
                "from the last checkpoint, with a new Job (or Runtime)");
  micro_steps_left_ = micro_steps;
  overlap_.clear();
  for (const auto& unit : units_) unit->begin_step();
}

void Runtime::begin_forward() {
  forward_.begin();
  in_unit_.reset();
  for (auto& use : uses_) use.holds = use.entries = 0;
}

void Runtime::begin_backward(BackwardOptions options) {
  options_ = options;
  backward_.begin();
  in_unit_.reset();
  SHADE_CHECK(micro_steps_left_ > 0, "more micro-steps than begin_step() announced");
  summing_ = true;
  for (auto& use : uses_) use.outstanding = use.entries;
  for (const auto& unit : units_) unit->begin_micro_step();
}

bool Runtime::reads(nn::UnitId unit, nn::Pass pass) const {
  return pass == nn::Pass::forward || parameters_->units()[static_cast<size_t>(unit)].read_in_backward;
}

void Runtime::hold(size_t unit, nn::Pass pass) {
  auto& u = *units_[unit];
  if (u.weights() == ShardedUnit::Weights::sharded) u.gather();
  if (u.weights() == ShardedUnit::Weights::gathering) {
    const Span span(SpanName::gather_wait, static_cast<int64_t>(unit));
    auto record = overlap_of(u.layout().name, u.await());
    record.pass = pass;
    record.used = Clock::now();
    overlap_.push_back(std::move(record));
  }
  ++uses_[unit].holds;
}

void Runtime::prefetch(const Order& order) {
  const auto next = order.next();
  if (!next || units_[*next]->weights() != ShardedUnit::Weights::sharded) return;
  if (config_.in_flight.count == 0) return;
  units_[*next]->gather();
}

void Runtime::enter(nn::UnitId id, nn::Pass pass) {
  const auto unit = static_cast<size_t>(layout_.unit_of.at(static_cast<size_t>(id)));
  in_unit_.enter(pass == nn::Pass::forward ? SpanName::unit_forward : SpanName::unit_backward,
                 static_cast<int64_t>(unit));
  if (pass == nn::Pass::forward) ++uses_[unit].entries;
  if (!reads(id, pass)) return;
  order(pass).seen.push_back(unit);
  hold(unit, pass);
  if (pass == nn::Pass::forward ? config_.forward_prefetch : config_.backward_prefetch == Prefetch::pre)
    prefetch(order(pass));
}

void Runtime::leave(nn::UnitId id, nn::Pass pass) {
  const auto unit = static_cast<size_t>(layout_.unit_of.at(static_cast<size_t>(id)));
  auto& use = uses_[unit];
  auto& u = *units_[unit];
  const bool read = reads(id, pass);
  SHADE_CHECK(use.holds > 0 || !read, "unit ", u.layout().name, " was left more often than entered");
  if (read) --use.holds;
  const bool backward = pass == nn::Pass::backward;
  const bool done = backward && --use.outstanding == 0;
  const bool again = order(pass).next() == unit;
  if (backward && config_.backward_prefetch == Prefetch::post) prefetch(backward_);
  const bool last = done && options_.last_use && micro_steps_left_ == 1;
  if (use.holds == 0 && u.weights() == ShardedUnit::Weights::gathered && (policy().reshard ? !again : last))
    u.release();
  if (done && options_.final_on_leave)
    for (const auto& flat : u.layout().flats)
      if (flat.trainable)
        for (const auto& piece : flat.pieces) complete(*piece.weight);
  in_unit_.leave();
}

at::Tensor Runtime::buffer(const nn::Weight& weight) {
  const auto& place = places_[static_cast<size_t>(weight.id())];
  return units_[place.unit]->buffer(place.flat, place.piece);
}
bool Runtime::written(const nn::Weight& weight) const {
  const auto& place = places_[static_cast<size_t>(weight.id())];
  return units_[place.unit]->written(place.flat, place.piece);
}
void Runtime::mark_written(const nn::Weight& weight) {
  const auto& place = places_[static_cast<size_t>(weight.id())];
  units_[place.unit]->mark_written(place.flat, place.piece);
}

void Runtime::complete(const nn::Weight& weight) {
  const auto& place = places_[static_cast<size_t>(weight.id())];
  auto& unit = *units_[place.unit];
  if (!unit.finish(place.flat, place.piece)) return;
  unit.reduce(micro_steps_left_ == 1);
  if (!unit.reducing()) return;
  reducing_.push_back(place.unit);
  collect_until(config_.in_flight);
}

// Waits for the oldest reductions while more than `limit` bytes of gradients are on their way; one unit always may be.
void Runtime::collect_until(Bytes limit) {
  const auto under_way = [&] {
    int64_t sum = 0;
    for (const auto unit : reducing_) sum += units_[unit]->gradient_bytes().count;
    return sum;
  };
  while (!reducing_.empty() && (limit.count == 0 || (reducing_.size() > 1 && under_way() > limit.count))) {
    const Span span(SpanName::reduce_wait, static_cast<int64_t>(reducing_.front()));
    units_[reducing_.front()]->collect();
    reducing_.pop_front();
  }
}

void Runtime::end_micro_step() {
  SHADE_CHECK(micro_steps_left_ > 0, "more micro-steps than begin_step() announced");
  --micro_steps_left_;
}

void Runtime::wait() {
  SHADE_CHECK(micro_steps_left_ == 0, micro_steps_left_, " micro-steps of this step were not made");
  collect_until({0});
  for (const auto& unit : units_) {
    unit->settle();
    const auto records = unit->drain_reductions();
    if (records.empty()) continue;
    auto record = overlap_of(unit->layout().name, records);
    record.reduction = true;
    record.used = Clock::now();
    overlap_.push_back(std::move(record));
  }
  summing_ = false;
}

std::vector<LocalShard> Runtime::shards() {
  std::vector<LocalShard> out;
  for (const auto& unit : units_)
    for (auto& shard : unit->shards()) out.push_back(std::move(shard));
  if (config_.offload) nn::Issued(device()).wait();
  return out;
}

void Runtime::updated() {
  for (const auto& unit : units_) unit->refresh();
}

void Runtime::sum_exactly(bool exactly) {
  const auto usual = config_.reduce_dtype == nn::DType::fp32 ? context_.master : nn::scalar_type(config_.reduce_dtype);
  const auto type = exactly ? at::kDouble : context_.master;
  if (context_.gradients != type)
    for (const auto& unit : units_) unit->forget_gradients();
  context_.gradients = type;
  context_.wire = exactly ? at::kDouble : usual;
}

void Runtime::narrow_gradients(const ShardedUnit::EachPiece& before) {
  for (const auto& unit : units_) unit->narrow(before);
}

at::Tensor Runtime::whole(const nn::Weight& weight, Part part) {
  const auto& place = places_[static_cast<size_t>(weight.id())];
  const auto& flat = units_[place.unit]->flats()[place.flat];
  const auto& owned_part = part == Part::weight ? flat.owned : flat.narrowed.defined() ? flat.narrowed : flat.gradient;
  SHADE_CHECK(owned_part.defined(), "weight ", weight.name(), " has no gradient yet");
  const auto mine = nn::on_device(owned_part, device());  // of what is offloaded: the group's tensors are there
  auto full = mine;
  if (!units_[place.unit]->resident()) {
    full = at::empty({flat.layout->size}, mine.options());
    for (const auto& [segment, owned, local] : units_[place.unit]->shares(flat))
      context_.groups.gather
          .all_gather(full.narrow(0, segment.begin, segment.size), mine.narrow(0, local, owned.size),
                      {.label = "whole " + weight.name()})
          .wait();
  }
  const auto begin = flat.layout->pieces[place.piece].begin;
  return full.narrow(0, begin, weight.numel()).view(weight.shape()).clone();
}

}  // namespace shade::shard
