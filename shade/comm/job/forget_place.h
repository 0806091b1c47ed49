// Leaving a job. Apart from environment.h, which most files include through comm/world.h.
#pragma once

namespace shade::comm {

// Unsets the variables that place_from() goes by, so that programs which this process starts are not ranks of its job.
// Not for processes with several threads.
void forget_place();

}  // namespace shade::comm
