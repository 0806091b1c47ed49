// The text files of a folder, in an order that is the same on every machine.
#pragma once

#include <string>
#include <vector>

#include "shade/data/byte_source.h"

namespace shade::data {

enum class TextFormat { txt, json, jsonl, csv, parquet, arrow };

struct TextFile {
  std::filesystem::path path;
  std::string name;  // below the folder, with '/'
  TextFormat format = TextFormat::txt;
  Compression compression = Compression::none;
  uint64_t size = 0;     // bytes
  int64_t modified = 0;  // nanoseconds since some moment of the file system's

  bool operator==(const TextFile&) const = default;
};

// "FILE:LINE", and "FILE: row ROW" of formats that have no lines.
std::string place_in(const TextFile& file, int64_t line);

// The endings that are read, for a message: ".txt, .json, ...".
std::string text_endings();

bool is_text_file(const std::filesystem::path& file);  // there, and with one of these endings

// All of them, also in folders below, sorted by the bytes of their names; `place` may also be one such file. Names that
// begin with a dot are not looked at, links to folders are not followed. Throws UsageError if there is none.
std::vector<TextFile> find_text_files(const std::filesystem::path& place);

}  // namespace shade::data
