// Figures of a run as TensorBoard reads them: an event file in a folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "shade/base/files.h"

namespace shade::profile {

// events.out.tfevents.<seconds>.<host>.<process>.<number> in the folder, which is made if it isn't there. TensorBoard
// may read it at any time: it takes the records that are whole. Several files of one folder are one run to it.
// For one thread.
class EventFile {
 public:
  explicit EventFile(const std::filesystem::path& folder, Readers readers = Readers::by_umask);
  ~EventFile();  // flushes, without complaint
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  // Kept as fp32, as all TensorBoard's scalars are. A tag's part before the first / is its group on the page.
  void scalar(std::string_view tag, double value, int64_t step);
  void text(std::string_view tag, std::string_view markdown, int64_t step = 0);

  // What earlier files of the folder say of this step and of later ones is no longer shown: they are repeated.
  void begin_at(int64_t step);

  // What was written so far is with the system after this. Throws Error naming the file, e.g. when the disk is full.
  void flush();

  const std::filesystem::path& path() const { return path_; }

 private:
  void write(std::string_view event);

  std::filesystem::path path_;
  std::ofstream file_;
};

}  // namespace shade::profile
