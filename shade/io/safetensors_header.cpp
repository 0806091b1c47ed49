#include "shade/io/safetensors_header.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "shade/io/errors.h"
#include "shade/io/strict_json.h"

namespace shade::io {
namespace {

constexpr size_t kLengthBytes = 8;

std::string print_offsets(const TensorInfo& info) { return text("[", info.begin, ", ", info.end, "]"); }

// What is known of the tensor whose object is being read.
struct Draft {
  std::optional<Dtype> dtype;
  std::optional<std::vector<int64_t>> shape;
  std::optional<std::vector<uint64_t>> offsets;
};

// Follows the one structure a header may have; anything else stops at its first value.
class HeaderReader final : public JsonVisitor {
 public:
  explicit HeaderReader(SafetensorsHeader& header) : header_(header) {}

  void key(std::string_view name) override {
    switch (place_) {
      case Place::top: name_ = name; break;
      case Place::metadata: field_ = name; break;
      default:
        if (name != "dtype" && name != "shape" && name != "data_offsets")
          fail("unknown field ", quote(name), "; a tensor has dtype, shape and data_offsets");
        field_ = name;
    }
  }

  void value(const JsonValue& value) override {
    switch (place_) {
      case Place::outside: place_ = Place::top; break;  // an object: the first character has been seen
      case Place::top: return open_entry(value);
      case Place::tensor: return read_field(value);
      case Place::metadata:
        if (value.kind != JsonKind::string)
          throw FormatError(text(kMetadataKey, ": ", quote(field_), " must be a string, found ", value.describe()));
        header_.metadata.emplace(field_, value.string);
        break;
      case Place::shape: return read_dim(value);
      case Place::offsets: return read_offset(value);
    }
  }

  void close() override {
    switch (place_) {
      case Place::tensor: close_tensor(); [[fallthrough]];
      case Place::metadata: place_ = Place::top; break;
      case Place::offsets:
        if (draft_.offsets->size() != 2) fail("data_offsets must have 2 numbers, found ", draft_.offsets->size());
        [[fallthrough]];
      case Place::shape: place_ = Place::tensor; break;
      default: place_ = Place::outside;
    }
  }

 private:
  enum class Place { outside, top, tensor, metadata, shape, offsets };

  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    throw FormatError(text("tensor ", quote(name_), ": ", parts...));
  }

  void open_entry(const JsonValue& value) {
    if (name_ == kMetadataKey) {
      if (value.kind != JsonKind::object)
        throw FormatError(text(kMetadataKey, " must be an object of strings, found ", value.describe()));
      place_ = Place::metadata;
    } else {
      if (value.kind != JsonKind::object) fail("must be an object, found ", value.describe());
      draft_ = {};
      place_ = Place::tensor;
    }
  }

  void read_field(const JsonValue& value) {
    if (field_ == "dtype") {
      if (value.kind != JsonKind::string) fail("dtype must be a string, found ", value.describe());
      for (const auto& [name, dtype] : names_of(Dtype{}))
        if (name == value.string) draft_.dtype = dtype;
      if (!draft_.dtype) fail("dtype ", quote(value.string), " is not one of ", join(all_names<Dtype>(), ", "));
    } else {
      if (value.kind != JsonKind::array) fail(field_, " must be an array, found ", value.describe());
      if (field_ == "shape") {
        draft_.shape.emplace();
        place_ = Place::shape;
      } else {
        draft_.offsets.emplace();
        place_ = Place::offsets;
      }
    }
  }

  void read_dim(const JsonValue& value) {
    constexpr auto kMax = std::numeric_limits<int64_t>::max();
    if (value.kind != JsonKind::integer || value.integer > static_cast<uint64_t>(kMax))
      fail("shape[", draft_.shape->size(), "] must be a whole number from 0 to ", kMax, ", found ", value.describe());
    draft_.shape->push_back(static_cast<int64_t>(value.integer));
  }

  void read_offset(const JsonValue& value) {
    if (value.kind != JsonKind::integer)
      fail("data_offsets[", draft_.offsets->size(), "] must be a whole number from 0, found ", value.describe());
    if (draft_.offsets->size() == 2) fail("data_offsets must have 2 numbers, found more");
    draft_.offsets->push_back(value.integer);
  }

  void close_tensor() {
    if (!draft_.dtype) fail("has no dtype");
    if (!draft_.shape) fail("has no shape");
    if (!draft_.offsets) fail("has no data_offsets");
    header_.tensors.emplace(
        name_, TensorInfo{*draft_.dtype, std::move(*draft_.shape), draft_.offsets->front(), draft_.offsets->back()});
  }

