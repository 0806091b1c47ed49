// shade eval: how good a trained model is on records that it was not trained on.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

#include "shade/base/error.h"
#include "shade/base/files.h"
#include "shade/base/json.h"
#include "shade/base/temporary_folder.h"
#include "shade/base/terminal.h"
#include "shade/base/visible_text.h"
#include "shade/cli/serving.h"
#include "shade/cli/verb.h"
#include "shade/serve/score.h"
#include "shade/train/feed/records.h"

namespace shade::cli {
namespace {

struct EvalConfig {
  int64_t seq_length = 0;
  bool exact_match = true;
  std::string csv, predictions;

  void declare(Fields& f) {
    f.add("seq_length", seq_length,
          {.help = "length that records are truncated to; 0: that of training or, if unknown, the model's largest",
           .unit = "tokens",
           .min = 0,
           .flags = {"--seq-length", "--seq", "--max-length"}});
    f.add("exact_match", exact_match,
          {.help = "whether to generate greedily after the prompt of each record that has one, and compare with its "
                   "completion",
           .flags = {"--exact-match"}});
    f.add("csv", csv, {.help = "CSV file that the figures are also written to", .flags = {"--csv"}});
    f.add(
        "predictions", predictions,
        {.help = "JSON Lines file with a line for each record: its loss, and the predicted class or the text generated "
                 "after its prompt",
         .flags = {"--predictions"}});
  }
};

// How records are read: as in training, but for what was given.
data::DataConfig data_of(const serve::OpenedModel& model, Config& given) {
  auto data = model.data;
  data.data_folder.clear();
  data.max_records = 0;
  data.cache_folder.clear();
  data.classes.clear();  // of the run that trained it: model.head() has them
  Config fields;
  fields.add("data", data);
  for (const auto& field : given.fields())
    if (field.given() && fields.has(field.key())) fields.set(field.key(), field.word());
  SHADE_REQUIRE(!data.data_folder.empty(), "no records to evaluate on; set --data-folder FOLDER");
  data.tokenizer = model.tokenizer_place;
  return data;
}

// Whether the token cache may be written beside the records: one is there, or the folder is the user's own.
bool may_have_cache(const std::filesystem::path& records) {
  const auto folder = std::filesystem::is_directory(records) ? records : records.parent_path();
  struct stat about{};
  return ::access((folder / ".shade").c_str(), W_OK) == 0 || ::stat((folder / "").c_str(), &about) != 0 ||
         (about.st_uid == ::geteuid() && ::access((folder / "").c_str(), W_OK) == 0);
}

int64_t length_of(const EvalConfig& eval, const serve::OpenedModel& model, const models::TextTraits& traits) {
  const auto most = traits.window > 0 ? std::min(traits.window, traits.max_positions) : traits.max_positions;
  SHADE_REQUIRE(eval.seq_length <= most, "--seq-length ", eval.seq_length, " is longer than the ", most,
                most < traits.max_positions
                    ? " tokens of the model's attention window (sliding_window in its config.json), beyond which "
                      "attention would slide, which is not supported"
                    : " positions of the model (max_position_embeddings in its config.json)",
                "; choose ", most, " or less: longer texts are cut there");
  if (eval.seq_length > 0) return eval.seq_length;
  return model.seq_length > 0 ? std::min(model.seq_length, most) : most;
}

// A figure as it is written, and as it is read.
struct Figure {
  const char *key, *name;
  std::optional<double> value;
  bool percent = false;
};

std::vector<Figure> figures_of(const serve::Scores& scores) {
  const auto& found = scores.evaluation;
  const auto match = scores.exact_match ? std::optional(scores.exact_match->share()) : std::nullopt;
  return {{"loss", "loss", found.loss},
          {"perplexity", "perplexity", found.perplexity},
          {"accuracy", "accuracy", found.accuracy, true},
          {"f1", "F1 (macro)", found.f1},
          {"majority", "always the most frequent class", found.majority, true},
          {"exact_match", "exact match", match, true}};
}

std::string csv_of(const std::vector<Figure>& figures, int64_t records) {
  std::string keys = "records", values = text(records);
  for (const auto& [key, name, value, percent] : figures) {
    if (!value) continue;
    keys += text(",", key);
    values += text(",", Json(*value).dump());
  }
  return text(keys, "\n", values, "\n");
}

// A line for each record, in the order of the data set; without the record's text.
std::string prediction_lines(const std::vector<serve::Prediction>& predictions, const std::vector<std::string>& names) {
  const auto name = [&](int64_t number) {
    return names.empty() ? Json(number) : Json(names.at(static_cast<size_t>(number)));
  };
  std::string out;
  for (const auto& [record, loss, classes, answer] : predictions) {
    Json line{{"record", record}, {"loss", loss}};
    if (classes)
      line.update({{"label", name(classes->label)},
                   {"prediction", name(classes->predicted)},
                   {"probability", classes->probability}});
    if (answer)
      line.update({{"expected", answer->expected}, {"generated", answer->generated}, {"match", answer->match}});
    out += line.dump() + "\n";
  }
  return out;
}

struct Eval final : LineVerb {
  ServedModel served;
  data::DataConfig data;
  EvalConfig eval;
  Config config;

