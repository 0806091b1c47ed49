#include "shade/data/classes.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <numeric>
#include <set>

#include "shade/base/error.h"
#include "shade/base/input_text.h"
#include "shade/base/strings.h"
#include "shade/io/strict_json.h"

namespace shade::data {
namespace {

using Names = std::span<const std::string>;

constexpr const char *kDefault = "LABEL_", *kModelsOrder = "numbered as in the model, not as --classes lists them",
                     *kOwnOrder = "numbered by their own numbers, not as --classes lists them";

std::vector<std::string> lines_of(const std::string& file) {
  require_readable(file);
  std::ifstream in(file, std::ios::binary);
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);)
    if (const auto name = trim(line); !name.empty()) out.emplace_back(name);
  SHADE_REQUIRE(!in.bad() && !out.empty(), "no classes in ", file, "; expected a file with a class per line");
  return out;
}

// What transformers calls classes without a name.
std::vector<std::string> default_names(int64_t number) {
  std::vector<std::string> out;
  for (int64_t i = 0; i < number; ++i) out.push_back(text(kDefault, i));
  return out;
}

std::optional<int64_t> whole_number(const std::string& label) {
  const auto found = parse_integer(label);
  return found && *found >= 0 && label == std::to_string(*found) ? found : std::nullopt;
}

bool is_whole(const std::string& label) { return whole_number(label).has_value(); }

std::string listed(Names names) {
  constexpr size_t kShown = 20;
  std::vector<std::string> out;
  for (const auto& name : names.first(std::min(names.size(), kShown))) out.push_back(io::quote(name));
  return join(out, ", ") + (names.size() > kShown ? text(", ... (", names.size(), ")") : "");
}

struct LabelMatch {
  std::vector<int64_t> numbers;
  const std::string* unknown = nullptr;  // the first label that is no class
  bool by_number = false;
};

// All by name, or all by number.
LabelMatch match(Names labels, Names classes) {
  std::map<std::string_view, int64_t> places;
  std::set<std::string_view> twice;
  for (size_t i = 0; i < classes.size(); ++i)
    if (!places.emplace(classes[i], static_cast<int64_t>(i)).second) twice.insert(classes[i]);
  LabelMatch out;
  out.by_number = !labels.empty() && std::ranges::all_of(labels, is_whole) && std::ranges::none_of(classes, is_whole);
  for (const auto& label : labels) {
    const auto found = places.find(label);
    const auto number = out.by_number                                    ? *whole_number(label)
                        : found == places.end() || twice.contains(label) ? std::ssize(classes)
                                                                         : found->second;
    if (number >= std::ssize(classes)) {
      out.unknown = &label;
      return out;
    }
    out.numbers.push_back(number);
  }
  return out;
}

