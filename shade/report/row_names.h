// What rows are called: by what differs among them.
#pragma once

#include "shade/report/rows.h"

namespace shade::report {

void name_rows(const std::vector<ResultRow*>& rows);  // their shape, group and name

// Of the settings that are told by name in a shape: those in which no row differs.
std::string common_to(const std::vector<ResultRow*>& rows);

}  // namespace shade::report
