// Writes down what a step does on meta tensors: operators, work that meta skips, collectives, waits.
#pragma once

#include <ATen/record_function.h>

#include <memory>
#include <string>
#include <vector>

#include "shade/base/execution.h"
#include "shade/base/span.h"
#include "shade/comm/world.h"
#include "shade/plan/step_record.h"
#include "shade/profile/memory.h"
#include "shade/shard/runtime.h"

namespace shade::plan {

// Listens from construction to destruction, to the thread that made it and has this execution. One at a time on a
// thread. The world is a simulated one: its operations are complete when they are issued, so the traffic log has them
// in order.
class Recorder final : public SpanListener, public WorkListener {
 public:
  Recorder(comm::World& world, const shard::Runtime& runtime, Execution& execution, profile::MemoryBook& memory);
  ~Recorder() override;
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  void restart();  // forgets what it heard
  std::vector<StepEvent> take();
  // The first event that was not yet over at this time; the number of events: all were. Until the next restart().
  size_t event_at(Clock::time_point time) const;

  void began(const SpanRecord& record) noexcept override;
  void ended(const SpanRecord& record) noexcept override;
  void in_unit(const UnitSpan* owner, int64_t unit) noexcept override;
  void skipped(const ShapedWork& work) override;

 private:
  // An operator that is under way. One that asks others to do its work is not counted itself.
  struct Open {
    std::optional<StepEvent> event;
    bool delegates = false;
  };
  // A collective that nothing has waited for yet.
  struct Flight {
    size_t event;
    std::string label;
  };

  static std::unique_ptr<at::ObserverContext> operator_began(const at::RecordFunction& function);
  static void operator_ended(const at::RecordFunction& function, at::ObserverContext* context);

  void add(StepEvent event);
  void append(StepEvent event);  // as the last one
  void add_collectives();        // issued since the last call
  void wait_for(const std::vector<std::string>& labels);
  void wait_for_all();
  std::vector<std::string> labels_of(const char* verb, int64_t unit) const;
  void place(StepEvent& event) const;

  comm::World* world_;
  const shard::Runtime* runtime_;
  at::CallbackHandle handle_ = 0;
  Execution* execution_;
  profile::MemoryBook* memory_;
  std::vector<StepEvent> events_;
  std::vector<Clock::time_point> over_;  // when each event was written down
  std::vector<Open> open_;
  std::vector<Flight> flights_;
  int64_t unit_ = -1;
};

}  // namespace shade::plan
