// What a run leaves behind that must not depend on how often it was interrupted.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "shade/base/json.h"
#include "shade/checkpoint/folder.h"
#include "shade/checkpoint/ledger.h"
#include "shade/checkpoint/manifest.h"
#include "tests/io/scratch.h"

namespace shade::train {

// Everything that must be equal, by name.
inline std::map<std::string, std::string> remains(const std::filesystem::path& run) {
  const checkpoint::Folder folder(run / "checkpoints");
  const auto latest = folder.latest();
  std::map<std::string, std::string> out{{"ledger", io::content(run / "ledger")}};
  if (!latest) return out;
  out["step"] = std::to_string(latest->entry.step);
  for (const auto& file : std::filesystem::directory_iterator(folder.place(latest->entry)))
    if (file.path().extension() == ".safetensors") out[file.path().filename()] = io::content(file.path());
  return out;
}

inline int64_t spent(const std::filesystem::path& run) {
  int64_t steps = 0;
  for (const auto& entry : checkpoint::Ledger::read(run / "ledger")) steps += entry.steps;
  return steps;
}

// Of the latest checkpoint: 0 for the first, one more whenever steps could not be made again to the bit.
inline int64_t incarnation(const std::filesystem::path& run) {
  const checkpoint::Folder folder(run / "checkpoints");
  return read_json(folder.place(folder.latest().value().entry) / "manifest.json")["caller"]["origin"]["incarnation"];
}

inline std::vector<Json> read_metrics(const std::filesystem::path& run) {
  std::vector<Json> out;
  std::ifstream in(run / "metrics.jsonl");
  for (std::string line; std::getline(in, line);) out.push_back(Json::parse(line));
  return out;
}

// For a shell that becomes a rank by exec: sends `signal` to it as soon as a first checkpoint is committed. Holds no
// output open, and ends with the rank.
inline std::string when_saved(const std::filesystem::path& run, const std::string& signal) {
  return text("(while [ ! -e ", (run / "checkpoints/LATEST").string(), " ] && kill -0 $$; do sleep 0.05; done; kill -",
              signal, " $$) > /dev/null 2>&1 & ");
}

}  // namespace shade::train
