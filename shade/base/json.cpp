#include "shade/base/json.h"

#include <cerrno>
#include <cstring>
#include <fstream>

#include "shade/base/error.h"
#include "shade/base/output_file.h"

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

void write_json(const std::filesystem::path& file, const Json& value) { write_output(file, value.dump(2) + "\n"); }

}  // namespace shade
