// The job that an experiment measures, and that a plan of it (plan/) makes without numbers.
#pragma once

#include "shade/measure/bench.h"
#include "shade/train/step/job.h"

namespace shade::measure {

// For a world of so many ranks. Device and groups are the caller's to add.
train::JobOptions job_options(const Experiment& experiment, models::Model& model, int ranks);

}  // namespace shade::measure
