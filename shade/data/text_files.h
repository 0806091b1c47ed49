// The text files of a folder, in an order that is the same on every machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "shade/base/names.h"

namespace shade::data {

enum class TextFormat { txt, json, jsonl };
inline std::span<const Name<TextFormat>> names_of(TextFormat) {
  static constexpr Name<TextFormat> kNames[] = {
      {".txt", TextFormat::txt}, {".json", TextFormat::json}, {".jsonl", TextFormat::jsonl}};
  return kNames;
}

struct TextFile {
  std::filesystem::path path;
  std::string name;  // below the folder, with '/'
  TextFormat format = TextFormat::txt;
  uint64_t size = 0;     // bytes
  int64_t modified = 0;  // nanoseconds since some moment of the file system's

  bool operator==(const TextFile&) const = default;
};

// All of them, also in folders below, sorted by the bytes of their names; `place` may also be one such file. Names that
// begin with a dot are not looked at, links to folders are not followed. Throws UsageError if there is none.
std::vector<TextFile> find_text_files(const std::filesystem::path& place);

}  // namespace shade::data
