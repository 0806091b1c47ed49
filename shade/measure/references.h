// Which row of a matrix each row is compared with.
#pragma once

#include <optional>

#include "shade/measure/matrix.h"

namespace shade::measure {

// The same row with another method: without privacy if the matrix has that, else the first. If it has the first
// method itself: the same row with the first strategy, and so on through the other axes. Axes that change the amount of
// work (lengths, batches, sizes, models) are not compared over: empty if only those differ.
std::vector<std::optional<size_t>> references_of(const std::vector<MatrixRow>& rows);

// Rows that are compared with each other, directly or not: they run next to each other. Indices, by group.
std::vector<std::vector<size_t>> groups_of(const std::vector<std::optional<size_t>>& references);

}  // namespace shade::measure
