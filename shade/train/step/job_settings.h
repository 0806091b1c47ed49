// A job in words, and what it requires of its options before it makes anything of them.
#pragma once

#include <string>

#include "shade/base/json.h"
#include "shade/comm/group.h"
#include "shade/comm/world.h"
#include "shade/privacy/clip/method.h"
#include "shade/train/step/job.h"

namespace shade::train {

// Of the options: all but how far to go (the schedule has total_steps, and sigma is in the event), where files are, and
// what is asked or told on the way. First weights are not in it: they are hashed (identity.h); the device is the job's
// to say (Job::settings).
Json deciding_settings(const JobOptions& options);

// Which records, and which of them are trained on. Reads them all once, if their hash isn't known yet.
Json record_settings(const JobOptions& options);

// How samples are clipped.
Json clip_settings(privacy::Method& method);

// By what sums travel, and between which ranks; not on which hosts, because sums are made in the order of ranks.
Json world_settings(const comm::World& world);

// What every rank must have alike: the first, and how far to go.
Json shared_settings(const JobOptions& options);

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
