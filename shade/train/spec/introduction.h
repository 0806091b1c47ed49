// What a run says of itself before its first step.
#pragma once

#include "shade/train/budget/spending.h"
#include "shade/train/run/checkpoints.h"
#include "shade/train/run/report.h"

namespace shade::train {

struct Introduction {
  const Resolved<Recipe>& recipe;
  const privacy::PrivacyEvent& event;
  Job& job;
  const data::Dataset& data;
  const HeldOut& split;
  const RunFolder& folder;
  const Checkpoints& checkpoints;
  const Spending* spending;  // null: not private
  int64_t last = 0;          // step
  int local_ranks = 1;       // of this host
};

void introduce(Report& report, const Introduction& run);

}  // namespace shade::train
