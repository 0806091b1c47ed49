#include "shade/train/run/checkpoints.h"

#include <algorithm>

#include "shade/base/error.h"
#include "shade/base/log.h"
#include "shade/base/span.h"
#include "shade/base/strings.h"
#include "shade/checkpoint/agreement.h"
#include "shade/checkpoint/reader.h"
#include "shade/checkpoint/store.h"
#include "shade/io/errors.h"
#include "shade/train/spec/changes.h"

namespace shade::train {

Checkpoints::Checkpoints(comm::World& world, const RunFolder& folder, Job& job, History* history, RunIdentity identity,
                         Options options)
    : job_(&job),
      history_(history),
      identity_(std::move(identity)),
      options_(std::move(options)),
      store_(world.control("checkpoint"), {.folder = folder.checkpoints(), .keep = options_.keep}) {}

std::optional<Saved> Checkpoints::resume() {
  std::optional<Resumed> found;
  try {
    found = train::resume(store_, job_->groups().control, job_->runtime(), job_->optimizer(),
                          {.from = options_.resume_from, .is_private = history_ != nullptr});
  } catch (const UsageError& fault) {
    throw UsageError(explain_refusal(fault.what()));
  }
  if (!found) return std::nullopt;
  saved_ = job_->steps();
  began_ = found->saved.began;
  compare(found->saved);
  return found->saved;
}

// Weights that don't fit are the consequence; the settings that another --model in an old --output changed are the
// cause.
std::string Checkpoints::explain_refusal(const std::string& refusal) const {
  const auto all = store_.list();
  if (all.empty() || !options_.resume_from.empty()) return refusal;
  std::vector<std::string> causes;
  try {
    const auto before = Saved::from_json(checkpoint::read_manifest(all.back()).caller).settings;
    for (auto& change : train::changes(before, identity_.settings))
      if (change.starts_with("model.") || change.starts_with("optim.optimizer ") || change.starts_with("optim.ema "))
        causes.push_back(std::move(change));
  } catch (const Error&) {  // a damaged manifest says nothing
    return refusal;
  }
  if (causes.empty()) return refusal;
  return text("the run in ", store_.folder().parent_path().string(),
              " was made with other settings: ", join(causes, ", "),
              "; choose another --output for a new run, or give what that run had (its recipe.toml). ", refusal);
}

// With what was saved, by name where that is known.
void Checkpoints::compare(const Saved& saved) {
  const auto same = [&](const std::string& now, const std::optional<std::string>& before) {
    if (history_ != nullptr) return history_->is_sealed(now, before ? Json(*before) : Json()).value_or(true);
    return before == now;
  };
  changed_ = !same(identity_.digest, saved.identity);
  changes_ = train::changes(saved.settings, identity_.settings);
  if (saved.data && !same(identity_.data, saved.data))
    changes_.push_back(history_ != nullptr ? "data" : data_change(*saved.data, identity_.data));
}

void Checkpoints::save(bool wait) {
  const auto step = job_->steps();
  if (saved_ == step || step == 0 || !options_.saves) return wait ? store_.wait() : void();
  const Span span(SpanName::save);
  Saved words{.identity = identity_.digest,
              .data = identity_.data,
              .micro_batch = job_->micro_batch(),
              .settings = identity_.settings,
              .began = began_,
              .is_private = history_ != nullptr,
              .origin = {},
              .model_config = options_.model_config};
  if (history_ != nullptr) {  // others may read a checkpoint, and both follow from the records
    words.identity = history_->sealed(identity_.digest);
    words.data = history_->sealed(identity_.data);
    words.origin = history_->origin(step);
    words.clip_norm = job_->method().clipper()->clip_norm();
    words.noise_variance = job_->optimizer().noise_variance();
  }
  store_.save_async(job_->runtime(), job_->optimizer(), words.json());
  start_clock();
  saved_ = step;
  if (wait) store_.wait();
}

bool Checkpoints::is_due() const {
  return options_.saves && job_->groups().control.rank() == 0 && options_.save_every == 0 &&
         options_.save_interval.count() > 0 && Clock::now() - saved_at_ >= options_.save_interval;
}

namespace {

Json or_null(const std::optional<std::string>& words) { return words ? Json(*words) : Json(); }

std::optional<std::string> words_in(const Json& json) {
  return json.is_string() ? std::optional(json.get<std::string>()) : std::nullopt;
}

}  // namespace

Json Saved::json() const {
  Json out{{"identity", or_null(identity)},
           {"data", or_null(data)},
           {"micro_batch", micro_batch},
           {"settings", settings},
           {"began", began}};
  if (!model_config.is_null()) out["model_config"] = model_config;
  if (is_private) {
    out["origin"] = origin ? origin->json() : Json();
    out["clip_norm"] = clip_norm;
    if (noise_variance) out["noise_variance"] = *noise_variance;
  }
  return out;
}

Saved Saved::from_json(const Json& json) {
  const auto require = [&](const char* key, bool kind) {
    SHADE_REQUIRE(json.is_object() && json.contains(key) && kind, "the checkpoint has no valid '", key,
                  "', which shade train writes; it was saved by another program or another version");
  };
  const auto number = [&](const char* key) { return json.is_object() && json.contains(key) && json[key].is_number(); };
  require("identity", true);
  require("micro_batch", number("micro_batch") && json["micro_batch"].is_number_integer() && json["micro_batch"] > 0);
  require("settings", json.contains("settings") && json["settings"].is_object());
  Saved out{.identity = words_in(json["identity"]),
            .data = {},
            .micro_batch = json["micro_batch"],
            .settings = json["settings"],
            .began = {},
            .is_private = json.contains("origin"),
            .origin = {},
            .model_config = json.value("model_config", Json())};
  if (json.contains("data")) out.data = words_in(json["data"]);
  if (json.contains("began")) out.began = words_in(json["began"]).value_or("");
  if (!out.is_private) return out;
  if (!json["origin"].is_null()) out.origin = checkpoint::Origin::from_json(json["origin"]);
  require("clip_norm", number("clip_norm"));
  out.clip_norm = json["clip_norm"];
  if (json.contains("noise_variance")) {
    require("noise_variance", number("noise_variance") && json["noise_variance"] >= 0);
    out.noise_variance = json["noise_variance"];
  }
  return out;
}

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
