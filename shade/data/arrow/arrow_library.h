// .parquet and .arrow files are read by Arrow C++, in a library of ours that is loaded when the first of them is
// opened: a program without Arrow reads everything else.
#pragma once

#include <memory>

#include "shade/base/cuda_library.h"
#include "shade/data/row.h"
#include "shade/data/text_files.h"

namespace shade::data {

// Of libshade_arrow.so.
struct ArrowFunctions {
  static constexpr const char* kName = "shade_arrow_functions";

  std::unique_ptr<RowReader> (*open)(const TextFile& file, const Wanted& wanted);
};

const LoadedLibrary& arrow_library();  // loaded by the first call

// Throws UsageError if the library is not there, saying what to install.
std::unique_ptr<RowReader> open_arrow_rows(const TextFile& file, const Wanted& wanted);

}  // namespace shade::data
