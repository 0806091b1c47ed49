// The record batches of a file, one at a time. Part of libshade_arrow.so.
//
// All that Arrow allocates is counted: a file that needs more than kMemory at once, be it honest or a decompression
// bomb, is refused. Reading uses the calling thread alone.
#pragma once

#include <arrow/api.h>
#include <arrow/io/file.h>

#include "shade/data/row.h"
#include "shade/data/text_files.h"

namespace shade::data {

inline constexpr int64_t kMemory = int64_t{1} << 30;  // bytes
arrow::MemoryPool* capped_memory();

// For a message: Arrow's words, which may quote the file, without control characters and no longer than `most`.
std::string printable(std::string words, size_t most);

// Throws io::FormatError with Arrow's words, without the file's name.
[[noreturn]] void refuse(const arrow::Status& status);
inline void require(const arrow::Status& status) {
  if (!status.ok()) refuse(status);
}
template <class T>
T require(arrow::Result<T> result) {
  require(result.status());
  return std::move(result).ValueUnsafe();
}

class Batches {
 public:
  virtual ~Batches() = default;

  virtual const std::vector<std::string>& names() const = 0;  // of all columns, in their order
  // Has at least the wanted columns, by name. Null at the end.
  virtual std::shared_ptr<arrow::RecordBatch> next() = 0;
  virtual std::string part() const = 0;   // that next() read last: "row group 3"
  virtual uint64_t position() const = 0;  // bytes of the file, about
};

using ArrowFile = std::shared_ptr<arrow::io::ReadableFile>;
std::unique_ptr<Batches> open_parquet(const ArrowFile& file, const Wanted& wanted);
std::unique_ptr<Batches> open_ipc(const ArrowFile& file, const Wanted& wanted);  // both its file and its stream format

}  // namespace shade::data