  Eval()
      : LineVerb("eval",
                 "Loss, perplexity, accuracy, F1 and exact match of a trained model on the records of a folder.",
                 "shade eval runs/sections_private --data-folder runs/sections/test\n"
                 "  shade eval exported --data-folder held_out --json scores.json") {
    config.add("model", served);
    config.add("eval", eval);
    config.add("data", data);
    served.add_argument(line);
    line.add(config);
  }

  int run(const Arguments& arguments) override;
};

}  // namespace

std::unique_ptr<Invocation> declare_eval() { return std::make_unique<Eval>(); }

int Eval::run(const Arguments& arguments) {
  if (const auto status = line.parse(arguments)) return *status;
  served.check(line);
  line.require_effects();
  for (const auto& file : {eval.csv, eval.predictions})
    if (!file.empty()) check_output(file);
  require_different("--json", line.json_file, "--csv", eval.csv);
  require_different("--json", line.json_file, "--predictions", eval.predictions);
  require_different("--csv", eval.csv, "--predictions", eval.predictions);
  auto model = served.open(data.tokenizer);
  SHADE_REQUIRE(model.model->text_traits(), model.model->describe(),
                " draws images: there are no scores of it; look at what shade generate draws");
  const auto traits = *model.model->text_traits();
  auto source = data_of(model, config);
  std::optional<TemporaryFolder> cache;
  if (source.cache_folder.empty() && !may_have_cache(source.data_folder))
    source.cache_folder = cache.emplace("shade_eval").path().string();
  const auto records = train::open_texts(source, length_of(eval, model, traits), traits, {}, model.head());
  const auto scores = serve::score(model, *records, eval.exact_match);
  const auto figures = figures_of(scores);

  std::printf("%s\n\n", visible_lines(records->describe()).c_str());
  Table table({model.is_private ? "figure (not private)" : "figure", "value"});
  for (const auto& [key, name, value, percent] : figures)
    if (value) table.add({name, percent ? text(significant(100 * *value), " %") : significant(*value, 5)});
  std::printf("%s", table.str().c_str());
  if (model.is_private)
    std::printf("\nComputed from these records without noise: the run's epsilon does not cover these figures.\n");

  Json own{{"records", scores.evaluation.records}};
  for (const auto& figure : figures)
    if (figure.value) own[figure.key] = *figure.value;
  if (scores.exact_match) own["prompts"] = scores.exact_match->prompts;
  Json out{{"model", without_folders(model.title)}};
  if (model.is_private)
    out["not_private"] = own;
  else
    out.update(own);
  out["config"] = without_folders(json_values(config));
  // An exported folder doesn't say whether its run was private, and the records may be private: the files are readable
  // by their owner alone.
  if (!line.json_file.empty()) write_output(line.json_file, out.dump(2) + "\n", Readers::owner);
  if (!eval.csv.empty()) write_output(eval.csv, csv_of(figures, scores.evaluation.records), Readers::owner);
  if (!eval.predictions.empty())
    write_output(eval.predictions, prediction_lines(scores.predictions, records->classes()), Readers::owner);
  return 0;
}

}  // namespace shade::cli
