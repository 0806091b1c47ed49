#include "shade/plan/step_timeline.h"

#include <map>

#include "shade/base/error.h"
#include "shade/measure/timeline.h"
#include "shade/plan/cost.h"

namespace shade::plan {
namespace {

constexpr double kSeen = 1.0 / 1000;  // of a step: what is shorter is drawn as one with its neighbours

// Predicted seconds on the clock of measured steps. Not from its zero: that stands for "not finished".
Clock::time_point on_clock(Seconds at) {
  return Clock::time_point{} + std::chrono::hours(1) + std::chrono::duration_cast<Clock::duration>(at);
}

const char* link_of(const CollectiveEvent& of, const DeviceProfile& device) {
  if (of.host) return "hosts";
  return group_shape(of.ranks, of.stride, device.ranks_per_node).nodes > 1 ? "network" : "node";
}

SpanName wait_name(const CollectiveEvent& of, const std::string& label) {
  if (of.host) return SpanName::control_wait;
  return label.starts_with("gather")   ? SpanName::gather_wait
         : label.starts_with("reduce") ? SpanName::reduce_wait
                                       : SpanName::collective_wait;
}

// Spans with the names that their indexes stand for.
struct Spans {
  std::vector<SpanRecord> list;
  std::vector<std::string> names;

  void add(SpanName name, const std::string& of, EventTime time) {
    const bool named = !of.empty();
    list.push_back({.name = name,
                    .index = named ? static_cast<int64_t>(names.size()) : -1,
                    .begin = on_clock(time.begin),
                    .end = on_clock(time.end)});
    if (named) names.push_back(of);
  }
};

// Neighbouring events with the same words are one stretch.
class Stretches {
 public:
  using Words = std::pair<SpanName, std::string>;  // phase, unit
  struct Stretch {
    Words words;
    EventTime time;
  };

  void add(const Words& words, EventTime time) {
    if (!list_.empty() && list_.back().words == words)
      list_.back().time.end = time.end;
    else
      list_.push_back({words, time});
  }
  const std::vector<Stretch>& list() const { return list_; }

 private:
  std::vector<Stretch> list_;
};

struct Traffic {
  std::vector<comm::TrafficRecord> list;
  std::vector<const char*> links;
};

class Timeline {
 public:
  Timeline(const StepRecord& record, const TimePrediction& time, const DeviceProfile& device)
      : record_(record), time_(time), device_(device) {
    SHADE_CHECK(time.events.size() == record.events.size(), "times of ", time.events.size(), " events of ",
                record.events.size());
  }

  catalog::Timeline whole() {
    add_compute();
    add_collectives();
    auto out = measure::timeline_of(
        {on_clock(Seconds(0)), on_clock(time_.step)}, spans_.list, traffic_.list, course(),
        [&](SpanName, int64_t index) { return index < 0 ? "" : spans_.names[static_cast<size_t>(index)]; });
    SHADE_CHECK(out.collectives.size() == traffic_.links.size(), "a collective is outside of its step");
    for (size_t i = 0; i < traffic_.links.size(); ++i) out.collectives[i].stream = traffic_.links[i];
    return out;
  }

 private:
  void add_compute() {
    Stretches phases, units;
    for (size_t i = 0; i < record_.events.size(); ++i) {
      const auto& event = record_.events[i];
      if (event.kind == EventKind::collective) continue;
      phases.add({event.phase, ""}, time_.events[i]);
      units.add({event.phase, event.owner}, time_.events[i]);
      if (event.kind != EventKind::wait) continue;
      const auto& of = record_.events[event.waits_for].collective;
      spans_.add(wait_name(of, event.name), event.name, time_.events[i]);
    }
    for (const auto& [words, time] : phases.list()) spans_.add(words.first, "", time);
    for (const auto& [words, time] : units.list())
      if (!words.second.empty())
        spans_.add(words.first == SpanName::forward ? SpanName::unit_forward : SpanName::unit_backward, words.second,
                   time);
  }

  void add_collectives() {
    std::vector<Seconds> waited(record_.events.size(), Seconds(0));
    for (size_t i = 0; i < record_.events.size(); ++i)
      if (record_.events[i].kind == EventKind::wait)
        waited[record_.events[i].waits_for] += time_.events[i].end - time_.events[i].begin;
    std::map<std::pair<std::string, comm::Collective>, size_t> last;  // of each link and kind
    for (size_t i = 0; i < record_.events.size(); ++i) {
      const auto& event = record_.events[i];
      if (event.kind != EventKind::collective) continue;
      const auto* link = link_of(event.collective, device_);
      const comm::TrafficRecord one{.kind = event.collective.kind,
                                    .label = event.name,
                                    .group = event.collective.group,
                                    .ranks = event.collective.ranks,
                                    .payload = event.collective.payload,
                                    .wire = event.collective.wire,
                                    .enqueued = on_clock(time_.events[i].begin),
                                    .started = on_clock(time_.events[i].begin),
                                    .ended = on_clock(time_.events[i].end),
                                    .waited = waited[i]};
      const auto before = last.find({link, one.kind});
      if (before != last.end() && joins(traffic_.list[before->second], one)) {
        join(traffic_.list[before->second], one);
        continue;
      }
      last[{link, one.kind}] = traffic_.list.size();
      traffic_.list.push_back(one);
      traffic_.links.push_back(link);
    }
  }

  bool joins(const comm::TrafficRecord& one, const comm::TrafficRecord& next) const {
    return next.ended - one.started < time_.step * kSeen;
  }
  static void join(comm::TrafficRecord& one, const comm::TrafficRecord& next) {
    constexpr std::string_view kMore = " and others";
    if (!one.label.ends_with(kMore)) one.label += kMore;
    one.ended = next.ended;
    one.waited += next.waited;
    one.wire = one.wire + next.wire;
    one.payload = one.payload + next.payload;
  }

  // Memory belongs to what is computed: a collective that was issued before may begin later.
  std::vector<profile::MemoryPoint> course() const {
    std::vector<profile::MemoryPoint> out;
    for (const auto& moment : record_.course) {
      auto event = moment.event;
      while (event < record_.events.size() && record_.events[event].kind == EventKind::collective) ++event;
      out.push_back({on_clock(event < time_.events.size() ? time_.events[event].begin : time_.step), moment.memory});
    }
    return out;
  }

  const StepRecord& record_;
  const TimePrediction& time_;
  const DeviceProfile& device_;
  Spans spans_;
  Traffic traffic_;
};

}  // namespace

catalog::Timeline timeline_of(const StepRecord& record, const TimePrediction& time, const DeviceProfile& device) {
  return Timeline(record, time, device).whole();
}

}  // namespace shade::plan
