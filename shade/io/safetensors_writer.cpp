#include "shade/io/safetensors_writer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "shade/base/units.h"
#include "shade/io/dtype.h"
#include "shade/io/errors.h"
#include "shade/io/strict_json.h"

namespace shade::io {
namespace {

constexpr Bytes kBuffer = MiB(64);
constexpr size_t kLengthPrefix = 8;
constexpr size_t kAlignment = 8;  // the largest of any dtype

std::string json_string(const std::string& words) {
  SHADE_REQUIRE(!first_not_utf8(words), "the name or metadata ", quote(words),
                " is not UTF-8, as safetensors wants it");
  return nlohmann::json(words).dump();
}

std::string json_entry(const std::string& name, const TensorInfo& info) {
  std::vector<std::string> dims;
  for (const auto dim : info.shape) dims.push_back(text(dim));
  return text(json_string(name), R"(:{"dtype":")", to_string(info.dtype), R"(","shape":[)", join(dims, ","),
              R"(],"data_offsets":[)", info.begin, ",", info.end, "]}");
}

std::string json_metadata(const Metadata& metadata) {
  std::vector<std::string> entries;
  for (const auto& [key, value] : metadata) entries.push_back(json_string(key) + ":" + json_string(value));
  return text('"', kMetadataKey, R"(":{)", join(entries, ","), "}");
}

// The length and the header, ready to be written.
std::string framed(std::string json) {
  json.resize((json.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  SHADE_REQUIRE(json.size() <= kMaxSafetensorsHeader, "the header would have ", json.size(),
                " bytes; readers take at most ", kMaxSafetensorsHeader, ": write several files");
  std::string frame;
  for (size_t i = 0; i < kLengthPrefix; ++i) frame += static_cast<char>(json.size() >> (8 * i));
  return frame + json;
}

}  // namespace

TensorSpec spec_of(const std::string& name, const at::Tensor& tensor) {
  SHADE_REQUIRE(tensor.defined(), "tensor ", quote(name), " is undefined");
  SHADE_REQUIRE(tensor.layout() == at::kStrided, "tensor ", quote(name), " is ", text(tensor.layout()),
                "; only dense tensors are written, call to_dense() first");
  return {name, dtype_of(tensor.scalar_type(), name), tensor.sizes().vec()};
}

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, const std::vector<TensorSpec>& tensors,
                                     const Metadata& metadata)
    : file_(path) {
  std::vector<const TensorSpec*> order;
  for (const auto& spec : tensors) order.push_back(&spec);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return a->dtype != b->dtype ? a->dtype > b->dtype : a->name < b->name;
  });
  std::vector<std::string> entries;
  if (!metadata.empty()) entries.push_back(json_metadata(metadata));
  uint64_t reached = 0;
  for (const auto* spec : order) {
    SHADE_REQUIRE(spec->name != kMetadataKey, "a tensor can't be named ", kMetadataKey,
                  ": safetensors keeps that name");
    TensorInfo info{spec->dtype, spec->shape, reached, reached + tensor_size(spec->name, spec->dtype, spec->shape)};
    reached = info.end;
    entries.push_back(json_entry(spec->name, info));
    SHADE_REQUIRE(missing_.insert(spec->name).second, "tensor ", quote(spec->name), " is declared twice for ", path);
    layout_.emplace(spec->name, std::move(info));
  }
  const auto frame = framed("{" + join(entries, ",") + "}");
  file_.write_at(0, std::as_bytes(std::span(frame)));
  data_begin_ = frame.size();
}

void SafetensorsWriter::put(std::string_view name, const at::Tensor& tensor) {
  const auto found = layout_.find(name);
  SHADE_REQUIRE(found != layout_.end(), "tensor ", quote(name), " was not declared for ", path());
  const auto& info = found->second;
  const auto given = spec_of(found->first, tensor);
  SHADE_REQUIRE(given.dtype == info.dtype && given.shape == info.shape, "tensor ", quote(name), " was declared as ",
                to_string(info.dtype), " ", print_shape(info.shape), ", but is ", to_string(given.dtype), " ",
                print_shape(given.shape));
  SHADE_REQUIRE(!tensor.is_meta(), "tensor ", quote(name), " is on the meta device and has no data to write");
  SHADE_REQUIRE(missing_.contains(name), "tensor ", quote(name), " is put twice into ", path());

  auto offset = data_begin_ + info.begin;
  if (tensor.is_cpu() && tensor.is_contiguous() && !tensor.is_neg()) {
    file_.write_at(offset, bytes_of(tensor));
  } else if (info.size() > 0) {
    const auto rows = tensor.dim() == 0 ? tensor.detach().unsqueeze(0) : tensor.detach();
    const auto row_bytes = static_cast<int64_t>(info.size()) / rows.size(0);
    const auto step = std::max<int64_t>(1, kBuffer.count / row_bytes);
    for (int64_t row = 0; row < rows.size(0); row += step) {
      const auto piece = rows.narrow(0, row, std::min(step, rows.size(0) - row)).resolve_neg().cpu().contiguous();
      file_.write_at(offset, bytes_of(piece));
      offset += piece.nbytes();
    }
  }
  missing_.erase(missing_.find(name));
}

void SafetensorsWriter::check_complete() const {
  SHADE_REQUIRE(missing_.empty(), "tensor ", quote(*missing_.begin()), " was declared for ", path(), " and never put; ",
                missing_.size(), " of ", layout_.size(), " are missing");
}

void SafetensorsWriter::commit() {
  check_complete();
  file_.commit();
}

void write_safetensors(const std::filesystem::path& path, const TensorMap& tensors, const Metadata& metadata) {
  std::vector<TensorSpec> specs;
  for (const auto& [name, tensor] : tensors) specs.push_back(spec_of(name, tensor));
  SafetensorsWriter writer(path, specs, metadata);
  for (const auto& [name, tensor] : tensors) writer.put(name, tensor);
  writer.commit();
}

}  // namespace shade::io
