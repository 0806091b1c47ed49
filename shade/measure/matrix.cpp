#include "shade/measure/matrix.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "shade/base/error.h"
#include "shade/base/median.h"
#include "shade/base/strings.h"
#include "shade/base/visible_text.h"
#include "shade/catalog/merged_runs.h"
#include "shade/catalog/methods.h"
#include "shade/measure/bench.h"
#include "shade/measure/rounds.h"

namespace shade::measure {
namespace {

struct Option {
  std::string name;      // its first spelling: --data_parallel and --shard.shard are both --shard
  bool is_list = false;  // by nature: a list of values is one value
};

Option option_of(const std::string& word) {
  static const auto spellings = [] {
    std::map<std::string, Option> out{{"--nproc-per-node", {"--ranks"}}};
    Experiment experiment;
    Config config;
    experiment.declare(config);
    for (const auto& field : config.fields()) {
      const auto names = field.spellings();
      for (const auto& name : names) out[name] = {names.front(), field.is_list()};
    }
    return out;
  }();
  const auto found = spellings.find(dashed(word));
  return found == spellings.end() ? Option{dashed(word)} : found->second;
}

// Short names for the axes people vary most; others are called by their option.
std::string abbreviation(const std::string& option) {
  static const std::map<std::string, std::string> known{
      {"--seq-length", "seq"}, {"--batch-size", "batch"}, {"--grad-accum", "accum"}, {"--shard", ""}, {"--dtype", ""}};
  const auto found = known.find(option);
  if (found != known.end()) return found->second;
  auto word = option.substr(option.find_first_not_of('-'));
  std::replace(word.begin(), word.end(), '.', '-');
  return word;
}

std::string name_of(const std::vector<std::pair<std::string, std::string>>& fixed,
                    const std::vector<std::pair<std::string, std::string>>& varied) {
  std::string mode = catalog::mode_of("none"), sequence, rest;
  for (const auto& [option, value] : fixed)
    if (option == "--dp") mode = catalog::mode_of(value);
  for (const auto& [option, value] : varied) {
    if (option == "--dp")
      mode = catalog::mode_of(value);
    else if (option == "--seq-length")
      sequence = "_seq" + value;
    else
      rest += "_" + abbreviation(option) + value;
  }
  auto name = mode + sequence + rest;
  for (auto& c : name)
    if (c == '/' || c == ' ') c = '-';
  return name;
}

std::filesystem::path repeat_file(const MatrixOptions& options, const MatrixRow& row, int64_t repeat) {
  return options.folder / "repeats" / text(row.name, "_", repeat, ".json");
}

Json merged(const MatrixOptions& options, const MatrixRow& row, int64_t repeats) {
  std::vector<Json> runs;
  for (int64_t i = 0; i < repeats && (runs.empty() || !runs.back().value("failed", false)); ++i)
    runs.push_back(read_json(repeat_file(options, row, i)));
  return catalog::merged_runs(runs);
}

}  // namespace

std::string usual_spelling(const std::string& word) { return word.starts_with("--") ? option_of(word).name : word; }

std::vector<MatrixRow> expand(const std::vector<std::string>& arguments) {
  std::vector<std::pair<std::string, std::string>> given;
  for (size_t i = 0; i < arguments.size(); ++i) {
    auto option = arguments[i];
    std::string value;
    const bool joined = option.starts_with("--") && option.find('=') != std::string::npos;
    if (joined) {
      value = option.substr(option.find('=') + 1);
      option = option.substr(0, option.find('='));
    } else if (option.starts_with("--")) {  // --batch-size 2 4 8 is --batch-size 2,4,8
      for (; i + 1 < arguments.size() && !arguments[i + 1].starts_with("--"); ++i)
        value += (value.empty() ? "" : ",") + arguments[i + 1];
    }
    option = option_of(option).name;
    const auto earlier = std::find_if(given.begin(), given.end(), [&](const auto& one) { return one.first == option; });
    if (earlier == given.end())
      given.emplace_back(option, value);
    else
      earlier->second = value;
  }
  std::vector<std::pair<std::string, std::string>> fixed;
  std::vector<std::string> shared;
  std::vector<Axis> axes;
  for (const auto& [option, value] : given) {
    if (value.find(',') != std::string::npos && !option_of(option).is_list) {
      axes.push_back({option, split(value, ',')});
      continue;
    }
    shared.push_back(option);
    if (!value.empty()) shared.push_back(value);
    fixed.emplace_back(option, value);
  }
  std::vector<MatrixRow> rows;
  std::vector<size_t> at(axes.size(), 0);
  for (;;) {
    MatrixRow row{.name = {}, .arguments = shared, .varied = {}};
    for (size_t a = 0; a < axes.size(); ++a) {
      row.varied.emplace_back(axes[a].option, axes[a].values[at[a]]);
      row.arguments.insert(row.arguments.end(), {axes[a].option, axes[a].values[at[a]]});
    }
    row.name = name_of(fixed, row.varied);
    rows.push_back(std::move(row));
    size_t a = axes.size();
    while (a > 0 && ++at[a - 1] == axes[a - 1].values.size()) at[--a] = 0;
    if (a == 0) break;
  }
  std::set<std::string> names;
  for (const auto& row : rows)
    SHADE_REQUIRE(names.insert(row.name).second, "two rows of the matrix are called ", row.name,
                  ", and so would be their files; give every value once");
  return rows;
}

namespace {

// Which matrix a result is of. Repeats say so too: a matrix that was cut short has nothing else.
void mark(Json& result, const MatrixOptions& options) {
  if (!options.preset.is_null()) result["preset"] = options.preset;
  if (!options.command.empty()) result["environment"]["command"] = options.command;
}

// Runs it unless its result is there, and returns that.
Json run_row(const MatrixOptions& options, const MatrixRow& row, int64_t repeat) {
  const auto file = repeat_file(options, row, repeat);
  if (options.resume && std::filesystem::exists(file)) return read_json(file);
  // Written beside and renamed when complete: a file that is there is a finished run.
  const auto unfinished = file.string() + ".unfinished";
  IsolatedRun run{.command = {"/proc/self/exe", "bench"},
                  .log = options.folder / "logs" / text(row.name, "_", repeat, ".txt"),
                  .limit = options.row_limit,
                  .memory = options.memory_limit};
  run.command.insert(run.command.end(), row.arguments.begin(), row.arguments.end());
  run.command.insert(run.command.end(), {"--json", unfinished});
  const auto outcome = run_isolated(run);
  Json result{{"failed", true},
              {"reason", without_folders_within(outcome.reason)},
              {"out_of_memory", outcome.out_of_memory},
              {"log_key", row.name},
              {"config", {{"model_name", row.model_name}}},
              {"arguments", without_folders(Json(row.arguments))}};
  if (outcome.ok) result = read_json(unfinished);
  result["load"] = outcome.load.json();
  mark(result, options);
  write_json(unfinished, result);
  std::filesystem::rename(unfinished, file);
  return result;
}

}  // namespace

MatrixOutcome run_matrix(const std::vector<MatrixRow>& rows, const MatrixOptions& options,
                         const std::function<void(const MatrixProgress&)>& progress) {
  std::filesystem::create_directories(options.folder / "repeats");
  std::filesystem::create_directories(options.folder / "logs");
  Rounds rounds(rows, options.repeats);
  while (!rounds.enough()) {
    const auto order = rounds.next_round();
    for (size_t done = 0; done < order.size(); ++done) {
      const auto i = order[done];
      progress({rounds.done(), done, order.size(), rows[i].name});
      const auto result = run_row(options, rows[i], rounds.done() - 1);
      if (result.value("failed", false))
        rounds.failed(i);
      else
        rounds.record(i, median(result.at("times_ms").get<std::vector<double>>()));
    }
  }
  MatrixOutcome out{.results = {}, .ratios = {}, .advice = rounds.advice()};
  for (size_t i = 0; i < rows.size(); ++i) {
    auto result = merged(options, rows[i], rounds.done());
    out.ratios.push_back(rounds.ratio(i));
    if (out.ratios.back()) result["ratio"] = out.ratios.back()->json();
    mark(result, options);
    write_json(options.folder / (rows[i].name + "_result.json"), result);
    out.results.push_back(std::move(result));
  }
  return out;
}

const std::vector<Preset>& presets() {
  static const std::vector<Preset> all{
      {"llama3-fsdp", "memory and time of private, fully sharded Llama-3",
       "--task classify --ranks 2 --shard zero3 --dp no_dp,ghost_fsdp,flash_fsdp --batch-size 2 --num-iter 3 "
       "--warmup-iter 1 --sigma 1.0 --max-grad-norm 1.0 --lr 1e-5",
       "--model llama3-8b --hidden-dim 256 --num-layers 4 --num-heads 4 --num-kv-heads 2 --ffn-dim 768 --vocab-size "
       "4096 "
       "--seq-length 256,512,1024",
       "--model llama3.1-8b --seq-length 1024,2048,4096 --dtype bf16"},
      {"bottlenecks", "which phase of a private step grows how with the text's length",
       "--model llama3-8b --task classify --ranks 2 --shard zero3 --dp none,ghost,flash,flash_bookkeeping "
       "--num-iter 2",
       "--batch-size 1 --hidden-dim 256 --num-layers 2 --num-heads 4 --num-kv-heads 2 --ffn-dim 768 --vocab-size 4096 "
       "--seq-length 512,1024,2048,4096",
       "--batch-size 4 --seq-length 1024,2048,4096,8192,16384 --dtype bf16"},
      {"zero2-vs-zero3", "two ways to shard Qwen2-1.5B",
       "--model qwen2-1.5b --task lm --ranks 2 --shard SHARD_GRAD_OP,FULL_SHARD --dtype bf16 --grad-accum 1,2,4 "
       "--data-folder {corpus} --packing packed",
       "--hidden-dim 256 --num-layers 4 --num-heads 4 --num-kv-heads 2 --ffn-dim 768 --vocab-size 4096 --seq-length "
       "128 "
       "--batch-size 2,4,8 --num-iter 3",
       "--seq-length 2048 --batch-size 2,4,8,16 --num-iter 50"},
      {"linear", "FSDP by a linear example", "--model linear --ranks 2 --shard ddp,fsdp --optimizer sgd --num-iter 5",
       "--hidden-dim 1024 --num-layers 4 --batch-size 2048 --auto_wrap_policy module_wrap,size_based,none "
       "--min_num_params 2000000",
       "--hidden-dim 16384 --num-layers 8 --batch-size 8192 --auto_wrap_policy module_wrap,size_based,none "
       "--min_num_params 100000000"},
      {"dit", "where the memory of a private DiT goes",
       "--model dit-l --dp vanilla,ghost,flash_clip,bookkeeping,flash_clip_bookkeeping --batch-size 2 --num-iter 3",
       "--warmup-iter 1 --hidden-dim 256 --num-layers 4 --num-heads 4 --image-size 128 --patch-size 8 --dtype fp32",
       "--warmup-iter 0 --hidden-dim 1024 --num-layers 24 --num-heads 16 --image-size 256 --patch-size 8 "
       "--num-classes 1000 --dtype bf16"}};
  return all;
}

std::vector<std::string> preset_names() {
  std::vector<std::string> out;
  for (const auto& preset : presets()) out.emplace_back(preset.name);
  return out;
}

std::vector<std::string> preset_arguments(const std::string& name, Scale scale) {
  for (const auto& preset : presets()) {
    if (name != preset.name) continue;
    std::istringstream words(text(preset.shared, " ", scale == Scale::small ? preset.small_sizes : preset.full_sizes));
    std::vector<std::string> out;
    for (std::string word; words >> word;) out.push_back(word);
    return out;
  }
  const auto names = preset_names();
  throw UsageError(
      text("no preset is called '", name, "'", suggestion(name, names), "; there are ", join(names, ", ")));
}

}  // namespace shade::measure
