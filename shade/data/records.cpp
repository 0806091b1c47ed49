#include "shade/data/records.h"

#include <utility>

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/io/errors.h"
#include "shade/io/strict_json.h"

namespace shade::data {
namespace {

// What `work` says is wrong with a row, with its place.
template <class Work>
auto at_row(const TextFile& file, const Row& row, const Work& work) {
  try {
    return work();
  } catch (const io::FormatError& fault) {
    throw io::FormatError(text(place_in(file, row.line), ": ", fault.what()));
  } catch (const UsageError& fault) {
    throw UsageError(text(place_in(file, row.line), ": ", fault.what()));
  }
}

}  // namespace

bool Records::read(const TextFile& file, const Visitor& visitor) {
  if (!fields_) {
    const auto rows = open_rows(file, options_.unit, std::vector<std::string>{});
    const auto* const first = rows->next();
    if (first == nullptr) return true;
    at_row(file, *first, [&] { fields_.emplace(options_.fields, *first); });
  }
  const auto rows = open_rows(file, options_.unit, fields_->names());
  while (auto* const row = rows->next())
    if (!visitor(at_row(file, *row, [&] { return fields_->record(*row, options_.chat_template); }), rows->position()))
      return false;
  return true;
}

namespace {

using Names = std::vector<std::string>;

// The layouts that are found without being named. A layout of several fields needs all of them.
struct Conventional {
  Names texts;
  std::string messages;
};
const Conventional kConventional[] = {{{"text"}, ""},
                                      {{"prompt", "completion"}, ""},
                                      {{"prompt", "response"}, ""},
                                      {{}, "messages"},
                                      {{}, "conversations"}};
constexpr const char* kLabel = "label";

constexpr const char* kHowToName =
    "; name the fields to train on: --text-field, or --prompt-field and --completion-field, or --messages-field";

bool has(const Row& row, std::string_view name) { return const_cast<Row&>(row).find(name) != nullptr; }

std::string quoted(const Names& names) {
  Names out;
  for (const auto& name : names) out.push_back(io::quote(name));
  return join(out, " + ");
}

std::string fields_of(const Row& row) {
  constexpr size_t kShown = 12;
  Names out;
  for (const auto& cell : row.cells) out.push_back(io::quote(cell.name));
  if (out.empty()) return "no field at all";
  if (out.size() > kShown) {
    out.resize(kShown);
    out.emplace_back("...");
  }
  return "the fields " + join(out, ", ");
}

std::string found_in(const Cell& cell) {
  switch (cell.kind) {
    case CellKind::string: return "a string";
    case CellKind::integer: return text("the number ", cell.text);
    case CellKind::messages: return "a list of messages";
    default: return cell.found;
  }
}

std::string nearest_field(const Row& row, const std::string& name) {
  std::vector<std::string> names;
  for (const auto& cell : row.cells) names.push_back(cell.name);
  const auto near = nearest(name, names);
  return near ? text(" (did you mean ", io::quote(*near), "?)") : "";
}

Cell& required(Row& row, const std::string& name) {
  auto* const cell = row.find(name);
  if (cell == nullptr)
    throw io::FormatError(
        text("there is no field ", io::quote(name), nearest_field(row, name), "; the row has ", fields_of(row)));
  return *cell;
}

std::string take_text(Row& row, const std::string& name) {
  auto& cell = required(row, name);
  if (cell.kind != CellKind::string)
    throw io::FormatError(text(io::quote(name), " must be a string, found ", found_in(cell)));
  return std::move(cell.text);
}

// A string, or the digits of a whole number.
std::optional<std::string> take_word(Row& row, const std::string& name, bool is_required) {
  auto* const cell = is_required ? &required(row, name) : row.find(name);
  if (cell == nullptr || (!is_required && cell->kind == CellKind::null)) return std::nullopt;
  if (cell->kind != CellKind::string && cell->kind != CellKind::integer)
    throw io::FormatError(text(io::quote(name), " must be a string or a whole number from 0, found ", found_in(*cell)));
  return std::move(cell->text);
}

// ShareGPT's words for the roles.
void translate_role(Message& message) {
  if (message.role == "human") message.role = "user";
  if (message.role == "gpt") message.role = "assistant";
}

}  // namespace

std::string FieldNames::key() const {
  std::string out;
  for (const auto* name : {&text, &prompt, &completion, &messages, &label, &user})
    out += shade::text(name->size(), ':', *name, ' ');
  return out;
}

RecordFields::RecordFields(const FieldNames& names, const Row& row)
    : label_{names.label.empty() ? kLabel : names.label, !names.label.empty()}, user_{names.user, !names.user.empty()} {
  const int layouts =
      !names.text.empty() + (!names.prompt.empty() || !names.completion.empty()) + !names.messages.empty();
  SHADE_REQUIRE(layouts <= 1, "a record is a text, or a prompt and its completion, or messages; of --text-field (",
                io::quote(names.text), "), --prompt-field (", io::quote(names.prompt), ") with --completion-field (",
                io::quote(names.completion), ") and --messages-field (", io::quote(names.messages), ") name one");
  SHADE_REQUIRE(names.prompt.empty() == names.completion.empty(), "a prompt needs its completion: --prompt-field is ",
                io::quote(names.prompt), ", --completion-field ", io::quote(names.completion), "; name both");
  choose_layout(names, row);
}

void RecordFields::choose_layout(const FieldNames& names, const Row& row) {
  messages_ = names.messages;
  if (!names.text.empty()) texts_ = {names.text};
  if (!names.prompt.empty()) texts_ = {names.prompt, names.completion};
  if (!messages_.empty() || !texts_.empty()) return;
  const Conventional* chosen = nullptr;
  for (const auto& layout : kConventional) {
    auto fields = layout.texts;
    if (!layout.messages.empty()) fields.push_back(layout.messages);
    if (!std::all_of(fields.begin(), fields.end(), [&](const auto& name) { return has(row, name); })) continue;
    if (chosen != nullptr)
      throw io::FormatError(text("the row can be read in two ways, by ",
                                 quoted(chosen->texts.empty() ? Names{chosen->messages} : chosen->texts), " and by ",
                                 quoted(fields), kHowToName));
    chosen = &layout;
  }
  if (chosen == nullptr)
    throw io::FormatError(text("expected a field 'text', or 'prompt' and 'completion', or 'messages', found ",
                               fields_of(row), kHowToName));
  texts_ = chosen->texts;
  messages_ = chosen->messages;
}

Record RecordFields::record(Row& row, const ChatTemplate* chat_template) const {
  Record record;
  record.line = row.line;
  for (const auto& name : texts_)
    record.parts.push_back({.text = take_text(row, name), .counted = name == texts_.back()});
  if (has_messages()) {
    auto& cell = required(row, messages_);
    if (cell.kind != CellKind::messages)
      throw io::FormatError(
          text(io::quote(messages_), " must be a list of {\"role\", \"content\"}, found ", found_in(cell)));
    SHADE_REQUIRE(chat_template != nullptr,
                  "messages need a chat template, and there is none; train a model folder that "
                  "has one, or name one");
    for (auto& message : cell.messages) translate_role(message);
    record.parts = chat_template->parts(cell.messages);
    record.framed = false;
  }
  record.label = take_word(row, label_.name, label_.required);
  if (!user_.name.empty()) {
    record.user = take_word(row, user_.name, /*is_required=*/true);
    // Who is "ann" in one file and "ann " in another would be two users, and protected as neither.
    if (trim(*record.user).empty() || trim(*record.user) != *record.user)
      throw io::FormatError(text(io::quote(user_.name), " is ", io::quote(*record.user),
                                 "; expected the name of the record's user, without white space around it"));
  }
  return record;
}

std::vector<std::string> RecordFields::names() const {
  auto out = texts_;
  for (const auto* name : {&messages_, &label_.name, &user_.name})
    if (!name->empty()) out.push_back(*name);
  return out;
}

std::string RecordFields::describe() const {
  return text(has_messages() ? io::quote(messages_) : quoted(texts_),
              label_.required ? ", label " + io::quote(label_.name) : "",
              user_.name.empty() ? "" : ", user " + io::quote(user_.name));
}

}  // namespace shade::data
