#include "shade/cli/step_profiler.h"

#include <cstdio>

#include "shade/base/visible_text.h"

namespace shade::cli {

void StepProfiler::before_step() {
  if (saved_) return;
  const auto now = Clock::now();
  if (trace_)
    trace_->step(steps_++, begin_, now);
  else
    trace_.emplace(profile::TraceOwner{world_.rank(), world_.size(), to_string(world_.backend())});
  begin_ = now;
  if (steps_ == kProfiledSteps) save();
}

void StepProfiler::end() {
  if (trace_ && !saved_) {
    trace_->step(steps_++, begin_, Clock::now());
    save();
  }
  if (saved_ && world_.rank() == 0)
    std::printf("traces of %lld step%s in %s, one per rank\n", static_cast<long long>(steps_), steps_ == 1 ? "" : "s",
                visible(folder_.string()).c_str());
}

void StepProfiler::save() {
  make_folder(folder_, readers_);
  trace_->collectives(world_.traffic().drain());
  trace_->save((folder_ / text("rank", world_.rank(), ".pt.trace.json")).string(), readers_);
  trace_.reset();
  saved_ = true;
}

}  // namespace shade::cli
