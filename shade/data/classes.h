// The classes of labelled records: which label means which row of a classifier's head.
//
//   The head that training starts from or that is evaluated decides the numbers, because its rows have learned them:
//
//     a head with names (id2label)   labels are mapped by name; --classes must name the same classes, in any order
//     a head without names           labels are class numbers, or names that --classes puts into the head's order; in
//                                    training, the sorted labels become the names
//     a new head                     the classes are those of --classes or, without, the sorted labels
//
//   Labels that are whole numbers are class numbers, unless classes have such names.
//
// A private run must be given its classes: if they were numbered by the labels that occur, one record with a unique
// label would renumber all others, and an exported model would publish that label.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "shade/base/error.h"

namespace shade::data {

// The names in their order. A single word "@FILE" stands for the lines of that file; empty lines are skipped. Throws
// UsageError: no such file, fewer than two names, a name twice.
std::vector<std::string> read_classes(const std::vector<std::string>& words);

// A label of the data that is no class. The caller who knows the files adds where it stands.
class UnknownLabel : public UsageError {
 public:
  UnknownLabel(std::string label, const std::string& message) : UsageError(message), label_(std::move(label)) {}
  const std::string& label() const { return label_; }

 private:
  std::string label_;
};

// The number of each label: its place among `classes` or, if all labels are whole numbers and no name is, the label
// itself. Throws UnknownLabel naming the first label that is no class.
std::vector<int64_t> number_labels(std::span<const std::string> labels, std::span<const std::string> classes);

// The classes of a model's head.
struct HeadClasses {
  int64_t number = 0;                // 0: a new head, which gets as many as there are names
  std::vector<std::string> names{};  // by number, as id2label has them; empty, or LABEL_0, LABEL_1, ...: no names
  bool may_be_named = true;          // labels may become the names of a head that has none
  bool is_new = false;               // no weights hold it: its rows have learned nothing
};

struct NumberedClasses {
  std::vector<std::string> names;  // by number
  std::vector<int64_t> of_labels;  // the number of each label
  std::string notice{};            // how labels were mapped, where that is not obvious
};

// `labels`: those that occur, sorted. `stated`: what read_classes() returned. Throws UnknownLabel or UsageError with
// both lists if a label or a stated class is none of the head's.
NumberedClasses number_classes(std::span<const std::string> labels, const std::vector<std::string>& stated,
                               const HeadClasses& head);

}  // namespace shade::data
