#include "shade/train/run/run_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>

#include "shade/base/error.h"
#include "shade/base/explain.h"
#include "shade/base/files.h"
#include "shade/base/log.h"
#include "shade/base/stop_signals.h"
#include "shade/base/strings.h"
#include "shade/base/visible_text.h"
#include "shade/checkpoint/folder.h"
#include "shade/checkpoint/manifest.h"

namespace shade::train {
namespace {

[[noreturn]] void fail(const std::filesystem::path& file, const std::string& what) {
  throw Error(text(file.string(), ": ", what));
}

// Of a line of metrics; beyond all steps if it was not written to its end.
int64_t step_of(const std::string& line) {
  const auto json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  const bool whole = json.is_object() && json.contains("step") && json["step"].is_number_integer();
  return whole ? json["step"].get<int64_t>() : std::numeric_limits<int64_t>::max();
}

// What takes the place of a file is read by no one who could not read that.
std::optional<mode_t> mode_at(const std::filesystem::path& file, Readers readers) {
  struct stat about{};
  if (readers == Readers::owner || ::stat(file.c_str(), &about) != 0) return file_mode(readers);
  return about.st_mode & 0777;
}

bool is_of_a_run(std::string_view name) {
  for (const auto* whole :
       {"checkpoints", "environment.json", "ledger", "key", ".key", "visualizations", "report.html", "traces"})
    if (name == whole) return true;
  for (const auto* begin : {"recipe.", "metrics.jsonl", "events.out.tfevents."})
    if (name.starts_with(begin)) return true;
  return false;
}

// Then it is someone's own folder, whose mode is not ours to change.
bool holds_other_things(const std::filesystem::path& folder) {
  std::error_code absent;
  for (const auto& entry : std::filesystem::directory_iterator(folder, absent))
    if (!is_of_a_run(entry.path().filename().string())) return true;
  return false;
}

}  // namespace

RunFolder::RunFolder(std::filesystem::path path, Readers readers) : path_(std::move(path)), readers_(readers) {
  const bool shared = readers == Readers::owner && holds_other_things(path_);
  try {
    make_folder(path_, shared ? Readers::by_umask : readers);
    if (readers == Readers::owner) make_folder(checkpoints(), readers);
  } catch (const Error& fault) {
    throw UsageError(text("the run directory can't be made: ", fault.what()));
  }
  SHADE_REQUIRE(readers != Readers::owner || !(open_to_others(checkpoints()) || belongs_to_other(checkpoints())),
                checkpoints().string(), " of a private run is ",
                open_to_others(checkpoints()) ? "open to others" : "another user's",
                ", who could read the checkpoints; chmod 700, or choose another directory (--output)");
  if (readers == Readers::owner && open_to_others(path_))
    log::warning("others can look into the run directory ", path_.string(),
                 ": they see names and sizes of files, not what is in them; chmod 700 closes it");
}

RunFolder::~RunFolder() {
  if (metrics_ >= 0) ::close(metrics_);
}

std::optional<privacy::NoiseKey> RunFolder::find_key() const {
  const auto file = key_file();
  const int descriptor =
      uninterrupted([&] { return ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK); });
  if (descriptor < 0 && errno == ENOENT) return std::nullopt;
  if (descriptor < 0 && errno == ELOOP)
    fail(file, "a symbolic link; expected the key itself, which is deleted at the end");
  if (descriptor < 0) fail(file, reason_of(errno));
  forbid_memory_dumps();
  privacy::NoiseKey key;
  struct stat about{};
  const bool whole = ::fstat(descriptor, &about) == 0 && S_ISREG(about.st_mode) &&
                     about.st_size == static_cast<off_t>(key.size()) &&
                     ::read(descriptor, key.data(), key.size()) == static_cast<ssize_t>(key.size());
  ::close(descriptor);
  if (!whole) fail(file, text("not a key of ", key.size(), " bytes; without it no step can be repeated"));
  if ((about.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    fail(file, "readable by others, who could subtract the noise; chmod 600, unless another user has read it");
  if (key == privacy::NoiseKey{}) fail(file, "all zeros, which is no secret; delete it, and a new key is made");
  return key;
}

// Readable by no one else at any moment, and whole or not there.
privacy::NoiseKey RunFolder::make_key() const {
  const auto key = privacy::secret_key();
  const auto fresh = path_ / ".key";
  ::unlink(fresh.c_str());
  const int descriptor = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
  const bool kept = descriptor >= 0 &&
                    ::write(descriptor, key.data(), key.size()) == static_cast<ssize_t>(key.size()) &&
                    ::fsync(descriptor) == 0 && ::rename(fresh.c_str(), key_file().c_str()) == 0;
  const int why = errno;
  if (descriptor >= 0) ::close(descriptor);
  if (!kept) fail(key_file(), reason_of(why));
  return key;
}

// Its name goes first: whatever happens then, no half-wiped file is taken for a key.
bool RunFolder::destroy_key() const {
  const auto file = key_file();
  const int descriptor = ::open(file.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
  if (descriptor < 0 && errno == ENOENT) return false;
  const bool named = descriptor < 0 || ::unlink(file.c_str()) != 0;
  const privacy::NoiseKey zeros{};
  const bool gone = !named && ::write(descriptor, zeros.data(), zeros.size()) == static_cast<ssize_t>(zeros.size()) &&
                    ::fsync(descriptor) == 0;
  const int why = errno;
  if (descriptor >= 0) ::close(descriptor);
  if (!gone) fail(file, text("the key of the finished run can't be deleted: ", reason_of(why), "; delete it"));
  checkpoint::flush_folder(path_);
  return true;
}

void RunFolder::write_recipe(const std::string& toml) const {
  const auto place = path_ / kRecipeFile;
  if (std::filesystem::is_directory(place)) fail(place, "a folder; expected the recipe of this run. Move it away");
  if (std::ifstream in(place, std::ios::binary); in) {
    if (std::string(std::istreambuf_iterator<char>(in), {}) == toml) return;
    int number = 1;
    while (std::filesystem::exists(path_ / text("recipe.", number, ".toml"))) ++number;
    std::filesystem::rename(place, path_ / text("recipe.", number, ".toml"));
  }
  replace(place, toml);
}

void RunFolder::write_environment(const Json& environment) const {
  replace(path_ / kEnvironmentFile, environment.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

void RunFolder::replace(const std::filesystem::path& file, const std::string& content) const {
  NewFile whole(file, mode_at(file, readers_));
  whole.write_at(0, std::as_bytes(std::span(content)));
  whole.commit();
}

void RunFolder::keep_metrics_until(int64_t step) const {
  const auto file = path_ / "metrics.jsonl";
  std::error_code absent;
  if (const auto status = std::filesystem::status(file, absent);
      std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    fail(file, "it is no regular file; remove it");
  std::ifstream in(file, std::ios::binary);
  std::string kept;
  bool all = true;
  for (std::string line; std::getline(in, line);) {
    if (!in.eof() && step_of(line) <= step)
      kept += line + "\n";
    else
      all = false;
  }
  if (all) return;
  NewFile fresh(file, mode_at(file, readers_));
  fresh.write_at(0, std::as_bytes(std::span(kept)));
  fresh.commit();
}

bool RunFolder::was_evaluated(int64_t step) const {
  std::ifstream in(path_ / "metrics.jsonl", std::ios::binary);
  for (std::string line; std::getline(in, line);)
    if (step_of(line) == step && line.find("\"eval_loss\"") != std::string::npos) return true;
  return false;
}

void RunFolder::append_metrics(const Json& line) {
  const auto file = path_ / "metrics.jsonl";
  if (metrics_ < 0) make_file(file, readers_);
  const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (readers_ == Readers::owner ? O_NOFOLLOW : 0);
  if (metrics_ < 0) metrics_ = uninterrupted([&] { return ::open(file.c_str(), flags, 0666); });
  if (metrics_ < 0) fail(file, reason_of(errno));
  const auto words = line.dump() + "\n";
  for (std::string_view left = words; !left.empty();) {
    const auto written = uninterrupted([&] { return ::write(metrics_, left.data(), left.size()); });
    if (written < 0) fail(file, reason_of(errno));
    left.remove_prefix(static_cast<size_t>(written));
  }
}

namespace fs = std::filesystem;

namespace {

Recipe read_resolved(const fs::path& file) {
  Recipe recipe;
  Config config;
  recipe.declare(config);
  config.read_toml(file);
  return recipe;
}

}  // namespace

std::optional<RunPlace> find_run(const fs::path& place) {
  const auto above = place.parent_path().parent_path();
  if (fs::exists(place / checkpoint::kManifestFile) && fs::exists(above / kRecipeFile))
    return RunPlace{above.empty() ? "." : above, place};
  if (!fs::exists(place / kRecipeFile)) return std::nullopt;
  const checkpoint::Folder saved(place / "checkpoints");
  const auto latest = saved.latest();
  SHADE_REQUIRE(latest, "the run ", place.string(), " has no checkpoint yet (LATEST in ", saved.path().string(),
                "); a run saves one at its end, every --save-every steps, or on Ctrl-C");
  return RunPlace{place, saved.place(latest->entry)};
}

std::vector<std::string> runs_in(const fs::path& folder) {
  constexpr size_t kMostRuns = 10;
  std::vector<std::string> out;
  std::error_code fault;
  for (fs::directory_iterator entry(folder, fault), end; !fault && entry != end; entry.increment(fault))
    if (std::error_code unreadable; fs::exists(entry->path() / kRecipeFile, unreadable))
      out.push_back(visible(entry->path().string()));
  std::sort(out.begin(), out.end());
  if (out.size() > kMostRuns) out.resize(kMostRuns);
  return out;
}

Recipe recipe_of(const RunPlace& place) { return read_resolved(place.run / kRecipeFile); }

EarlierRecipes earlier_recipes(const fs::path& run) {
  constexpr std::string_view kBegin = "recipe.", kEnd = ".toml";
  std::map<int64_t, fs::path> files;
  for (const auto& entry : fs::directory_iterator(run)) {
    const auto name = entry.path().filename().string();
    if (!name.starts_with(kBegin) || !name.ends_with(kEnd) || name.size() <= kBegin.size() + kEnd.size()) continue;
    const auto number = name.substr(kBegin.size(), name.size() - kBegin.size() - kEnd.size());
    if (const auto value = parse_integer(number)) files[*value] = entry.path();
  }
  // They are numbered from 1 on: what is missing in between is not known.
  EarlierRecipes out{.recipes = {}, .complete = files.empty() || files.rbegin()->first == std::ssize(files)};
  for (const auto& [number, file] : files) {
    try {
      out.recipes.push_back(read_resolved(file));
    } catch (const std::exception&) {
      out.complete = false;
    }
  }
  return out;
}

void require_split_by_rate(const fs::path& run) {
  if (!fs::exists(run / kLedgerFile) || !fs::exists(run / kRecipeFile)) return;
  auto starts = earlier_recipes(run).recipes;
  starts.push_back(read_resolved(run / kRecipeFile));
  for (const auto& start : starts)
    SHADE_REQUIRE(!start.dp.is_private() || start.train.eval_records == 0, "the private run in ", run.string(),
                  " was begun with --eval-records ", start.train.eval_records,
                  ", so the share that it holds out follows from the number of records; such a run is not continued. "
                  "Start a new one in another directory (--output) with --eval-rate, e.g. 0.05; shade release, eval "
                  "and report open this one as before");
}

}  // namespace shade::train
