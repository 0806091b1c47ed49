// Writing a safetensors file without ever holding it in memory.
//
// The layout is declared first; tensors are then put one by one, in any order, each straight to its place. So a model
// whose parts are gathered, computed or fetched one at a time is written one at a time.
//
//   SafetensorsWriter writer(file, {{"weight", Dtype::bf16, {4096, 4096}}, ...});
//   for (...) writer.put(name, tensor);
//   writer.commit();
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "shade/base/files.h"
#include "shade/io/safetensors_header.h"

namespace shade::io {

// A tensor that a file will have.
struct TensorSpec {
  std::string name;            // in the file
  Dtype dtype = Dtype::f32;    // of its elements there
  std::vector<int64_t> shape;  // sizes of its dims
};

// What a tensor is, for declaring it.
TensorSpec spec_of(const std::string& name, const at::Tensor& tensor);

// Tensors by name.
using TensorMap = std::map<std::string, at::Tensor, std::less<>>;

// The file appears, whole, at commit(); without it nothing is left behind. Tensors lie in the order of the reference
// implementation, by dtype (largest alignment first) and name, from a data begin that is a multiple of 8, so each is
// aligned for its dtype. One thread at a time.
class SafetensorsWriter {
 public:
  // Throws UsageError for a name given twice, reserved or not UTF-8.
  SafetensorsWriter(const std::filesystem::path& path, const std::vector<TensorSpec>& tensors,
                    const Metadata& metadata = {});

  // The tensor must be as declared and is put once. It may lie on any device and have any strides: other than dense CPU
  // tensors pass through a buffer of about 64 MiB, or of one row of the first dim if that is larger.
  void put(std::string_view name, const at::Tensor& tensor);

  // Throws UsageError naming a tensor that was declared and not put.
  void check_complete() const;
  void commit();  // checks that too

  const std::filesystem::path& path() const { return file_.path(); }  // where the file will be

 private:
  std::map<std::string, TensorInfo, std::less<>> layout_;
  std::set<std::string, std::less<>> missing_;
  NewFile file_;
  uint64_t data_begin_ = 0;
};

// A whole file of tensors that are all in memory.
void write_safetensors(const std::filesystem::path& path, const TensorMap& tensors, const Metadata& metadata = {});

}  // namespace shade::io
