#include "shade/plan/cost.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>

namespace shade::plan {
namespace {

bool is_attention(const StepEvent& event) { return event.name.find("attention") != std::string::npos; }

const char* work_of(const StepEvent& event) {
  if (event.kind == EventKind::noise) return "noise";
  if (event.kind == EventKind::copy) return "copies";
  if (event.flops <= 0) return "passes";
  return is_attention(event) ? "attention" : "products";
}

const Rate& first_known(const Rate& rate, const Rate& otherwise) { return rate.known() ? rate : otherwise; }

Seconds product_time(const StepEvent& event, const DeviceProfile& device) {
  double narrowest = 0;
  for (const auto side : {event.rows, event.inner, event.columns})
    if (side > 0 && (narrowest == 0 || static_cast<double>(side) < narrowest)) narrowest = static_cast<double>(side);
  return device.product_rate(event.dtype).time(event.flops / device.width_share(narrowest));
}

class Replay {
 public:
  Replay(const StepRecord& record, const DeviceProfile& device, const TimeOptions& options)
      : record_(record), device_(device), slower_(1 + options.straggler_spread * expected_largest(record.ranks)) {
    out_.events.reserve(record.events.size());
  }

  TimePrediction run() {
    for (const auto& event : record_.events) {
      const auto before = compute_;
      switch (event.kind) {
        case EventKind::collective: issue(event); break;
        case EventKind::wait: wait(event); break;
        default: compute(event);
      }
      out_.phases[to_string(event.phase)] += compute_ - before;
    }
    out_.step = std::max({compute_, host_, last_collective_});
    if (!record_.events.empty()) out_.phases[to_string(record_.events.back().phase)] += out_.step - compute_;
    return std::move(out_);
  }

 private:
  void compute(const StepEvent& event) {
    host_ += device_.launch;
    const auto begin = std::max(compute_, host_);
    out_.idle += begin - compute_;
    const auto end = busy_until(begin, operator_time(event, device_) * slower_);
    out_.compute += end - begin;
    out_.work[work_of(event)] += end - begin;
    out_.events.push_back({begin, end});
    compute_ = end;
    if (!device_.asynchronous) host_ = end;
  }

  void issue(const StepEvent& event) {
    host_ += device_.launch;
    const auto& of = event.collective;
    const auto shape = group_shape(of.ranks, of.stride, device_.ranks_per_node);
    auto& link = links_[of.host ? 0 : shape.nodes > 1 ? 1 : 2];
    auto& group = groups_[of.group];
    const auto begin = std::max({host_, compute_, group, link});
    const auto end = begin + collective_time(of, device_);
    group = link = end;
    last_collective_ = std::max(last_collective_, end);
    out_.communication += end - begin;
    out_.events.push_back({begin, end});
    if (!of.host && device_.contention > 0 && end > begin) under_way_.push_back({begin, end});
  }

  void wait(const StepEvent& event) {
    SHADE_CHECK(event.waits_for < out_.events.size() && record_.events[event.waits_for].kind == EventKind::collective,
                "a wait for event ", event.waits_for, " of ", out_.events.size(), " that is no earlier collective");
    const auto end = out_.events[event.waits_for].end;
    const auto begin = compute_;
    compute_ = std::max(compute_, end);
    out_.exposed += compute_ - begin;
    out_.events.push_back({begin, compute_});
    if (!device_.asynchronous || record_.events[event.waits_for].collective.host) host_ = std::max(host_, compute_);
  }

  // Work that begins now, slower while a collective is under way.
  Seconds busy_until(Seconds now, Seconds work) {
    while (!under_way_.empty() && under_way_.front().end <= now) under_way_.erase(under_way_.begin());
    for (const auto& flight : under_way_) {
      if (flight.end <= now) continue;
      const auto free = std::max(Seconds(0), flight.begin - now);
      if (work <= free) break;
      work -= free;
      now += free;
      const double rate = 1 - device_.contention;
      const auto shared = flight.end - now;
      if (work <= shared * rate) return now + work / rate;
      work -= shared * rate;
      now = flight.end;
    }
    return now + work;
  }

  const StepRecord& record_;
  const DeviceProfile& device_;
  double slower_;
  Seconds host_{0}, compute_{0}, last_collective_{0};
  std::map<int, Seconds> links_;           // when free: hosts, network, inside
  std::map<std::string, Seconds> groups_;  // when free
  std::vector<EventTime> under_way_;       // collectives that slow down compute, by their begin
  TimePrediction out_;
};

}  // namespace

Seconds operator_time(const StepEvent& event, const DeviceProfile& device) {
  if (const auto own = device.operators.find(event.name); own != device.operators.end())
    return own->second.time(event.flops > 0 ? event.flops : event.bytes());
  const auto passes = device.elementwise.time(event.bytes());
  if (event.kind == EventKind::noise) return first_known(device.noise, device.elementwise).time(event.bytes());
  if (event.kind == EventKind::copy) return first_known(device.copies, device.elementwise).time(event.bytes());
  if (event.flops <= 0) return passes;
  if (is_attention(event) && device.attention.known()) return std::max(passes, device.attention.time(event.flops));
  return std::max(passes, product_time(event, device));
}

double expected_largest(int count) {
  if (count < 2) return 0;
  const double below = (count - 0.375) / (count + 0.25);
  double low = 0, high = 40;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (1 - 0.5 * std::erfc(middle / std::sqrt(2.0)) < below ? low : high) = middle;
  }
  return low;
}

