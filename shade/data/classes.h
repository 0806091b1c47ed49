// The classes of labelled records, as a user states them.
//
// Numbered by the labels that occur, one record with a label of its own would renumber all others, and an exported
// model would publish that label. A private run therefore states its classes, and any other label is refused before
// training.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace shade::data {

// The names in their order. A single word "@FILE" stands for the lines of that file; empty lines are skipped. Throws
// UsageError: no such file, fewer than two names, a name twice.
std::vector<std::string> read_classes(const std::vector<std::string>& words);

// The number of each label: its place among `classes`. Throws UsageError naming the first label that is none of them.
std::vector<int64_t> number_labels(std::span<const std::string> labels, std::span<const std::string> classes);

}  // namespace shade::data