  SafetensorsHeader& header_;
  Place place_ = Place::outside;
  std::string name_;   // of the entry at the top
  std::string field_;  // within it
  Draft draft_;
};

// The tensors, one after the other, are the data.
void check_layout(const SafetensorsHeader& header, uint64_t data_size) {
  using Entry = std::pair<const std::string, TensorInfo>;
  std::vector<const Entry*> entries;
  for (const auto& entry : header.tensors) entries.push_back(&entry);
  std::sort(entries.begin(), entries.end(), [](const Entry* a, const Entry* b) {
    return std::tie(a->second.begin, a->second.end, a->first) < std::tie(b->second.begin, b->second.end, b->first);
  });
  uint64_t reached = 0;
  const Entry* before = nullptr;
  for (const auto* entry : entries) {
    const auto& [name, info] = *entry;
    if (info.end < info.begin)
      throw FormatError(text("tensor ", quote(name), ": data_offsets ", print_offsets(info), " end before they begin"));
    const auto expected = tensor_size(name, info.dtype, info.shape);
    if (info.size() != expected)
      throw FormatError(text("tensor ", quote(name), ": shape ", print_shape(info.shape), " of ", to_string(info.dtype),
                             " takes ", expected, " bytes, but data_offsets ", print_offsets(info), " hold ",
                             info.size()));
    if (info.begin > reached)
      throw FormatError(text("tensor ", quote(name), ": begins at byte ", info.begin,
                             " of the data, but what is before ", "it ends at byte ", reached, ": a hole of ",
                             info.begin - reached, " bytes"));
    if (info.begin < reached)
      throw FormatError(text("tensor ", quote(name), ": data_offsets ", print_offsets(info), " overlap those of ",
                             quote(before->first), ", ", print_offsets(before->second)));
    reached = info.end;
    before = entry;
  }
  if (reached > data_size)
    throw FormatError(
        text("the tensors take ", reached, " bytes of data, but the file has ", data_size, ": it is cut short"));
  if (reached < data_size)
    throw FormatError(text("the tensors take ", reached, " bytes of data, but the file has ", data_size, ": the last ",
                           data_size - reached, " belong to no tensor"));
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file) {
  if (file.size() < kLengthBytes)
    throw FormatError(text("the file has ", file.size(), " bytes, fewer than the ", kLengthBytes,
                           " that say how long the header is"));
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) length |= std::to_integer<uint64_t>(file[i]) << (8 * i);
  if (length > kMaxSafetensorsHeader)
    throw FormatError(
        text("the header is said to have ", length, " bytes; at most ", kMaxSafetensorsHeader, " are allowed"));
  if (length > file.size() - kLengthBytes)
    throw FormatError(
        text("the header is said to have ", length, " bytes, but ", file.size() - kLengthBytes, " follow in the file"));
  const auto bytes = file.subspan(kLengthBytes, length);
  const std::string_view json(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!json.starts_with('{'))
    throw FormatError(
        text("the header must begin with '{', found ", json.empty() ? "nothing" : quote(json.substr(0, 1))));

  SafetensorsHeader header;
  header.data_begin = kLengthBytes + length;
  HeaderReader reader(header);
  read_strict_json(json, "header", reader);
  check_layout(header, file.size() - header.data_begin);
  return header;
}

uint64_t tensor_size(std::string_view name, Dtype dtype, std::span<const int64_t> shape) {
  // A dim of 0 doesn't excuse the others: strides are products that skip it.
  int64_t extent = size_of(dtype);
  bool empty = false;
  for (const auto dim : shape) {
    empty = empty || dim == 0;
    if (__builtin_mul_overflow(extent, std::max<int64_t>(dim, 1), &extent))
      throw FormatError(
          text("tensor ", quote(name), ": shape ", print_shape(shape), " of ", to_string(dtype), " overflows 64 bits"));
  }
  return empty ? 0 : static_cast<uint64_t>(extent);
}

std::string print_shape(std::span<const int64_t> shape) {
  constexpr size_t kShown = 8;
  std::vector<std::string> dims;
  for (const auto dim : shape.first(std::min(shape.size(), kShown))) dims.push_back(text(dim));
  if (shape.size() > kShown) dims.emplace_back("...");
  return "[" + join(dims, ", ") + "]";
}

}  // namespace shade::io
