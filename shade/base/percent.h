// Values in per cent as text: three digits, but no more than two after the point.
#pragma once

#include <string>

namespace shade {

std::string percent(double value);         // "123 %", "1.23 %", "0.08 %", "0 %"
std::string signed_percent(double value);  // "+12.3 %", "-4.00 %", "0 %"

}  // namespace shade
