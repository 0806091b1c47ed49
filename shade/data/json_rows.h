// The rows of .jsonl (an object per line; blank lines are skipped) and .json (an object, or an array of them).
#pragma once

#include <memory>

#include "shade/data/row.h"
#include "shade/data/text_files.h"

namespace shade::data {

std::unique_ptr<RowReader> open_json_rows(const TextFile& file, const Wanted& wanted);

}  // namespace shade::data
