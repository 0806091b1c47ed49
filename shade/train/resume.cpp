#include "shade/train/resume.h"

#include <algorithm>

#include "shade/base/error.h"
#include "shade/base/log.h"
#include "shade/base/strings.h"
#include "shade/checkpoint/agreement.h"
#include "shade/checkpoint/newest.h"
#include "shade/checkpoint/reader.h"
#include "shade/io/errors.h"

namespace shade::train {
namespace {

namespace fs = std::filesystem;

Saved saved_in(const fs::path& folder, const Json& caller, bool is_private) {
  Saved out;
  try {
    out = Saved::from_json(caller);
  } catch (const UsageError& fault) {
    throw UsageError(text(folder.string(), ": ", fault.what()));
  }
  SHADE_REQUIRE(out.is_private == is_private, "the run that saved ", folder.string(), " was ",
                is_private ? "not private; what it has seen can't be protected any more"
                           : "private; going on without noise would undo that",
                ". Choose another directory (--output)");
  return out;
}

// The checkpoint at that place, or of that name in this run.
fs::path find(const checkpoint::Store& store, const std::string& from) {
  const bool bare = fs::path(from).filename() == from;  // a name of this run, whatever the current folder has
  for (const auto& place : bare ? std::vector{store.folder() / from, fs::path(from)} : std::vector{fs::path(from)})
    if (std::error_code absent; fs::exists(place / checkpoint::kManifestFile, absent)) return fs::canonical(place);
  return {};
}

// How checkpoints that came from this one remember it: by name in its own run, which may be moved, else by place.
std::string name_of(const checkpoint::Store& store, const std::string& from) {
  const auto found = find(store, from);
  const auto place = found.empty() ? fs::weakly_canonical(from) : found;
  const bool own = place.parent_path() == fs::canonical(store.folder());
  return own || fs::path(from).filename() == from ? place.filename().string() : place.string();
}

// The checkpoint that --resume-from named, before all steps since; none: it is not known.
std::optional<std::string> began_of(const fs::path& folder) {
  Json caller;
  try {
    caller = checkpoint::read_manifest(folder).caller;
  } catch (const io::FormatError&) {
    return std::nullopt;
  }
  try {
    return Saved::from_json(caller).began;
  } catch (const UsageError&) {  // another program's; it is refused when it is to be loaded
    return std::nullopt;
  }
}

// Of the newest checkpoint; one whose manifest is damaged says nothing.
std::optional<std::string> newest_branch(const checkpoint::Store& store) {
  const auto all = store.list();
  for (auto folder = all.rbegin(); folder != all.rend(); ++folder)
    if (const auto began = began_of(*folder)) return began;
  return std::nullopt;
}

// Going back leaves newer checkpoints behind. They go before the one we go back to, which the new branch needs until it
// has others.
void abandon_newer(checkpoint::Store& store, const fs::path& root) {
  const auto all = store.list();
  const auto at = std::find_if(all.begin(), all.end(), [&](const auto& own) { return fs::equivalent(own, root); });
  for (auto newer = at == all.end() ? all.begin() : at + 1; newer != all.end(); ++newer) store.remove_first(*newer);
}

// Rank 0's: {"began": ..., "folder": ...}; no folder: go on from the newest.
Json look(checkpoint::Store& store, const ResumeOptions& options) {
  const auto began = name_of(store, options.from);
  if (newest_branch(store) == began) return {{"began", began}, {"folder", ""}};
  const auto found = find(store, options.from);
  std::vector<std::string> names;
  for (const auto& folder : store.list()) names.push_back(folder.filename().string());
  SHADE_REQUIRE(!found.empty(), "no checkpoint at ", options.from, " (--resume-from); ",
                names.empty() ? text("there is none in ", store.folder().string(), " either")
                              : text("this run has ", join(names, ", ")));
  SHADE_REQUIRE(!options.is_private || found.parent_path() == fs::canonical(store.folder()), found.string(),
                " (--resume-from) is another run's, and so is the ledger that has what it spent; copy that run's "
                "directory and go on in the copy (--output)");
  abandon_newer(store, found);
  return {{"began", began}, {"folder", found.string()}};
}

// Of the branch that the newest is on, and the checkpoint where it began: what was abandoned is not gone back to.
std::optional<Resumed> newest(checkpoint::Store& store, const comm::Group& control, shard::Runtime& runtime,
                              optim::Optimizer& optimizer, bool is_private) {
  const auto branch = control.rank() == 0 ? newest_branch(store).value_or("") : "";  // asked on rank 0 alone
  const auto found =
      checkpoint::load_newest(store, control, runtime, optimizer, [&](const fs::path& folder, const Json& caller) {
        return Saved::from_json(caller).began == branch || folder.filename() == branch;
      });
  if (!found) return std::nullopt;
  if (control.rank() == 0 && !found->faults.empty())
    log::warning(join(found->faults, "; "), "; continued from ", found->folder.filename().string(),
                 ", the newest whole checkpoint");
  return Resumed{found->folder, saved_in(found->folder, found->manifest.caller, is_private)};
}

}  // namespace

std::optional<Resumed> resume(checkpoint::Store& store, const comm::Group& control, shard::Runtime& runtime,
                              optim::Optimizer& optimizer, const ResumeOptions& options) {
  if (options.from.empty()) return newest(store, control, runtime, optimizer, options.is_private);
  const auto said = Json::parse(
      checkpoint::from_rank0(control, "looking for a checkpoint", [&] { return look(store, options).dump(); }));
  const fs::path folder = said.at("folder").get<std::string>();
  if (folder.empty()) return newest(store, control, runtime, optimizer, options.is_private);
  const auto manifest = store.load({folder, {}}, runtime, optimizer);
  Resumed out{folder, saved_in(folder, manifest.caller, options.is_private)};
  out.saved.began = said.at("began");
  return out;
}

}  // namespace shade::train
