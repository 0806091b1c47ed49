// shade audit --kind model of a model that was trained elsewhere: canaries split by coins before the training, and
// their losses after it.
#pragma once

#include <string>

#include "shade/base/config.h"
#include "shade/proof/audit_canaries.h"

namespace shade::cli {

struct FinishedModel {
  std::string trained, reference, included, excluded, split_canaries, output_dir;
  double claimed_epsilon = 0;

  void declare(Fields& f);
  bool splits() const { return !split_canaries.empty(); }
  bool asked() const;  // throws UsageError if something is missing
};

// Writes OUTPUT/included/canaries.jsonl and OUTPUT/excluded/canaries.jsonl: each line of the file into one of them.
int split_canaries(const FinishedModel& what);

proof::CanaryAuditResult audit_finished(const FinishedModel& what, const proof::AuditConfig& audit);

}  // namespace shade::cli
