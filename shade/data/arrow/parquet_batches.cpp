#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/file_reader.h>
#include <parquet/properties.h>

#include "shade/base/error.h"
#include "shade/data/arrow/batches.h"

namespace shade::data {
namespace {

constexpr int64_t kBatchBytes = int64_t{8} << 20;
constexpr int64_t kMaxBatchRows = 4096;

void add_leaves(const parquet::arrow::SchemaField& field, std::vector<int>& leaves) {
  if (field.is_leaf()) leaves.push_back(field.column_index);
  for (const auto& child : field.children) add_leaves(child, leaves);
}

// Row group by row group, each in slices of about kBatchBytes. Pages are read through a buffer and unpacked one at a
// time, so that memory depends neither on the file's size nor on that of its row groups.
class ParquetBatches final : public Batches {
 public:
  ParquetBatches(const ArrowFile& file, const Wanted& wanted) : size_(require(file->GetSize())) {
    parquet::ReaderProperties properties(capped_memory());
    properties.enable_buffered_stream();
    properties.set_buffer_size(int64_t{1} << 20);
    properties.set_page_checksum_verification(true);
    parquet::ArrowReaderProperties to_arrow(/*use_threads=*/false);
    to_arrow.set_pre_buffer(false);
    parquet::arrow::FileReaderBuilder builder;
    require(builder.Open(file, properties));
    reader_ = require(builder.memory_pool(capped_memory())->properties(to_arrow)->Build());
    rows_ = reader_->parquet_reader()->metadata()->num_rows();
    for (const auto& field : reader_->manifest().schema_fields) {
      names_.push_back(field.field->name());
      if (is_wanted(wanted, names_.back())) add_leaves(field, columns_);
    }
  }

  const std::vector<std::string>& names() const override { return names_; }

  std::shared_ptr<arrow::RecordBatch> next() override {
    while (true) {
      std::shared_ptr<arrow::RecordBatch> batch;
      if (group_reader_) require(group_reader_->ReadNext(&batch));
      if (batch) {
        rows_read_ += batch->num_rows();
        return batch;
      }
      group_reader_.reset();
      if (group_ == reader_->num_row_groups()) return nullptr;
      const auto metadata = reader_->parquet_reader()->metadata()->RowGroup(group_);
      const auto row = std::max<int64_t>(metadata->total_byte_size(), 1) / std::max<int64_t>(metadata->num_rows(), 1);
      reader_->set_batch_size(std::clamp<int64_t>(kBatchBytes / std::max<int64_t>(row, 1), 1, kMaxBatchRows));
      group_reader_ = require(reader_->GetRecordBatchReader({group_}, columns_));
      ++group_;
    }
  }

  std::string part() const override { return text("row group ", group_); }

  uint64_t position() const override {
    const auto share = static_cast<double>(rows_read_) / static_cast<double>(std::max<int64_t>(rows_, 1));
    return static_cast<uint64_t>(std::min(share, 1.0) * static_cast<double>(size_));
  }

 private:
  int64_t size_;
  std::unique_ptr<parquet::arrow::FileReader> reader_;
  std::unique_ptr<arrow::RecordBatchReader> group_reader_;
  std::vector<std::string> names_;
  std::vector<int> columns_;  // leaves of the wanted fields
  int group_ = 0;             // the next one
  int64_t rows_ = 0, rows_read_ = 0;
};

}  // namespace

std::unique_ptr<Batches> open_parquet(const ArrowFile& file, const Wanted& wanted) {
  return std::make_unique<ParquetBatches>(file, wanted);
}

}  // namespace shade::data
