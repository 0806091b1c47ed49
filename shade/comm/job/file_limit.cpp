#include "shade/comm/job/file_limit.h"

#include <sys/resource.h>

#include <cerrno>
#include <cstring>

#include "shade/comm/errors.h"

namespace shade::comm {
namespace {

constexpr int64_t kOthers = 256;  // data, checkpoints, libraries, pipes

}  // namespace

void allow_sockets(int64_t sockets, const std::string& what) {
  const auto needed = static_cast<rlim_t>(sockets + kOthers);
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return;
  if (limit.rlim_max < needed)
    throw CommError(text(what, " may need ", needed, " open files in one process, and the hard limit is ",
                         limit.rlim_max, "; raise it to ", needed,
                         " on this host (ulimit -Hn, LimitNOFILE of a service, /etc/security/limits.conf)"));
  limit.rlim_cur = needed;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0)
    throw CommError(
        text(what, " may need ", needed, " open files, and the limit can't be raised: ", std::strerror(errno)));
}

}  // namespace shade::comm
