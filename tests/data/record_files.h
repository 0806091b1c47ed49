// Records of files in a scratch folder, and what a file is refused with.
#pragma once

#include "../io/scratch.h"
#include "shade/data/records.h"

namespace shade::data {

inline std::vector<Record> records_in(const std::filesystem::path& place, const RecordOptions& options = {}) {
  std::vector<Record> out;
  Records reader(options);
  for (const auto& file : find_text_files(place))
    reader.read(file, [&](Record&& record, uint64_t) {
      out.push_back(std::move(record));
      return true;
    });
  return out;
}

// Each record as "prompt|completion #label @user :line".
inline std::vector<std::string> shown_in(const std::filesystem::path& place, const RecordOptions& options = {}) {
  std::vector<std::string> out;
  for (const auto& record : records_in(place, options)) {
    std::string words;
    for (const auto& part : record.parts) words += (words.empty() ? "" : "|") + part.text;
    if (record.label) words += " #" + *record.label;
    if (record.user) words += " @" + *record.user;
    out.push_back(words + " :" + std::to_string(record.line));
  }
  return out;
}

// What reading it throws, of whatever kind, without the folder's name; empty if it is read.
inline std::string refusal_of(const std::filesystem::path& place, const RecordOptions& options = {}) {
  try {
    records_in(place, options);
  } catch (const std::exception& fault) {
    std::string message = fault.what();
    const auto folder = (std::filesystem::is_directory(place) ? place : place.parent_path()).string() + "/";
    for (auto at = message.find(folder); at != message.npos; at = message.find(folder))
      message.erase(at, folder.size());
    return message;
  }
  return "";
}

}  // namespace shade::data
