// shade data: what is in a folder of data, and how fast it is read; or a sample corpus to try things with.
#include <cstdio>
#include <numeric>

#include "shade/base/terminal.h"
#include "shade/base/visible_text.h"
#include "shade/cli/verb.h"
#include "shade/data/config.h"
#include "shade/data/sample_corpus.h"
#include "shade/privacy/event.h"

namespace shade::cli {
namespace {

struct LookConfig {
  int64_t seq_length = 512;
  data::Task task = data::Task::lm;
  std::string write_sample;
  Bytes sample_size = MiB(1);
  int64_t sample_seed = 1;

  void declare(Fields& f) {
    f.add("seq_length", seq_length,
          {.help = "length of a sample", .unit = "tokens", .min = 2, .flags = {"--seq-length", "--seq"}});
    f.add("task", task, {.help = "what the samples are for", .flags = {"--task"}});
    f.add("write_sample", write_sample,
          {.help = "writes a made-up corpus into this new folder, and looks at it", .flags = {"--write-sample"}});
    f.add("sample_size", sample_size, {.help = "of the made-up corpus", .flags = {"--size"}});
    f.add("sample_seed", sample_seed, {.help = "of the made-up corpus", .min = 0, .flags = {"--seed"}});
  }
};

// Tokens a second that batches of 32 samples, anywhere in the data, give in half a second.
double drawing_speed(const data::TextDataset& dataset) {
  const auto samples = dataset.size();
  std::vector<int64_t> records(32);
  const auto begin = Clock::now();
  int64_t tokens = 0, next = 0;
  while (Clock::now() - begin < std::chrono::milliseconds(500)) {
    for (auto& record : records) record = (next += 7919) % samples;
    tokens += dataset.batch(records).ids_BT.numel();
  }
  return static_cast<double>(tokens) / Seconds(Clock::now() - begin).count();
}

std::string shortened(const std::vector<std::string>& names) {
  const auto shown = std::min<size_t>(names.size(), 8);
  return join(std::span(names).first(shown), ", ") + (shown < names.size() ? ", ..." : "");
}

}  // namespace

int run_data(const Arguments& arguments) {
  data::DataConfig source;
  LookConfig look;
  Config config;
  config.add("data", source);
  config.add("look", look);
  CommandLine line(
      "data",
      "What is in a folder of .txt, .json and .jsonl files, what an epsilon would protect, and how fast it is "
      "read; or a synthetic corpus to try things with.",
      "shade data --data-folder examples/data\n"
      "  shade data --write-sample corpus --size 2MB");
  line.add(config);
  if (const auto status = line.parse(arguments)) return *status;
  SHADE_REQUIRE(!line.ranks || *line.ranks == 1, "looking at data needs one process; drop --ranks");
  if (!look.write_sample.empty()) {
    SHADE_REQUIRE(source.data_folder.empty(), "expected --data-folder or --write-sample, found both");
    data::write_sample_corpus(look.write_sample, look.sample_size, static_cast<uint64_t>(look.sample_seed));
    source.data_folder = look.write_sample;
  }
  const auto begin = Clock::now();
  const auto dataset = data::open_dataset(source, look.seq_length, look.task);
  const Seconds took = Clock::now() - begin;
  const auto& store = dataset->store();
  const auto files = data::find_text_files(source.data_folder);
  const auto bytes = std::accumulate(files.begin(), files.end(), Bytes{}, [](Bytes sum, const data::TextFile& file) {
    return sum + Bytes{static_cast<int64_t>(file.size)};
  });
  const auto drawn = drawing_speed(*dataset);

  std::printf("%s\n\n", visible_lines(dataset->describe()).c_str());
  Table table({"what", "found"});
  table.add({"files", text(files.size(), ", ", to_string(bytes))});
  table.add({"samples", text(dataset->size())});
  const bool packed = source.packing == data::Packing::packed;
  const auto unit = packed ? privacy::PrivacyUnit::window : privacy::PrivacyUnit::record;
  table.add({"epsilon would hold for", text(adjacency(unit), packed ? ", not a text or a person" : "")});
  table.add({"vocabulary", text(dataset->tokenizer().vocab())});
  if (!store.classes().empty()) table.add({"labels", shortened(store.classes())});
  if (!store.classes().empty() && !store.first_unlabelled().empty())
    table.add({"first without label", store.first_unlabelled()});
  table.add({store.reused() ? "opened from the cache" : "read and tokenized",
             text(to_string(took), ", ", to_string_bandwidth(bytes, took))});
  table.add({"drawn at random", text(significant(drawn / 1e6), " million tokens/s")});
  table.add({"token cache", store.place().string()});
  std::printf("%s", table.str().c_str());
  if (!line.json_file.empty())
    write_json(line.json_file, {{"files", files.size()},
                                {"bytes", bytes.count},
                                {"records", store.records()},
                                {"empty_records", store.empty_records()},
                                {"tokens", store.tokens()},
                                {"samples", dataset->size()},
                                {"adjacency", adjacency(unit)},
                                {"vocabulary", dataset->tokenizer().vocab()},
                                {"classes", store.classes()},
                                {"from_cache", store.reused()},
                                {"open_seconds", took.count()},
                                {"drawn_tokens_per_second", drawn},
                                {"config", config.json()}});
  return 0;
}

}  // namespace shade::cli
