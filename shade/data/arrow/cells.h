// An element of an Arrow array as a cell. Part of libshade_arrow.so.
#pragma once

#include <arrow/api.h>

#include "shade/data/row.h"

namespace shade::data {

// Strings of any kind, also behind a dictionary, whole numbers from 0, and lists of structs with a role and a content.
// Everything else, and a string that is not UTF-8, is CellKind::other with its type as what was found.
void read_cell(const arrow::Array& array, int64_t index, Cell& cell);

}  // namespace shade::data
