// The heap under the tensors. The program `shade` brings jemalloc (cli/main.cpp says why); a program that only links
// the library has whatever it was linked with, and glibc's is known here too.
#pragma once

#include "shade/base/units.h"

namespace shade::profile {

Bytes heap_reserved();      // what the heap holds of the system, used or not
void return_unused_heap();  // what nobody uses goes back to the system: once a large passing need is over

}  // namespace shade::profile