std::string lower_case(std::string_view word) {
  std::string out(trim(word));
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

// Why a label is no class, where the reason can be seen.
std::string hint_for(const std::string& label, Names classes) {
  for (const auto& name : classes) {
    if (name == label) return ", because two classes have that name";
    if (lower_case(name) == lower_case(label)) return text(" (case counts; did you mean ", io::quote(name), "?)");
  }
  if (whole_number(label) && std::ranges::none_of(classes, is_whole))
    return text(" (class numbers are 0 to ", classes.size() - 1, ")");
  const auto near = whole_number(label) ? std::nullopt : nearest(label, classes);
  return near ? text(" (did you mean ", io::quote(*near), "?)") : "";
}

[[noreturn]] void refuse_label(const std::string& label, Names labels, Names classes) {
  throw UnknownLabel(label,
                     text("the data has the label ", io::quote(label), ", which is none of the ", classes.size(),
                          " classes of the model", hint_for(label, classes), "; the model's classes: ", listed(classes),
                          "; labels of the data: ", listed(labels), "; correct the records, or choose the model"));
}

// Each of the stated classes is another one of the head's. Returns their numbers.
std::vector<int64_t> require_same_classes(const std::vector<std::string>& stated, Names classes) {
  const auto found = match(stated, classes);
  const std::set<int64_t> different(found.numbers.begin(), found.numbers.end());
  SHADE_REQUIRE(found.unknown == nullptr && different.size() == classes.size(),
                "--classes and the model must have the same classes",
                found.unknown == nullptr ? ""
                                         : text("; ", io::quote(*found.unknown), " is none of the model's",
                                                hint_for(*found.unknown, classes)),
                "; --classes: ", listed(stated), "; the model's (id2label of its config.json): ", listed(classes));
  return found.numbers;
}

// Class numbers, or LABEL_i: in their own order, whatever the order they are stated in.
std::vector<std::string> in_own_order(const std::vector<std::string>& stated) {
  const auto found = match(stated, default_names(std::ssize(stated)));
  if (found.unknown != nullptr) return stated;
  auto out = stated;
  for (size_t i = 0; i < stated.size(); ++i) out[static_cast<size_t>(found.numbers[i])] = stated[i];
  return out;
}

void require_distinct(const std::vector<std::string>& names) {
  const std::set<std::string> different(names.begin(), names.end());
  SHADE_REQUIRE(names.size() >= 2 && different.size() == names.size(), "the model's classes (id2label of its ",
                "config.json) are ", listed(names), "; expected at least 2 different names");
}

NumberedClasses in_named_head(Names labels, const std::vector<std::string>& stated, const HeadClasses& head) {
  if (head.may_be_named) require_distinct(head.names);  // a run writes them down as --classes
  if (!stated.empty()) require_same_classes(stated, head.names);
  auto found = match(labels, head.names);
  if (found.unknown != nullptr) refuse_label(*found.unknown, labels, head.names);
  NumberedClasses out{.names = head.names, .of_labels = std::move(found.numbers)};
  if (!stated.empty() && stated != head.names) out.notice = kModelsOrder;
  if (found.by_number) out.notice += text(out.notice.empty() ? "" : "; ", "labels are class numbers");
  return out;
}

void require_number(size_t found, const HeadClasses& head) {
  SHADE_REQUIRE(std::cmp_equal(found, head.number), "the data has ", found, " classes, the model ", head.number,
                " (--num-classes, or num_labels of its config.json), and both must be the same; drop --num-classes, or "
                "state the names of all ",
                head.number, " (--classes)");
}

NumberedClasses in_unnamed_head(Names labels, const std::vector<std::string>& stated, const HeadClasses& head) {
  const auto unnamed = default_names(head.number);
  if (!stated.empty()) {
    require_number(stated.size(), head);
    NumberedClasses out{.names = in_own_order(stated), .of_labels = {}};
    if (out.names != stated) out.notice = kModelsOrder;
    out.of_labels = number_labels(labels, out.names);
    return out;
  }
  if (auto found = match(labels, unnamed); found.unknown == nullptr)
    return {.names = unnamed, .of_labels = std::move(found.numbers)};
  const auto numbers = [](const std::string& label) { return is_whole(label) || label.starts_with(kDefault); };
  SHADE_REQUIRE(head.is_new || (head.may_be_named && std::ranges::none_of(labels, numbers)),
                "the model does not name its ", head.number,
                " classes, so which of them a label means is not known; "
                "labels of the data: ",
                listed(labels), "; the model's classes: ", listed(unnamed),
                "; state the names in the order of the model's classes (--classes), or use class numbers, 0 to ",
                head.number - 1, ", as labels");
  require_number(labels.size(), head);
  NumberedClasses out{.names = {labels.begin(), labels.end()}, .of_labels = std::vector<int64_t>(labels.size())};
  std::iota(out.of_labels.begin(), out.of_labels.end(), 0);
  out.notice =
      text("the model does not name them: numbered from 0 as ", listed(labels), "; --classes states another order");
  return out;
}

}  // namespace

std::vector<std::string> read_classes(const std::vector<std::string>& words) {
  if (words.empty()) return {};
  const bool file = words.size() == 1 && words[0].starts_with('@');
  auto classes = file ? lines_of(words[0].substr(1)) : words;
  SHADE_REQUIRE(classes.size() >= 2, "one class is stated (", io::quote(classes.front()),
                "); expected at least 2, e.g. --classes no,yes or --classes @FILE with a class per line");
  std::set<std::string> seen;
  for (const auto& name : classes)
    SHADE_REQUIRE(seen.insert(name).second, "class ", io::quote(name), " is stated twice");
  return classes;
}

std::vector<int64_t> number_labels(Names labels, Names classes) {
  const auto found = match(labels, classes);
  if (found.unknown != nullptr)
    throw UnknownLabel(*found.unknown,
                       text("the data has the label ", io::quote(*found.unknown), ", which is none of the ",
                            classes.size(), " stated classes", hint_for(*found.unknown, classes), ": ", listed(classes),
                            "; correct the records, or state it too (--classes)"));
  return found.numbers;
}

NumberedClasses number_classes(Names labels, const std::vector<std::string>& stated, const HeadClasses& head) {
  // What is "sea" in one file and "sea " in another would be two classes.
  for (const auto& label : labels)
    if (label.empty() || trim(label) != label)
      throw UnknownLabel(label,
                         text("the data has the label ", io::quote(label),
                              "; expected the name of a class, without white space around it; correct the records"));
  const bool named = !head.names.empty() && head.names != default_names(std::ssize(head.names));
  if (named) return in_named_head(labels, stated, head);
  if (head.number > 0) return in_unnamed_head(labels, stated, head);
  NumberedClasses out{
      .names = stated.empty() ? std::vector<std::string>(labels.begin(), labels.end()) : in_own_order(stated),
      .of_labels = {}};
  if (!stated.empty() && out.names != stated) out.notice = kOwnOrder;
  SHADE_REQUIRE(out.names.size() >= 2, "all records have the label '", out.names.at(0),
                "'; classification needs at least 2 classes");
  out.of_labels = number_labels(labels, out.names);
  return out;
}

}  // namespace shade::data
