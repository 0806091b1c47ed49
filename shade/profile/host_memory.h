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

// The heap under the tensors. The program `shade` brings jemalloc (cli/main.cpp says why); a program that only links
// the library has whatever it was linked with, and glibc's is known here too.
Bytes heap_reserved();      // what the heap holds of the system, used or not
void return_unused_heap();  // what is unused goes back to the system: once a large passing need is over

}  // namespace shade::profile
