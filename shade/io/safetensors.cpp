#include "shade/io/safetensors.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "shade/base/units.h"
#include "shade/io/dtype.h"
#include "shade/io/errors.h"
#include "shade/io/strict_json.h"

namespace shade::io {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors data is little-endian and used in place");

constexpr Bytes kReadPiece = MiB(16);  // large enough for all threads, small beside any model

SafetensorsHeader read_header(const MappedFile& file) {
  try {
    return parse_safetensors_header(file.bytes());
  } catch (const FormatError& fault) {
    throw FormatError(text(file.path(), " is not a sound safetensors file: ", fault.what(),
                           "; it is damaged or something else, fetch or write it again"));
  }
}

void check_booleans(const std::filesystem::path& path, std::string_view name, std::span<const std::byte> data) {
  const auto odd = std::find_if(data.begin(), data.end(), [](std::byte byte) { return byte > std::byte{1}; });
  if (odd != data.end())
    throw FormatError(text(path, ": tensor ", quote(name), ": BOOL element ", odd - data.begin(), " is ",
                           std::to_integer<int>(*odd), "; only 0 and 1 are booleans"));
}

std::vector<std::string> names(const SafetensorsHeader& header) {
  std::vector<std::string> out;
  for (const auto& [name, info] : header.tensors) out.push_back(name);
  return out;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : SafetensorsFile(MappedFile::open(path)) {}

SafetensorsFile::SafetensorsFile(std::shared_ptr<const MappedFile> file)
    : map_(std::move(file)), header_(read_header(*map_)) {}

const TensorInfo& SafetensorsFile::info(std::string_view name) const {
  const auto found = header_.tensors.find(name);
  SHADE_REQUIRE(found != header_.tensors.end(), "there is no tensor ", quote(name), " in ", path(),
                suggestion(name, names(header_)));
  return found->second;
}

std::span<const std::byte> SafetensorsFile::bytes(std::string_view name) const {
  const auto& place = info(name);
  return map_->bytes().subspan(header_.data_begin + place.begin, place.size());
}

at::Tensor SafetensorsFile::tensor(std::string_view name) const {
  const auto& place = info(name);
  const auto data = bytes(name);
  if (place.dtype == Dtype::boolean) check_booleans(path(), name, data);
  const auto options = at::TensorOptions().dtype(scalar_type(place.dtype));
  const bool aligned = reinterpret_cast<uintptr_t>(data.data()) % static_cast<uintptr_t>(size_of(place.dtype)) == 0;
  if (data.empty() || !aligned) {
    auto copy = at::empty(place.shape, options);
    if (!data.empty()) std::memcpy(copy.mutable_data_ptr(), data.data(), data.size());
    return copy;
  }
  // from_blob knows no const; the pages themselves are read-only.
  return at::from_blob(const_cast<std::byte*>(data.data()), place.shape, [keep = map_](void*) {}, options);
}

at::Tensor SafetensorsFile::read(std::string_view name, at::ScalarType type) const {
  const auto from = tensor(name).view(-1);
  const auto data = bytes(name);
  const auto element = static_cast<int64_t>(from.element_size());
  auto out = at::empty(info(name).shape, at::TensorOptions().dtype(type));
  auto to = out.view(-1);
  const auto step = kReadPiece.count / element;
  for (int64_t begin = 0; begin < from.numel(); begin += step) {
    const auto count = std::min(step, from.numel() - begin);
    to.narrow(0, begin, count).copy_(from.narrow(0, begin, count));
    map_->drop(data.subspan(static_cast<size_t>(begin * element), static_cast<size_t>(count * element)));
  }
  return out;
}

}  // namespace shade::io
