#include "shade/data/arrow/cells.h"

#include "shade/base/error.h"
#include "shade/data/arrow/batches.h"
#include "shade/io/strict_json.h"

namespace shade::data {
namespace {

constexpr size_t kShownType = 80;  // bytes of a type's words in a message; nested ones have no end

void set_other(Cell& cell, std::string found) {
  cell.kind = CellKind::other;
  cell.found = std::move(found);
}

std::string type_text(const arrow::DataType& type) { return printable(type.ToString(), kShownType); }

void set_text(Cell& cell, std::string_view words) {
  if (io::first_not_utf8(words)) return set_other(cell, "a string that is not UTF-8");
  cell.kind = CellKind::string;
  cell.text = words;
}

template <class Number>
void set_number(Cell& cell, Number number) {
  if (number < Number{0}) return set_other(cell, text("the number ", std::to_string(number)));
  cell.kind = CellKind::integer;
  cell.text = std::to_string(number);
}

std::shared_ptr<arrow::Array> child_called(const arrow::StructArray& array, bool (*is_key)(std::string_view)) {
  for (const auto& field : array.struct_type()->fields())
    if (is_key(field->name())) return array.GetFieldByName(field->name());  // null if the name is there twice
  return nullptr;
}

// A text or a list that is not empty, or anything else but null.
bool has_values(const arrow::Array& array, int64_t index) {
  if (array.IsNull(index)) return false;
  const auto value = array.GetScalar(index).ValueOr(nullptr);
  if (const auto* list = dynamic_cast<const arrow::BaseListScalar*>(value.get())) return list->value->length() > 0;
  if (const auto* bytes = dynamic_cast<const arrow::BaseBinaryScalar*>(value.get())) return bytes->value->size() > 0;
  return true;
}

bool has_unwritten(const arrow::StructArray& messages, int64_t index) {
  const auto& fields = messages.struct_type()->fields();
  for (int i = 0; i < messages.num_fields(); ++i)
    if (is_unwritten_key(fields[static_cast<size_t>(i)]->name()) && has_values(*messages.field(i), index)) return true;
  return false;
}

// `list`: the elements of one row.
void read_messages(const arrow::Array& list, Cell& cell) {
  const auto& structs = static_cast<const arrow::StructArray&>(list);
  const auto roles = child_called(structs, is_role_key), contents = child_called(structs, is_content_key);
  if (!roles || !contents) return set_other(cell, text("a list of ", type_text(*list.type())));
  cell.messages.clear();
  for (int64_t i = 0; i < list.length(); ++i) {
    if (list.IsNull(i)) return set_other(cell, text("a list whose element ", i + 1, " is null"));
    if (has_unwritten(structs, i))
      return set_other(cell, text("a list whose element ", i + 1,
                                  " has tool calls or reasoning besides its content, which are not supported"));
    Cell role, content;
    read_cell(*roles, i, role);
    read_cell(*contents, i, content);
    for (const auto& [part, name] : {std::pair(&role, "role"), {&content, "content"}})
      if (part->kind != CellKind::string)
        return set_other(cell, text("a list whose element ", i + 1, " has ",
                                    part->kind == CellKind::integer ? "the number " + part->text : part->found,
                                    " as its '", name, "'"));
    cell.messages.push_back({std::move(role.text), std::move(content.text)});
  }
  cell.kind = CellKind::messages;
}

template <class List>
void read_list(const arrow::Array& array, int64_t index, Cell& cell) {
  const auto slice = static_cast<const List&>(array).value_slice(index);
  if (slice->type_id() != arrow::Type::STRUCT) return set_other(cell, text("a list of ", type_text(*slice->type())));
  read_messages(*slice, cell);
}

}  // namespace

void read_cell(const arrow::Array& array, int64_t index, Cell& cell) {
  using arrow::Type;
  if (array.IsNull(index) || array.type_id() == Type::NA) {
    cell.kind = CellKind::null;
    cell.found = "null";
    return;
  }
  switch (array.type_id()) {
    case Type::STRING: return set_text(cell, static_cast<const arrow::StringArray&>(array).GetView(index));
    case Type::LARGE_STRING: return set_text(cell, static_cast<const arrow::LargeStringArray&>(array).GetView(index));
    case Type::STRING_VIEW: return set_text(cell, static_cast<const arrow::StringViewArray&>(array).GetView(index));
    case Type::INT8: return set_number(cell, static_cast<const arrow::Int8Array&>(array).Value(index));
    case Type::INT16: return set_number(cell, static_cast<const arrow::Int16Array&>(array).Value(index));
    case Type::INT32: return set_number(cell, static_cast<const arrow::Int32Array&>(array).Value(index));
    case Type::INT64: return set_number(cell, static_cast<const arrow::Int64Array&>(array).Value(index));
    case Type::UINT8: return set_number(cell, static_cast<const arrow::UInt8Array&>(array).Value(index));
    case Type::UINT16: return set_number(cell, static_cast<const arrow::UInt16Array&>(array).Value(index));
    case Type::UINT32: return set_number(cell, static_cast<const arrow::UInt32Array&>(array).Value(index));
    case Type::UINT64: return set_number(cell, static_cast<const arrow::UInt64Array&>(array).Value(index));
    case Type::DICTIONARY: {
      const auto& words = static_cast<const arrow::DictionaryArray&>(array);
      return read_cell(*words.dictionary(), words.GetValueIndex(index), cell);
    }
    case Type::EXTENSION: return read_cell(*static_cast<const arrow::ExtensionArray&>(array).storage(), index, cell);
    case Type::LIST: return read_list<arrow::ListArray>(array, index, cell);
    case Type::LARGE_LIST: return read_list<arrow::LargeListArray>(array, index, cell);
    case Type::LIST_VIEW: return read_list<arrow::ListViewArray>(array, index, cell);
    case Type::LARGE_LIST_VIEW: return read_list<arrow::LargeListViewArray>(array, index, cell);
    case Type::FIXED_SIZE_LIST: return read_list<arrow::FixedSizeListArray>(array, index, cell);
    default: set_other(cell, text("a value of type ", type_text(*array.type())));
  }
}

}  // namespace shade::data
