// Sockets of a world against the process's limit of open files.
#pragma once

#include <cstdint>
#include <string>

namespace shade::comm {

// Raises the soft limit, if need be, so that `sockets` can be open beside the files of a program. Throws CommError with
// the number if the hard limit is lower. `what` needs them: "the store of 4096 ranks".
void allow_sockets(int64_t sockets, const std::string& what);

}  // namespace shade::comm
