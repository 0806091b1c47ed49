// What the tests of data share: a folder of text files, and its records.
#pragma once

#include "../io/scratch.h"
#include "shade/data/config.h"

namespace shade::data {

using io::message_of;

class Folder : public io::Scratch {
 public:
  // Also into folders below.
  std::filesystem::path put(const std::string& name, std::string_view content) const {
    std::filesystem::create_directories((path() / name).parent_path());
    return write(name, content);
  }

  std::vector<Record> records(TextUnit unit = TextUnit::file) const { return records({.unit = unit}); }

  std::vector<Record> records(RecordOptions options) const {
    std::vector<Record> out;
    Records reader(std::move(options));
    for (const auto& file : find_text_files(path()))
      reader.read(file, [&](Record&& record, uint64_t) {
        out.push_back(std::move(record));
        return true;
      });
    return out;
  }

  std::vector<std::string> texts(TextUnit unit = TextUnit::file) const {
    std::vector<std::string> out;
    for (const auto& record : records(unit)) out.push_back(record.text());
    return out;
  }

  DataConfig config() const {
    DataConfig config;
    config.data_folder = path().string();
    return config;
  }
};

inline std::vector<int64_t> row(const at::Tensor& tensor, int64_t index) {
  const auto one = tensor.select(0, index).contiguous();
  return {one.data_ptr<int64_t>(), one.data_ptr<int64_t>() + one.numel()};
}

}  // namespace shade::data
