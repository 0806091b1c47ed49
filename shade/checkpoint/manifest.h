// manifest.json: what a checkpoint consists of. Everything else in the folder is believed only as far as it says so.
//
//   {"format": "shade checkpoint", "version": 2,
//    "caller": {...},                                                     whatever the saver wants back
//    "steps": 120, "states": ["exp_avg", "exp_avg_sq"],                   of the optimizer
//    "replicate": 1, "shard": 4,                                          who wrote it; nothing depends on it
//    "weights": [{"name": "...", "shape": [...], "trainable": true}],
//    "files": [{"name": "rank_00000.safetensors", "bytes": 4096, "header": "<digest>"}],
//    "frozen": [{"name": "frozen_00000.safetensors", ...}],               as many, or none if all is trained
//    "checksum": "<digest of all before>"}
//
// A checkpoint is a tree of digests: LATEST names the manifest's, the manifest that of every file's header, a header
// that of every tensor in the file. So a rank proves what it reads without reading what it doesn't need.
//
// Files are untrusted: every rule below has its own FormatError. Size at most 16 MiB; UTF-8, strict JSON, nothing
// after it; the checksum; exactly these keys; names of files as file_name() and frozen_name() make them, so none is
// outside of the folder; numbers in their ranges; names once. This file knows no libtorch, so that it can be fuzzed
// alone.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shade/base/json.h"
#include "shade/hash/digest.h"

namespace shade::checkpoint {

inline constexpr const char* kManifestFile = "manifest.json";
inline constexpr size_t kMaxManifest = size_t{16} << 20;
inline constexpr size_t kMaxKeys = 256;  // of one object: Json looks keys up one after the other

struct SavedWeight {
  std::string name;
  std::vector<int64_t> shape;
  bool trainable = true;

  bool operator==(const SavedWeight&) const = default;
};

struct SavedFile {
  uint64_t bytes = 0;
  hash::Digest header{};  // of its bytes up to the data

  bool operator==(const SavedFile&) const = default;
};

struct Manifest {
  Json caller = Json::object();
  int64_t steps = 0;
  std::vector<std::string> states;  // kept for each element of a trainable weight
  int replicate = 1, shard = 1;
  std::vector<SavedWeight> weights;
  std::vector<SavedFile> files;   // of rank 0, 1, ...: what is trained, and its state
  std::vector<SavedFile> frozen;  // of the same ranks: what is not trained; none if there is nothing

  bool operator==(const Manifest&) const = default;
};

std::string file_name(size_t rank);    // rank_00003.safetensors
std::string frozen_name(size_t rank);  // frozen_00003.safetensors

std::string print_manifest(const Manifest& manifest);  // throws UsageError for what a reader would refuse
Manifest parse_manifest(std::string_view text);        // throws io::FormatError

}  // namespace shade::checkpoint
