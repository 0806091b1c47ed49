// The unit of memory in result files.
#pragma once

#include <cmath>

#include "shade/base/units.h"

namespace shade::measure {

inline Bytes from_mib(double mb) { return {std::llround(mb * 1024.0 * 1024.0)}; }
inline double mib(Bytes bytes) { return static_cast<double>(bytes.count) / (1024.0 * 1024.0); }

}  // namespace shade::measure
