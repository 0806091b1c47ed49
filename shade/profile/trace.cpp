#include "shade/profile/trace.h"

#include <torch/csrc/autograd/profiler_kineto.h>

#include "shade/base/error.h"

namespace shade::profile {
namespace kineto = torch::autograd::profiler;
namespace impl = torch::profiler::impl;

Trace::Trace() {
  const impl::ProfilerConfig config(impl::ProfilerState::KINETO);
  const std::set<impl::ActivityType> activities{impl::ActivityType::CPU};
  kineto::prepareProfiler(config, activities);
  kineto::enableProfiler(config, activities, {at::RecordScope::FUNCTION, at::RecordScope::USER_SCOPE});
}

Trace::~Trace() {
  if (recording_) kineto::disableProfiler();
}

void Trace::save(const std::string& path) {
  SHADE_CHECK(recording_, "this trace was already saved");
  recording_ = false;
  kineto::disableProfiler()->save(path);
}

}  // namespace shade::profile
