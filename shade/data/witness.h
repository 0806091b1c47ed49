// Shows another host that it looks at the very folder that this one has proved: a file with an unguessable name, there
// for as long as this lives. A folder of the same path and content on another disk doesn't have it.
#pragma once

#include <filesystem>
#include <random>
#include <string>

#include "shade/base/error.h"
#include "shade/base/files.h"

namespace shade::data {

class Witness {
 public:
  explicit Witness(std::filesystem::path folder) : folder_(std::move(folder)) {
    make_file(folder_ / name_, Readers::owner);
  }
  ~Witness() {
    std::error_code ignored;
    std::filesystem::remove(folder_ / name_, ignored);
  }
  Witness(const Witness&) = delete;
  Witness& operator=(const Witness&) = delete;

  const std::string& name() const { return name_; }

  static bool seen(const std::filesystem::path& folder, const std::string& name) {
    std::error_code ignored;
    return !name.empty() && std::filesystem::exists(folder / name, ignored);
  }

 private:
  static std::string new_name() {
    std::random_device system;
    return text("witness-", system(), "-", system(), "-", system(), "-", system());
  }

  std::filesystem::path folder_;
  std::string name_ = new_name();
};

}  // namespace shade::data
