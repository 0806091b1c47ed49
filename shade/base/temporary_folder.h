// A new folder in the temporary folder of the system (TMPDIR), removed with all that is in it at the end of its scope.
#pragma once

#include <filesystem>
#include <string>

namespace shade {

// TMPDIR, or /tmp. Throws UsageError if that is no folder.
std::filesystem::path temporary_root();

class TemporaryFolder {
 public:
  // Called NAME_ and six random characters. Throws Error if it can't be made.
  explicit TemporaryFolder(const std::string& name);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

}  // namespace shade
