// A measured experiment as TensorBoard's scalars: step by step what the result file has as averages.
#include "shade/base/units.h"
#include "shade/measure/bench.h"
#include "shade/profile/events.h"

namespace shade::measure {

void BenchResult::write_events(const Experiment& experiment) const {
  const auto folder = std::filesystem::path(experiment.bench.tensorboard) / log_key;
  make_folder(folder, experiment.readers());
  profile::EventFile file(folder, experiment.readers());
  file.text("configuration", text(description, "\n\n```\n", experiment.options.dump(2), "\n```"));
  for (size_t i = 0; i < times_ms.size(); ++i) {
    const int64_t step = experiment.bench.warmup_iter + static_cast<int64_t>(i);
    file.scalar("time/step_ms", times_ms[i], step);
    file.scalar("throughput/tokens_per_second", static_cast<double>(tokens) / times_ms[i] * 1e3, step);
    file.scalar("loss", losses.at(static_cast<size_t>(step)), step);
    if (i >= steps.size()) continue;  // a bare run
    file.scalar("memory/peak_mb", mib(steps[i].peak), step);
    file.scalar("memory/allocated_mb", mib(steps[i].allocated), step);
    for (const auto& [name, ms] : steps[i].phases_ms) file.scalar(text("phase/", name, "_ms"), ms, step);
  }
  file.flush();
}

}  // namespace shade::measure
