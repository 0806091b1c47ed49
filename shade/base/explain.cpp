#include "shade/base/explain.h"

#include <sys/resource.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>

#include "shade/base/error.h"

namespace shade {
namespace {

std::string present_limit(__rlimit_resource kind) {
  rlimit limit{};
  if (::getrlimit(kind, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  return text(", now ", limit.rlim_cur);
}

std::string explain_path(const std::filesystem::filesystem_error& fault) {
  std::string paths;
  for (const auto& path : {fault.path1(), fault.path2()})
    if (!path.empty()) paths += text(paths.empty() ? " " : " and ", path);
  const auto& code = fault.code();
  return text("cannot use ", paths.empty() ? "a file" : paths.substr(1), ": ",
              code.category() == std::generic_category() || code.category() == std::system_category()
                  ? reason_of(code.value())
                  : code.message());
}

}  // namespace

std::string reason_of(int fault) {
  const std::string reason = std::strerror(fault);
  switch (fault) {
    case ENOSPC: return reason + "; free some space or choose another folder";
    case EDQUOT: return reason + "; free some space or choose a folder without this quota";
    case EFBIG: return reason + "; the limit of file sizes is reached: raise it (ulimit -f)";
    case EMFILE:
      return text(reason, "; the limit of open files is reached: raise it (ulimit -n", present_limit(RLIMIT_NOFILE),
                  ") or start fewer ranks");
    case ENAMETOOLONG: return reason + "; choose a shorter name";
    case EACCES: return reason + "; change the permissions, or choose another place";
    case EROFS: return reason + "; choose a folder that can be written";
    default: return reason;
  }
}

std::string cannot_start(const std::string& what, int fault) {
  const auto all = text("cannot start ", what, ": ");
  if (fault != EAGAIN) return all + reason_of(fault);
  return text(all,
              "the limit of processes and threads of this user, or of its container, is reached: raise it (ulimit -u",
              present_limit(RLIMIT_NPROC), ") or start fewer with --ranks and --threads");
}

std::string explain(const std::exception& fault) {
  if (const auto* file = dynamic_cast<const std::filesystem::filesystem_error*>(&fault)) return explain_path(*file);
  if (const auto* system = dynamic_cast<const std::system_error*>(&fault);
      system != nullptr && system->code() == std::errc::resource_unavailable_try_again)
    return cannot_start("a thread", EAGAIN);
  if (const auto* json = dynamic_cast<const nlohmann::json::exception*>(&fault)) {
    constexpr int kNotUtf8 = 316;
    if (json->id == kNotUtf8)
      return "a name or text that is to be written is not valid UTF-8; rename the file or folder, or convert the text "
             "(iconv)";
    return "a JSON file doesn't have the expected fields: an object, list or number stands where another is expected";
  }
  if (dynamic_cast<const std::length_error*>(&fault) != nullptr)
    return "a size is larger than any memory; choose smaller numbers";
  return fault.what();
}

}  // namespace shade
