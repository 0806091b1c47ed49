#include "shade/checkpoint/newest.h"

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/checkpoint/agreement.h"
#include "shade/checkpoint/reader.h"
#include "shade/io/errors.h"
#include "shade/io/mapped_file.h"

namespace shade::checkpoint {
namespace {

// Damaged ones belong too: who would know?
bool is_wanted(const std::filesystem::path& folder, const Belongs& belongs) {
  if (!belongs) return true;
  try {
    return belongs(folder, read_manifest(folder).caller);
  } catch (const io::FormatError&) {
    return true;
  }
}

// {"places": [name, ...], "others": [name, ...], "faults": [...]}, the first place to be tried first.
Json order_of(Store& store, const Belongs& belongs) {
  Json out{{"places", Json::array()}, {"others", Json::array()}, {"faults", Json::array()}};
  const auto all = store.list();
  std::filesystem::path latest;
  try {
    if (const auto found = store.latest()) {
      const auto manifest = io::MappedFile::open(found->folder / kManifestFile);
      if (!is_wanted(found->folder, belongs)) {
        out["faults"].push_back(text("LATEST names ", found->folder.filename(), ", which is of another branch"));
      } else if (io::digest_of(manifest->bytes()) == *found->manifest) {
        latest = found->folder;
        out["places"].push_back(latest.filename().string());
      } else {  // one of the two is damaged: LATEST has no say, and checkpoints are believed by their own digests
        out["faults"].push_back(text("LATEST has another digest than the manifest of ", found->folder.filename()));
      }
    } else if (!all.empty()) {
      out["faults"].push_back("LATEST is missing");
    }
  } catch (const io::FormatError& fault) {
    out["faults"].push_back(fault.what());
  }
  for (auto at = all.rbegin(); at != all.rend(); ++at) {
    if (*at == latest) continue;
    const bool wanted = is_wanted(*at, belongs);
    out[wanted ? "places" : "others"].push_back(at->filename().string());
    if (!wanted) store.remove_first(*at);
  }
  return out;
}

}  // namespace

std::optional<Newest> load_newest(Store& store, const comm::Group& group, shard::Runtime& runtime,
                                  optim::Optimizer& optimizer, const Belongs& belongs) {
  const auto order =
      Json::parse(from_rank0(group, "looking for a checkpoint", [&] { return order_of(store, belongs).dump(); }));
  Newest out{.folder = {}, .manifest = {}, .faults = order.at("faults")};
  for (const auto& place : order.at("places")) {
    out.folder = store.folder() / place.get<std::string>();
    try {
      out.manifest = store.load({out.folder, {}}, runtime, optimizer);
      return out;
    } catch (const io::FormatError& fault) {  // all else says nothing of the checkpoint, which may be whole
      store.remove_first(out.folder);
      out.faults.push_back(text(place.get<std::string>(), " is not whole: ", fault.what()));
    }
  }
  if (out.faults.empty()) return std::nullopt;
  const std::vector<std::string> others = order.at("others");
  throw Error(text(
      "no checkpoint in ", store.folder(), " is whole: ", join(out.faults, "; "), "; restore one of them from a copy, ",
      others.empty() ? "or delete this folder to start again"
                     : text("or continue from another branch of this run (--resume-from ", others[0], ")")));
}

}  // namespace shade::checkpoint
