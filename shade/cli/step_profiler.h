// Traces of the first steps of a training run, for shade train --use-profiler.
#pragma once

#include <filesystem>
#include <optional>

#include "shade/comm/world.h"
#include "shade/profile/trace.h"

namespace shade::cli {

inline constexpr int64_t kProfiledSteps = 10;  // a trace of every operator grows by megabytes per step

class StepProfiler {
 public:
  // Writes FOLDER/rankN.pt.trace.json, one per rank.
  StepProfiler(comm::World& world, std::filesystem::path folder, Readers readers)
      : world_(world), folder_(std::move(folder)), readers_(readers) {}

  void before_step();  // begins the trace, and saves it when kProfiledSteps are made
  void end();          // saves what there is of a shorter run; rank 0 prints where the traces are

 private:
  void save();

  comm::World& world_;
  std::filesystem::path folder_;
  Readers readers_;
  std::optional<profile::Trace> trace_;
  Clock::time_point begin_;
  int64_t steps_ = 0;
  bool saved_ = false;
};

}  // namespace shade::cli
