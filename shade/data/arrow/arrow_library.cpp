#include "shade/data/arrow/arrow_library.h"

#include "shade/base/error.h"

namespace shade::data {

const LoadedLibrary& arrow_library() {
  static const LoadedLibrary library(
      "libshade_arrow.so",
      "build it: tools/bootstrap arrow && cmake --preset release && cmake --build --preset release");
  return library;
}

std::unique_ptr<RowReader> open_arrow_rows(const TextFile& file, const Wanted& wanted) {
  const auto& library = arrow_library();
  SHADE_REQUIRE(library.loaded(), file.path, " needs Arrow: ", library.why_not(), "; or convert the file to .jsonl");
  return library.table<ArrowFunctions>(ArrowFunctions::kName).open(file, wanted);
}

}  // namespace shade::data
