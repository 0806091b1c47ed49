#include "shade/base/error.h"

#include <string_view>

namespace shade::detail {

void throw_internal(const char* file, int line, const char* condition, const std::string& what) {
  std::string_view path(file);
  if (const auto at = path.rfind("shade/"); at != std::string_view::npos) path.remove_prefix(at);
  throw Error(text(what, what.empty() ? "" : " ", "[internal: ", condition, " at ", path, ":", line, "]"));
}

}  // namespace shade::detail
