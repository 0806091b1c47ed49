// How much memory this host has, and how much of it it could still give to this process.
#pragma once

#include <filesystem>

#include "shade/base/units.h"

namespace shade::profile {

struct HostMemory {
  Bytes available;  // without swapping: the kernel's estimate, or less if a control group allows less
  Bytes swap;       // that is free
  Bytes total;      // of the host; 0: the kernel doesn't say
};

// `root` is where proc and sys are found. Throws Error if the kernel says nothing.
HostMemory host_memory(const std::filesystem::path& root = "/");

}  // namespace shade::profile
