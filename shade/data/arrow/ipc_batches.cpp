#include <arrow/ipc/api.h>

#include <numeric>

#include "shade/base/error.h"
#include "shade/data/arrow/batches.h"
#include "shade/io/errors.h"

namespace shade::data {
namespace {

arrow::ipc::IpcReadOptions options_for(const arrow::Schema* schema, const Wanted& wanted) {
  auto options = arrow::ipc::IpcReadOptions::Defaults();
  options.memory_pool = capped_memory();
  options.use_threads = false;
  if (schema != nullptr)
    for (int i = 0; i < schema->num_fields(); ++i)
      if (is_wanted(wanted, schema->field(i)->name())) options.included_fields.push_back(i);
  return options;
}

// Offsets and indices in such a file are its own word: they are looked at before anything follows them.
std::shared_ptr<arrow::RecordBatch> checked(std::shared_ptr<arrow::RecordBatch> batch) {
  if (batch) require(batch->ValidateFull());
  return batch;
}

class IpcBatches : public Batches {
 public:
  IpcBatches(const ArrowFile& file) : file_(file), size_(static_cast<uint64_t>(require(file->GetSize()))) {}

  const std::vector<std::string>& names() const override { return names_; }
  std::string part() const override { return text("record batch ", read_); }

 protected:
  ArrowFile file_;
  uint64_t size_;
  std::vector<std::string> names_;
  int read_ = 0;  // batches
};

class IpcFile final : public IpcBatches {
 public:
  IpcFile(const ArrowFile& file, const Wanted& wanted) : IpcBatches(file) {
    using Reader = arrow::ipc::RecordBatchFileReader;
    const auto schema = require(Reader::Open(file_, options_for(nullptr, wanted)))->schema();
    names_ = schema->field_names();
    reader_ = require(Reader::Open(file_, options_for(schema.get(), wanted)));
  }

  std::shared_ptr<arrow::RecordBatch> next() override {
    if (read_ == reader_->num_record_batches()) return nullptr;
    ++read_;
    return checked(require(reader_->ReadRecordBatch(read_ - 1)));
  }

  uint64_t position() const override {
    const auto batches = static_cast<uint64_t>(std::max(reader_->num_record_batches(), 1));
    return size_ / batches * static_cast<uint64_t>(read_);
  }

 private:
  std::shared_ptr<arrow::ipc::RecordBatchFileReader> reader_;
};

// As `datasets` keeps its tables.
class IpcStream final : public IpcBatches {
 public:
  IpcStream(const ArrowFile& file, const Wanted& wanted) : IpcBatches(file) {
    using Reader = arrow::ipc::RecordBatchStreamReader;
    require(file_->Seek(0));
    const auto schema = require(Reader::Open(file_, options_for(nullptr, wanted)))->schema();
    names_ = schema->field_names();
    require(file_->Seek(0));
    reader_ = require(Reader::Open(file_, options_for(schema.get(), wanted)));
  }

  std::shared_ptr<arrow::RecordBatch> next() override {
    std::shared_ptr<arrow::RecordBatch> batch;
    ++read_;
    require(reader_->ReadNext(&batch));
    return checked(std::move(batch));
  }

  uint64_t position() const override { return static_cast<uint64_t>(file_->Tell().ValueOr(0)); }

 private:
  std::shared_ptr<arrow::ipc::RecordBatchStreamReader> reader_;
};

}  // namespace

std::unique_ptr<Batches> open_ipc(const ArrowFile& file, const Wanted& wanted) {
  char magic[6] = {};
  const auto read = require(file->ReadAt(0, sizeof(magic), magic));
  const std::string_view begin(magic, static_cast<size_t>(read));
  if (begin.starts_with("FEA1"))
    throw io::FormatError("it is of Feather's first version; write it again, e.g. with pyarrow.feather.write_feather");
  if (begin == "ARROW1") return std::make_unique<IpcFile>(file, wanted);
  if (!begin.starts_with("\xFF\xFF\xFF\xFF"))
    throw io::FormatError("Arrow cannot read it: it begins neither as a file nor as a stream of Arrow does");
  return std::make_unique<IpcStream>(file, wanted);
}

}  // namespace shade::data
