// libshade_arrow.so: the rows of .parquet and .arrow files.
#include <set>

#include "shade/base/error.h"
#include "shade/data/arrow/arrow_library.h"
#include "shade/data/arrow/batches.h"
#include "shade/data/arrow/cells.h"
#include "shade/io/errors.h"
#include "shade/io/strict_json.h"

namespace shade::data {

arrow::MemoryPool* capped_memory() {
  static arrow::CappedMemoryPool pool(arrow::system_memory_pool(), kMemory);  // the program's heap
  return &pool;
}

void refuse(const arrow::Status& status) {
  if (status.IsOutOfMemory())
    throw io::FormatError(text("reading it takes more than ", kMemory >> 30,
                               " GiB of memory at once; write it with smaller row groups or record batches"));
  throw io::FormatError("Arrow cannot read it: " + printable(status.message(), 300));
}

std::string printable(std::string words, size_t most) {
  if (words.size() > most) words = words.substr(0, most) + "...";
  for (auto& c : words)
    if (c < 0x20 || c > 0x7E) c = '?';
  return words;
}

namespace {

class TableRows final : public RowReader {
 public:
  TableRows(const TextFile& file, const Wanted& wanted) : path_(file.path) {
    in_place([&] {
      const auto in = require(arrow::io::ReadableFile::Open(path_.string(), capped_memory()));
      auto batches = file.format == TextFormat::parquet ? open_parquet(in, wanted) : open_ipc(in, wanted);
      std::set<std::string> seen;
      for (const auto& name : batches->names()) {
        if (io::first_not_utf8(name))
          throw io::FormatError(text("the name of a column is not UTF-8: ", io::quote(name)));
        if (!seen.insert(name).second) throw io::FormatError(text("the column ", io::quote(name), " is there twice"));
        if (is_wanted(wanted, name)) wanted_.push_back(row_.cells.size());
        row_.cells.push_back({.name = name});
      }
      batches_ = std::move(batches);
    });
    row_.line = 0;
  }

  Row* next() override {
    bool found = false;
    in_place([&] { found = next_row(); });
    return found ? &row_ : nullptr;
  }

  uint64_t position() const override { return batches_->position(); }

 private:
  bool next_row() {
    while (!batch_ || index_ == batch_->num_rows()) {
      batch_ = batches_->next();
      if (!batch_) return false;
      index_ = 0;
      columns_.clear();
      for (const auto cell : wanted_) columns_.push_back(batch_->GetColumnByName(row_.cells[cell].name));
    }
    ++row_.line;
    for (size_t i = 0; i < wanted_.size(); ++i) read_cell(*columns_[i], index_, row_.cells[wanted_[i]]);
    ++index_;
    return true;
  }

  // Faults get the file's name and the place in it.
  template <class Work>
  void in_place(const Work& work) {
    try {
      work();
    } catch (const std::exception& fault) {  // of Parquet's own, too
      const auto part = batches_ ? text(batches_->part(), ", after row ", row_.line, ": ") : "";
      throw io::FormatError(text(path_.string(), ": ", part, printable(fault.what(), 500)));
    }
  }

  std::filesystem::path path_;
  std::unique_ptr<Batches> batches_;
  Row row_;
  std::vector<size_t> wanted_;  // cells
  std::shared_ptr<arrow::RecordBatch> batch_;
  std::vector<std::shared_ptr<arrow::Array>> columns_;  // of batch_, as wanted_
  int64_t index_ = 0;                                   // in batch_
};

std::unique_ptr<RowReader> open(const TextFile& file, const Wanted& wanted) {
  return std::make_unique<TableRows>(file, wanted);
}

}  // namespace
}  // namespace shade::data

extern "C" __attribute__((visibility("default"))) const shade::data::ArrowFunctions* shade_arrow_functions() {
  static constexpr shade::data::ArrowFunctions kFunctions{.open = shade::data::open};
  return &kFunctions;
}
