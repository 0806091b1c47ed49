#include "shade/base/temporary_folder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "shade/base/error.h"

namespace shade {

std::filesystem::path temporary_root() {
  std::error_code fault;
  const auto folder = std::filesystem::temp_directory_path(fault);
  const char* stated = std::getenv("TMPDIR");
  SHADE_REQUIRE(!fault, "the folder for temporary files", stated != nullptr ? text(" (TMPDIR=", stated, ")") : "",
                " cannot be used: ", fault.message(), "; set TMPDIR to a folder that can be written");
  return folder;
}

TemporaryFolder::TemporaryFolder(const std::string& name) {
  auto path = (temporary_root() / (name + "_XXXXXX")).string();
  if (::mkdtemp(path.data()) == nullptr)
    throw Error(text("cannot make the folder ", path, ": ", std::strerror(errno),
                     "; set TMPDIR to a folder that can be written"));
  path_ = path;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace shade
