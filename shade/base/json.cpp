#include "shade/base/json.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>

#include "shade/base/error.h"

namespace shade {

Json read_json(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw Error(text("cannot read ", file, ": ", std::strerror(errno)));
  try {
    return Json::parse(in);
  } catch (const Json::parse_error& fault) {
    throw Error(text(file, " is not valid JSON (byte ", fault.byte, "): ", fault.what()));
  }
}

void write_json(const std::filesystem::path& file, const Json& value) {
  if (file.has_parent_path()) {
    std::error_code ignored;  // reported by the write below, with the file's name
    std::filesystem::create_directories(file.parent_path(), ignored);
  }
  auto temporary = file;
  temporary += text(".", ::getpid(), ".tmp");
  std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
  out << value.dump(2) << '\n';
  out.close();
  if (!out) throw Error(text("cannot write ", file, ": ", std::strerror(errno)));
  std::filesystem::rename(temporary, file);
}

}  // namespace shade
