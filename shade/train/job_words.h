// A job in words: what decides the bits of its steps, and what every rank must have alike.
#pragma once

#include "shade/base/json.h"
#include "shade/comm/world.h"
#include "shade/train/job.h"

namespace shade::train {

// Of the options: all but how far to go (the schedule has total_steps, and sigma is in the event), where files are, and
// what is asked or told on the way. First weights are not in it: they are hashed (identity.h); the device is the job's
// to say (Job::words).
Json deciding_words(const JobOptions& options);

// Which records, and which of them are trained on. Reads them all once, if their hash isn't known yet.
Json record_words(const JobOptions& options);

// How samples are clipped.
Json clip_words(privacy::Method& method);

// By what sums travel, and between which ranks; not on which hosts, because sums are made in the order of ranks.
Json world_words(const comm::World& world);

// What every rank must have alike: the first, and how far to go.
Json shared_words(const JobOptions& options);

}  // namespace shade::train
