// A checkpoint on the disk, open for reading by weight name and element range, whatever world wrote it.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "shade/checkpoint/manifest.h"
#include "shade/io/safetensors.h"

namespace shade::checkpoint {

Manifest read_manifest(const std::filesystem::path& folder);  // of a checkpoint; throws Error

// Opening proves the manifest, the sizes and headers of all files, and that their pieces cover every weight and state
// exactly once; data is proven by check(). One thread at a time.
class Reader {
 public:
  // `expected` is what LATEST says the manifest is. Throws io::FormatError naming the file and what is wrong with it.
  explicit Reader(const std::filesystem::path& folder, const std::optional<hash::Digest>& expected = {});

  const std::filesystem::path& path() const { return path_; }
  const Manifest& manifest() const { return manifest_; }
  const hash::Digest& digest() const { return digest_; }  // of the manifest, and so of all that it speaks of
  io::Dtype dtype(const std::string& part, const std::string& weight) const;

  // Elements [begin, begin + size) of a weight, or of a state kept for it.
  struct Range {
    std::string part, weight;
    int64_t begin = 0, size = 0;
  };
  void check(const Range& range);                       // the bytes are those that were saved; throws io::FormatError
  void read(const Range& range, at::Tensor out) const;  // into a flat tensor of that size and of the saved type

 private:
  struct Piece {
    int64_t begin = 0, size = 0;
    size_t file = 0;
    std::string name;
    hash::Digest digest{};
  };
  struct Tensor {
    int64_t elements = 0;
    io::Dtype dtype = io::Dtype::f32;
    std::vector<Piece> pieces{};  // in order
  };
  using Key = std::pair<std::string, std::string>;  // part, weight

  void open_file(const std::string& file, const SavedFile& wanted);
  void order(const Key& key, Tensor& tensor) const;
  const Tensor& tensor(const std::string& part, const std::string& weight) const;
  template <class Act>
  void for_pieces(const Range& range, Act&& act) const;

  std::filesystem::path path_;
  hash::Digest digest_{};
  Manifest manifest_;
  std::vector<io::SafetensorsFile> files_;
  std::map<Key, Tensor> tensors_;
  std::set<std::pair<size_t, std::string>> checked_;
};

}  // namespace shade::checkpoint