TimePrediction predict_time(const StepRecord& record, const DeviceProfile& device, const TimeOptions& options) {
  SHADE_REQUIRE(options.straggler_spread >= 0, "straggler spread ", options.straggler_spread,
                " is out of range; expected 0 or more");
  return Replay(record, device, options).run();
}

Json TimePrediction::json() const {
  const auto milliseconds = [](const std::map<std::string, Seconds>& of) {
    auto out = Json::object();
    for (const auto& [name, time] : of) out[name] = Millis(time).count();
    return out;
  };
  return {{"step_ms", Millis(step).count()},
          {"compute_ms", Millis(compute).count()},
          {"communication_ms", Millis(communication).count()},
          {"exposed_ms", Millis(exposed).count()},
          {"idle_ms", Millis(idle).count()},
          {"phases_ms", milliseconds(phases)},
          {"work_ms", milliseconds(work)}};
}

namespace {

using comm::Collective;

// A tree's messages are cut into smaller pieces than a ring's: it reaches 0.9 of the bandwidth.
constexpr double kTreeBytes = 1.1;
// Small agreements of hosts over TCP.
constexpr Seconds kHostMessage{30e-6};
constexpr double kHostBytesPerSecond = 1e9;

double rounds(int count) {
  return count < 2 ? 0 : static_cast<double>(std::bit_width(static_cast<unsigned>(count - 1)));
}

// The nearest measured group: the same kind, as many nodes or at least several as well.
const CollectiveRate* measured_rate(const DeviceProfile& device, Collective kind, const GroupShape& shape) {
  const CollectiveRate* best = nullptr;
  const auto distance = [&](const CollectiveRate& of) {
    return std::abs(std::log2(static_cast<double>(of.ranks) / shape.ranks));
  };
  for (const auto& of : device.collectives)
    if (of.kind == kind && (of.nodes > 1) == (shape.nodes > 1) && (best == nullptr || distance(of) < distance(*best)))
      best = &of;
  return best;
}

}  // namespace

GroupShape group_shape(int ranks, int stride, int ranks_per_node) {
  const int per_node = std::clamp(ranks_per_node / std::max(1, stride), 1, std::max(1, ranks));
  return {.ranks = ranks, .nodes = (ranks + per_node - 1) / per_node, .per_node = per_node};
}

Seconds collective_time(const CollectiveEvent& of, const DeviceProfile& device) {
  if (of.ranks < 2) return Seconds(0);
  const auto shape = group_shape(of.ranks, of.stride, device.ranks_per_node);
  const double bytes = static_cast<double>(of.payload.count), ranks = shape.ranks, nodes = shape.nodes;
  if (of.kind != Collective::barrier)
    if (const auto* known = measured_rate(device, of.kind, shape))
      return known->rate.time(bytes) *
             (comm::bus_factor(of.kind, shape.ranks) / comm::bus_factor(of.kind, known->ranks));
  if (of.host) return kHostMessage * rounds(of.ranks) + Seconds(bytes / kHostBytesPerSecond);

  const bool wide = shape.nodes > 1;
  SHADE_REQUIRE((!wide || device.network.reachable > 0) && (shape.per_node == 1 || device.inside.reachable > 0),
                "device profile '", device.name, "' has no rate for ", wide ? "'network'" : "'inside'",
                ", which a group of ", of.ranks, " ranks uses; add its latency_us and reachable bytes per second");
  double bus = wide ? shape.per_node * device.network.reachable : device.inside.reachable;
  if (shape.per_node > 1) bus = std::min(bus, device.inside.reachable);
  const auto in = device.inside.latency, net = device.network.latency;
  const Seconds ring = in * (ranks - nodes) + net * (nodes - 1) + Seconds(bytes * (ranks - 1) / ranks / bus);
  const Seconds hops = in * static_cast<double>(shape.per_node - 1) + net * rounds(shape.nodes);
  const auto body = [&]() -> Seconds {
    switch (of.kind) {
      case Collective::all_gather:
      case Collective::reduce_scatter: return ring;
      case Collective::all_reduce:
        return std::min(2 * ring, 2 * hops + Seconds(kTreeBytes * 2 * bytes * (ranks - 1) / ranks / bus));
      case Collective::all_to_all: {
        const double each = bytes / ranks, here = shape.per_node - 1, elsewhere = ranks - shape.per_node;
        const double near = here > 0 ? each * here / device.inside.reachable : 0;
        const double far = elsewhere > 0 ? each * elsewhere / device.network.reachable : 0;
        return (wide ? net : in) + Seconds(std::max(near, far));
      }
      case Collective::broadcast: return hops + Seconds(bytes / bus);
      case Collective::barrier: return 2 * (wide ? net : in) * rounds(of.ranks);
    }
    return Seconds(0);
  };
  return device.collective_start + body();
}

}  // namespace shade::plan
