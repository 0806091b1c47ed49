#include "shade/report/report_folder.h"

#include "shade/base/error.h"

namespace shade::report {

void make_report_folder(const std::filesystem::path& folder, Readers readers) {
  const auto last = folder.has_filename() ? folder : folder.parent_path();  // "a/b/" is where b leads
  std::error_code absent;
  SHADE_REQUIRE(readers == Readers::by_umask || !std::filesystem::is_symlink(last, absent), last.string(),
                " is a symbolic link, and the report of a private run is for its owner alone; expected a folder, or "
                "nothing: remove the link, or choose another --output-dir");
  make_folder(folder, readers);
}

}  // namespace shade::report
