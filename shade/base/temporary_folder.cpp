#include "shade/base/temporary_folder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "shade/base/error.h"

namespace shade {

TemporaryFolder::TemporaryFolder(const std::string& name) {
  auto path = (std::filesystem::temp_directory_path() / (name + "_XXXXXX")).string();
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
