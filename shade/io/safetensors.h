// A safetensors file, open for reading.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

#include "shade/io/input_file.h"
#include "shade/io/safetensors_header.h"

namespace shade::io {

// Opening reads and checks the header and touches no data. Immutable, so safe to use from several threads.
class SafetensorsFile {
 public:
  // Throws FormatError naming the file and the broken rule; Error if it can't be opened.
  explicit SafetensorsFile(const std::filesystem::path& path);
  explicit SafetensorsFile(std::shared_ptr<const MappedFile> file);  // the same for a file that is open

  const std::filesystem::path& path() const { return map_->path(); }  // as it was opened
  const SafetensorsHeader& header() const { return header_; }         // every tensor's type, shape and place

  bool contains(std::string_view name) const { return header_.tensors.contains(name); }  // whether it has such a tensor

  // These throw UsageError for a name that isn't there.
  const TensorInfo& info(std::string_view name) const;
  // The tensor's bytes in the mapped file.
  std::span<const std::byte> bytes(std::string_view name) const;

  // A read-only view of the mapped file, which it keeps open: clone it before writing to it. Its pages are read when
  // they are used, so a narrow() of it reads that part. Data that isn't aligned for its dtype is copied. A BOOL tensor
  // is read at once: a byte of it that is neither 0 nor 1 is no bool in C++, and a FormatError.
  at::Tensor tensor(std::string_view name) const;

  // A new tensor, in this type. Copied in pieces of 16 MiB whose pages are dropped at once, so that reading a file
  // needs the memory of its tensors and not also that of the file.
  at::Tensor read(std::string_view name, at::ScalarType type) const;

 private:
  std::shared_ptr<const MappedFile> map_;
  SafetensorsHeader header_;
};

}  // namespace shade::io
