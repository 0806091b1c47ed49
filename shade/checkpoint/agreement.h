// If one rank fails, all ranks throw, before any of them waits for what will not come.
#pragma once

#include <functional>
#include <string>

#include "shade/comm/group.h"

namespace shade::checkpoint {

// All ranks call it. Each does its part; then either all return, or all throw the same Error, which names the ranks
// that failed and says why: an io::FormatError if any of them has one, since damage that one rank has seen is there; a
// UsageError if each of them had one. A lost peer (comm::CommError) is thrown as it is:
// then the ranks can't agree.
void together(const comm::Group& group, const std::string& what, const std::function<void()>& part);

// The same, and the part is rank 0's alone. Everybody gets what it returned.
std::string from_rank0(const comm::Group& group, const std::string& what, const std::function<std::string()>& part);

}  // namespace shade::checkpoint
