// Any bytes as a file of records (.jsonl, .json, .txt in each unit) and as a list of classes: refused with a
// FormatError or a UsageError, or every record is UTF-8 and begins on a line of the file; conversations become parts of
// which no two in a row are counted alike, whatever their contents, by each chat template.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "fuzz/in_memory.h"
#include "shade/data/classes.h"
#include "shade/data/records.h"
#include "shade/io/errors.h"
#include "shade/io/strict_json.h"

namespace {

using namespace shade;

struct Kind {
  data::TextFormat format;
  data::TextUnit unit;
};
constexpr Kind kKinds[] = {{data::TextFormat::jsonl, data::TextUnit::file},
                           {data::TextFormat::json, data::TextUnit::file},
                           {data::TextFormat::txt, data::TextUnit::file},
                           {data::TextFormat::txt, data::TextUnit::paragraph},
                           {data::TextFormat::txt, data::TextUnit::line}};

std::vector<data::ChatTemplate> chat_templates() {
  std::vector<data::ChatTemplate> out;
  for (const auto& name : data::chat_template_names()) out.emplace_back("", name, data::ByteTokenizer());
  return out;
}

// The labels of all records, in their order.
std::vector<std::string> read(const Kind& kind, const data::ChatTemplate& chat, const std::filesystem::path& path,
                              std::string_view content) {
  const auto lines = std::count(content.begin(), content.end(), '\n') + 1;
  std::vector<std::string> labels;
  int64_t before = 1;
  const auto visit = [&](data::Record&& record, uint64_t) {
    for (size_t i = 1; i < record.parts.size(); ++i)
      SHADE_CHECK(record.parts[i].counted != record.parts[i - 1].counted, "two parts that are counted alike");
    for (const auto& part : record.parts) SHADE_CHECK(!io::first_not_utf8(part.text), "a text that is not UTF-8");
    SHADE_CHECK(!record.label || !io::first_not_utf8(*record.label), "a label that is not UTF-8");
    SHADE_CHECK(before <= record.line && record.line <= lines, "line ", record.line, " of ", lines);
    before = record.line;
    if (record.label) labels.push_back(*record.label);
    return true;
  };
  try {
    data::Records({.unit = kind.unit, .chat_template = &chat})
        .read({.path = path, .name = "input", .format = kind.format, .size = content.size()}, visit);
  } catch (const io::FormatError& fault) {
    fuzz::check_message(fault.what());
  }
  return labels;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  if (size == 0) return 0;
  static const fuzz::InMemory file;
  static const auto chats = chat_templates();
  const std::string_view content(reinterpret_cast<const char*>(bytes) + 1, size - 1);
  file.fill(content);
  const auto labels = read(kKinds[bytes[0] % std::size(kKinds)], chats[bytes[0] / std::size(kKinds) % chats.size()],
                           file.path(), content);
  try {
    const auto classes = data::read_classes({"@" + file.path().string()});
    for (const auto number : data::number_labels(labels, classes))
      SHADE_CHECK(number >= 0 && number < static_cast<int64_t>(classes.size()), "class ", number);
  } catch (const UsageError& fault) {
    fuzz::check_message(fault.what());
  }
  return 0;
}
