#include "shade/checkpoint/reader.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "shade/base/error.h"
#include "shade/checkpoint/owned.h"
#include "shade/io/dtype.h"
#include "shade/io/errors.h"
#include "shade/io/input_file.h"
#include "shade/io/strict_json.h"

namespace shade::checkpoint {
namespace {

constexpr const char* kRemedy = "; the checkpoint is damaged";

std::string_view text_in(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Manifest parse(const std::filesystem::path& file, std::string_view words) {
  try {
    return parse_manifest(words);
  } catch (const io::FormatError& fault) {
    throw io::FormatError(text(file, ": ", fault.what(), kRemedy));
  }
}

int64_t elements_of(const SavedWeight& weight) {
  int64_t count = 1;
  for (const auto dim : weight.shape) count *= dim;
  return count;
}

}  // namespace

Manifest read_manifest(const std::filesystem::path& folder) {
  const auto map = io::MappedFile::open(folder / kManifestFile);
  return parse(map->path(), text_in(map->bytes()));
}

Reader::Reader(const std::filesystem::path& folder, const std::optional<hash::Digest>& expected) : path_(folder) {
  const auto map = io::MappedFile::open(folder / kManifestFile);
  digest_ = hash::digest_of(map->bytes());
  if (expected && digest_ != *expected)
    throw io::FormatError(text(map->path(), " is not the manifest that LATEST names", kRemedy));
  manifest_ = parse(map->path(), text_in(map->bytes()));
  for (const auto& weight : manifest_.weights) {
    tensors_[{kWeightPart, weight.name}].elements = elements_of(weight);
    if (weight.trainable)
      for (const auto& state : manifest_.states) tensors_[{state, weight.name}].elements = elements_of(weight);
  }
  for (size_t i = 0; i < manifest_.files.size(); ++i) open_file(file_name(i), manifest_.files[i]);
  for (size_t i = 0; i < manifest_.frozen.size(); ++i) open_file(frozen_name(i), manifest_.frozen[i]);
  for (auto& [key, tensor] : tensors_) order(key, tensor);
}

void Reader::open_file(const std::string& file, const SavedFile& wanted) {
  const auto path = path_ / file;
  const auto map = io::MappedFile::open(path);
  const auto require = [&](bool kept, const auto&... what) {
    if (!kept) throw io::FormatError(text(path, what..., kRemedy));
  };
  require(map->bytes().size() == wanted.bytes, " has ", map->bytes().size(), " bytes; ", wanted.bytes, " were saved");
  const auto index = files_.size();
  const auto& header = files_.emplace_back(path).header();
  require(hash::digest_of(map->bytes().first(header.data_begin)) == wanted.header,
          " has another header than was saved");
  for (const auto& [name, info] : header.tensors) {
    const auto piece = parse_piece_name(name);
    const auto place = tensors_.find({piece.part, piece.weight});
    require(place != tensors_.end(), " has the tensor ", io::quote(name), ", of which the manifest doesn't know");
    const auto said = header.metadata.find(name);
    const auto digest = said == header.metadata.end() ? std::nullopt : hash::digest_from_hex(said->second);
    require(digest.has_value(), " has no digest of ", io::quote(name));
    auto& tensor = place->second;
    require(info.shape.size() == 1 && info.shape[0] > 0, ": ", io::quote(name), " is not a flat, non-empty piece");
    require(tensor.pieces.empty() || tensor.dtype == info.dtype, ": ", io::quote(name), " is of another type than its",
            " neighbours");
    tensor.dtype = info.dtype;
    tensor.pieces.push_back({piece.begin, info.shape[0], index, name, *digest});
  }
}

// No hole, no overlap, nothing beyond the end.
void Reader::order(const Key& key, Tensor& tensor) const {
  std::sort(tensor.pieces.begin(), tensor.pieces.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
  int64_t reached = 0;
  size_t fitting = 0;
  for (const auto& piece : tensor.pieces) {
    if (piece.begin != reached || piece.size > tensor.elements - reached) break;
    reached += piece.size;
    ++fitting;
  }
  if (reached != tensor.elements || fitting != tensor.pieces.size())
    throw io::FormatError(text(path_, ": the pieces of ", key.first, " of ", io::quote(key.second), " cover ", reached,
                               " of ", tensor.elements, " elements without overlap or hole", kRemedy));
}

const Reader::Tensor& Reader::tensor(const std::string& part, const std::string& weight) const {
  const auto found = tensors_.find({part, weight});
  SHADE_REQUIRE(found != tensors_.end(), path_, " has no ", part, " of ", io::quote(weight));
  return found->second;
}

io::Dtype Reader::dtype(const std::string& part, const std::string& weight) const { return tensor(part, weight).dtype; }

template <class Act>
void Reader::for_pieces(const Range& range, Act&& act) const {
  const auto& found = tensor(range.part, range.weight);
  SHADE_CHECK(range.begin >= 0 && range.size >= 0 && range.size <= found.elements - range.begin, range.weight, " has ",
              found.elements, " elements");
  auto at = std::upper_bound(found.pieces.begin(), found.pieces.end(), range.begin,
                             [](int64_t element, const Piece& piece) { return element < piece.begin; });
  if (at != found.pieces.begin()) --at;
  for (; at != found.pieces.end() && at->begin < range.begin + range.size; ++at) act(*at);
}

void Reader::check(const Range& range) {
  for_pieces(range, [&](const Piece& piece) {
    if (!checked_.insert({piece.file, piece.name}).second) return;
    const auto& file = files_[piece.file];
    if (hash::digest_of(file.bytes(piece.name)) != piece.digest)
      throw io::FormatError(text(file.path(), ": ", io::quote(piece.name), " is not what was saved", kRemedy));
  });
}

void Reader::read(const Range& range, at::Tensor out) const {
  SHADE_CHECK(out.dim() == 1 && out.numel() == range.size, "elements are read into a flat tensor of their number");
  for_pieces(range, [&](const Piece& piece) {
    const auto begin = std::max(range.begin, piece.begin);
    const auto size = std::min(range.begin + range.size, piece.begin + piece.size) - begin;
    const auto saved = files_[piece.file].tensor(piece.name).narrow(0, begin - piece.begin, size);
    out.narrow(0, begin - range.begin, size).copy_(saved);
  });
}

}  // namespace shade::checkpoint
