#include "shade/train/release/release.h"

#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <iterator>

#include "shade/base/error.h"
#include "shade/base/explain.h"
#include "shade/base/files.h"
#include "shade/base/utc.h"
#include "shade/checkpoint/folder.h"
#include "shade/checkpoint/saved_weights.h"
#include "shade/data/config.h"
#include "shade/hash/digest.h"
#include "shade/train/feed/records.h"
#include "shade/train/run/checkpoints.h"
#include "shade/train/run/exports.h"
#include "shade/train/run/run_folder.h"

namespace shade::train {
namespace {

namespace fs = std::filesystem;

// A folder that appears whole or not at all: written under a temporary name beside its own, and renamed.
class NewFolder {
 public:
  explicit NewFolder(const fs::path& path) {
    SHADE_REQUIRE(!path.empty(), "the name of the folder is empty; expected a new or empty folder");
    path_ = fs::absolute(path).lexically_normal();
    if (!path_.has_filename()) path_ = path_.parent_path();  // a slash at its end
    SHADE_REQUIRE(!fs::is_symlink(path_), path_.string(), " is a symbolic link; name the folder itself, or a new one");
    SHADE_REQUIRE(!fs::exists(path_) || fs::is_directory(path_), path_.string(),
                  " exists and is not a folder; choose another name");
    SHADE_REQUIRE(!fs::exists(path_) || fs::is_empty(path_), path_.string(),
                  " is not empty, and a release must contain only its own files; choose another folder");
    fs::create_directories(path_.parent_path());
    temporary_ = path_.parent_path() / text(".", path_.filename().string(), ".", ::getpid(), ".tmp");
    if (!fs::create_directory(temporary_)) throw Error(text(temporary_.string(), " already exists; remove it"));
  }
  ~NewFolder() {
    std::error_code ignored;
    if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  const fs::path& inside() const { return temporary_; }
  void commit() {
    checkpoint::flush_folder(temporary_);
    std::error_code fault;
    fs::rename(temporary_, path_, fault);  // in the place of an empty one; refused by the system if it was filled since
    if (fault)
      throw Error(text("cannot release to ", path_.string(), ": ", reason_of(fault.value()),
                       "; another program wrote there meanwhile. Choose another folder"));
    temporary_.clear();
    checkpoint::flush_folder(path_.parent_path());
  }

 private:
  fs::path path_, temporary_;
};

void write_text(const fs::path& file, const std::string& content) {
  NewFile whole(file);
  whole.write_at(0, std::as_bytes(std::span(content)));
  whole.commit();
}

// Where transformers and tokenizers note the place a file was loaded from.
bool names_a_place(std::string_view key) {
  return key.ends_with("name_or_path") || key.ends_with("_file") || key == "_commit_hash";
}

// Without notes of places, on whatever level they are.
Json without_places(Json json) {
  if (json.is_object())
    for (auto entry = json.begin(); entry != json.end();)
      entry = names_a_place(entry.key()) ? json.erase(entry) : std::next(entry);
  if (json.is_structured())
    for (auto& part : json) part = without_places(std::move(part));
  return json;
}

void write_files(const fs::path& folder, const std::map<std::string, std::string>& files) {
  for (const auto& [name, content] : files) {
    const bool settings = name.ends_with("_config.json");  // a vocabulary stays as it is, byte by byte
    write_text(folder / name, settings ? without_places(parse_json(content)).dump(2) + "\n" : content);
  }
}

// PEFT looks for the base by this; a folder of this machine is nothing to others.
Json adapter_config(const Recipe& recipe, bool classifier) {
  auto out = recipe.model.adapter_json(classifier);
  const auto hub = recipe.model.hub_name();
  out["base_model_name_or_path"] = hub.empty() ? Json() : Json(hub);
  return out;
}

ReleasedPart part_of(const Recipe& recipe, const ReleaseOptions& options) {
  const bool adapters = recipe.model.lora_rank > 0;
  const bool wanted = options.part == ReleasedPart::adapter || options.part == ReleasedPart::both;
  SHADE_REQUIRE(adapters || !wanted, "--part ", to_string(options.part),
                ": the run has no LoRA adapters; drop it, or choose --part model");
  if (options.part != ReleasedPart::automatic) return options.part;
  const bool model = !recipe.train.export_folder.empty(), adapter = !recipe.train.adapter_folder.empty();
  return adapter ? (model ? ReleasedPart::both : ReleasedPart::adapter) : ReleasedPart::model;
}

// Why what the ledger has spent is not all that made this checkpoint.
std::string unknown_origin(const RunPlace& place) {
  const auto saved = Saved::from_json(checkpoint::SavedWeights(place.checkpoint).manifest().caller);
  if (!saved.origin) return "the checkpoint does not say which private steps made it";
  if (checkpoint::Ledger::knows(place.run / kLedgerFile, *saved.origin)) return {};
  return "the ledger does not know the steps that made the checkpoint: it is another run's, or it lost what was spent";
}

void add_facts(PrivacyStatement& out, const RunPlace& place, const Recipe& recipe) {
  const auto file = place.run / kEnvironmentFile;
  const auto environment = fs::exists(file) ? read_json(file) : Json();
  std::vector<SampledSteps> steps;
  for (const auto& kind : out.steps) steps.push_back({kind.mechanism, kind.divisor});
  out.trained_with = program_in(environment);
  out.released_on = utc_text(std::time(nullptr)).substr(0, 10);
  auto starts = earlier_recipes(place.run).recipes;
  starts.push_back(recipe);
  out.facts = facts_of(starts, steps, environment);
  out.facts.checkpoint_step = checkpoint::SavedWeights(place.checkpoint).manifest().steps;
}

// The checkpoint is looked at first: a ledger that is read later has its steps, since they are written ahead.
PrivacyStatement stated(const RunPlace& place, const Recipe& recipe, const ReleaseOptions& options) {
  auto out = state_privacy(recipe, place.run);
  if (out.no_guarantee.empty()) out.no_guarantee = unknown_origin(place);
  if (!out.no_guarantee.empty()) out.spent.reset();
  out.released_with = options.program;
  SHADE_REQUIRE(out.no_guarantee.empty() || options.without_privacy, "no epsilon can be stated for ",
                place.run.string(), ": ", out.no_guarantee,
                ". Nothing was written; --without-privacy releases it with a statement that there is no guarantee");
  SHADE_REQUIRE(!out.no_guarantee.empty() || !options.without_privacy,
                "--without-privacy is for runs without an epsilon, and this one has ", rounded_up(out.spent->epsilon),
                "; drop it");
  add_facts(out, place, recipe);
  return out;
}

struct Written {
  ReleasedModel model{};
  std::vector<std::string> taken{};  // files of the tokenizer's and the model's folder that went into the release
};

Written write_weights(const RunPlace& place, const Recipe& recipe, ReleasedPart part, const fs::path& folder) {
  if (recipe.model.is_own()) {
    const auto saved = Saved::from_json(checkpoint::SavedWeights(place.checkpoint).manifest().caller);
    checkpoint::export_checkpoint(place.checkpoint, folder, without_places(saved.model_config).dump(),
                                  export_options(recipe));
    return {};
  }
  const auto model = models::make_model(recipe.model.model, recipe.sizes, recipe.model.options());
  const auto traits = model->text_traits();
  std::shared_ptr<const data::Tokenizer> tokenizer;
  std::optional<TrainedTexts> texts;
  if (traits && !recipe.data.data_folder.empty()) {
    tokenizer = data::open_tokenizer(recipe.data.tokenizer);
    texts.emplace(TrainedTexts{
        .tokenizer = *tokenizer, .classifier = traits->classifier, .classes = classes_of(recipe, *traits)});
  }
  const auto said = text_export(recipe, *model, texts);
  using Kind = ReleasedModel::Kind;
  Written out{.model = {.kind = !traits              ? Kind::other
                                : traits->classifier ? Kind::classifier
                                                     : Kind::language_model,
                        .adapter = part == ReleasedPart::adapter}};
  for (const auto& file : said.taken)
    if (part != ReleasedPart::adapter || !said.generation.contains(file.filename().string()))
      out.taken.push_back(file.string());
  if (part != ReleasedPart::adapter) {
    checkpoint::export_checkpoint(place.checkpoint, folder, without_places(said.config).dump(), export_options(recipe));
    write_files(folder, said.tokenizer);
    write_files(folder, said.generation);
  }
  if (part == ReleasedPart::model) return out;
  const auto own = part == ReleasedPart::both ? folder / "adapter" : folder;
  checkpoint::export_checkpoint_adapter(place.checkpoint, own,
                                        adapter_config(recipe, traits && traits->classifier).dump());
  write_files(own, said.tokenizer);
  return out;
}

std::vector<std::string> files_in(const fs::path& folder) {
  std::vector<std::string> out;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (!entry.is_directory()) out.push_back(entry.path().lexically_relative(folder).string());
  std::sort(out.begin(), out.end());
  return out;
}

FileDigest digest_in(const fs::path& folder, const std::string& name) {
  return {name, hash::sha256_of(*io::MappedFile::open(folder / name))};
}

// PRIVACY.md has the digests of all other files, and privacy.json that of PRIVACY.md too.
void write_statement(const fs::path& folder, PrivacyStatement& statement, const ReleasedModel& model) {
  write_text(folder / kModelCard, model_card(statement, model));
  for (const auto& name : files_in(folder)) statement.files.push_back(digest_in(folder, name));
  write_text(folder / kStatementText, markdown(statement));
  statement.files.push_back(digest_in(folder, kStatementText));
  std::sort(statement.files.begin(), statement.files.end(),
            [](const FileDigest& a, const FileDigest& b) { return a.name < b.name; });
  write_text(folder / kStatementJson, to_json(statement).dump(2) + "\n");
}

// Folders of this machine that the run knows; none that a text could name by chance.
std::vector<std::string> local_places(const RunPlace& place, const Recipe& recipe) {
  std::vector<std::string> out;
  const auto& [model, data, train] = std::tie(recipe.model, recipe.data, recipe.train);
  for (const auto& name :
       {place.run.string(), model.model, model.weights, data.data_folder, data.tokenizer, data.cache_folder,
        train.test_folder, train.output, train.export_folder, train.adapter_folder}) {
    if (name.empty() || !fs::exists(name)) continue;
    const auto whole = (fs::absolute(name) / "").parent_path().lexically_normal();
    if (std::distance(whole.begin(), whole.end()) > 2) out.push_back(whole.string());  // more than /data
  }
  return out;
}

// The last look at what is about to leave.
void require_no_places(const fs::path& folder, const std::vector<std::string>& files,
                       const std::vector<std::string>& places) {
  for (const auto& name : files) {
    if (name.ends_with(".safetensors")) continue;  // tensors, and a header that is made here
    std::ifstream in(folder / name, std::ios::binary);
    const std::string content(std::istreambuf_iterator<char>(in), {});
    for (const auto& place : places)
      if (content.find(place) != std::string::npos)
        throw Error(text(name, " names ", place,
                         ", a folder of this machine; nothing was released. Remove it from the "
                         "tokenizer's or the model's file that it comes from"));
  }
}

}  // namespace

Released release(const RunPlace& place, const fs::path& folder, const ReleaseOptions& options) {
  auto recipe = recipe_of(place);
  if (options.dtype != ExportType::automatic) recipe.train.export_dtype = options.dtype;
  const auto part = part_of(recipe, options);
  const auto& weights = recipe.model.weights;
  SHADE_REQUIRE(
      weights.empty() || fs::exists(weights), "the weights that the run started from, ", weights,
      ", are missing, and the release needs their type and generation settings; restore them, or release from "
      "the folder that shade train was started in");
  Released out{.statement = stated(place, recipe, options), .files = {}, .taken = {}};
  NewFolder fresh(folder);
  auto written = write_weights(place, recipe, part, fresh.inside());
  write_statement(fresh.inside(), out.statement, written.model);
  out.taken = std::move(written.taken);
  out.files = files_in(fresh.inside());
  out.statement_sha256 = digest_in(fresh.inside(), kStatementJson).sha256;
  require_no_places(fresh.inside(), out.files, local_places(place, recipe));
  fresh.commit();
  return out;
}

}  // namespace shade::train
