// A folder of checkpoints: which there are, which is the latest, which may go.
//
//   run/checkpoints/
//     LATEST                     "00007_step_120 <digest of its manifest>"
//     00006_step_100/            a checkpoint: manifest.json and a file of each rank
//     00007_step_120/
//     .tmp-00008_step_140/       being written, or left over
//     .lock                      of the run that writes here
//
// The first number counts saves. Steps would not do for an order: after going back to an earlier checkpoint the newest
// one has a smaller step than others, and must neither be hidden nor deleted first.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "shade/hash/digest.h"

namespace shade::checkpoint {

struct Entry {
  int64_t save = 0, step = 0;
  std::string name() const;       // 00007_step_120
  std::string temporary() const;  // .tmp-00007_step_120
  auto operator<=>(const Entry&) const = default;
};

struct Latest {
  Entry entry;
  hash::Digest manifest{};
};

// One process at a time changes a folder; nothing here is collective.
class Folder {
 public:
  explicit Folder(std::filesystem::path path) : path_(std::move(path)) {}

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path place(const Entry& entry) const { return path_ / entry.name(); }

  std::vector<Entry> list() const;  // complete ones, oldest first
  Entry next(int64_t step) const;   // a name that was never used

  // Nothing if there is no LATEST. Throws io::FormatError if LATEST is damaged or names what isn't there.
  std::optional<Latest> latest() const;

  // The temporary folder becomes the entry, and then the latest: each in one step of the file system, flushed before
  // the next.
  void commit(const Entry& entry, const hash::Digest& manifest) const;

  void remove_leftovers() const;
  // Never removes the latest. Those in `first` go before any other.
  void keep_last(int64_t count, const std::vector<Entry>& first = {}) const;

 private:
  void remove(const Entry& entry) const;
  std::filesystem::path path_;
};

void flush_folder(const std::filesystem::path& folder);

}  // namespace shade::checkpoint
