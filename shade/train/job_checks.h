// What a job requires of its options before it makes anything of them.
#pragma once

#include "shade/base/json.h"
#include "shade/comm/group.h"
#include "shade/train/job.h"

namespace shade::train {

// Units of privacy that are trained on; of a job that is not private, records.
int64_t training_units(const JobOptions& options);

// Throws UsageError: options of a private job under which one record could move a sum by more than its event says.
void require_private(const JobOptions& options);

// Throws UsageError: an optimizer that corrects for noise, of a job that adds none.
void require_noise_for(const optim::OptimConfig& optimizer, bool is_private);

// Why no epsilon may be stated of a job with these options; empty: it may.
std::string no_epsilon(const JobOptions& options);

// Collective. Throws UsageError on every rank, naming the fields in which a rank differs from rank 0, and what to do.
void require_same(const comm::Group& control, const Json& words,
                  const std::string& advice = "give every rank the same JobOptions");

// Every rank draws by number from the records it has: if they differ, one record may be drawn twice in a step.
// Collective. Throws UsageError on all ranks; says nothing that follows from the records.
void require_same_records(const comm::Group& control, const JobOptions& options);

}  // namespace shade::train
