// shade data: what is in a folder of data, and how fast it is read; or a sample corpus to try things with.
#include <cstdio>
#include <numeric>

#include "shade/accounting/event.h"
#include "shade/base/json.h"
#include "shade/base/strings.h"
#include "shade/base/terminal.h"
#include "shade/base/units.h"
#include "shade/base/visible_text.h"
#include "shade/cli/verb.h"
#include "shade/data/config.h"
#include "shade/data/sample_corpus.h"
#include "shade/data/statistics.h"
#include "shade/data/unused_fields.h"
#include "shade/io/strict_json.h"

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
          {.help = "sequence length of a sample", .unit = "tokens", .min = 2, .flags = {"--seq-length", "--seq"}});
    f.add("task", task, {.help = "training task that samples are formed for", .flags = {"--task"}});
    f.add("write_sample", write_sample,
          {.help = "new folder to write a synthetic corpus to, and then inspect", .flags = {"--write-sample"}});
    f.add("sample_size", sample_size,
          {.help = "size of the synthetic corpus, e.g. 2MB", .flags = {"--size"}, .needs = {{"look.write_sample"}}});
    f.add("sample_seed", sample_seed,
          {.help = "seed of the synthetic corpus", .min = 0, .flags = {"--seed"}, .needs = {{"look.write_sample"}}});
  }
};

// Tokens per second, from batches of 32 samples anywhere in the data, over half a second.
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

// The first of them, and how many there are.
std::string shortened(const std::vector<std::string>& names, size_t most = 8) {
  const auto shown = std::min(names.size(), most);
  return join(std::span(names).first(shown), ", ") + (shown < names.size() ? text(", ... (", names.size(), ")") : "");
}

double share_of(int64_t part, int64_t whole) {
  return 100 * static_cast<double>(part) / static_cast<double>(std::max<int64_t>(whole, 1));
}

std::string labels_of(const data::TokenStore& store, const data::Statistics& counts) {
  std::vector<std::string> words;
  for (size_t i = 0; i < counts.labels.size(); ++i)
    words.push_back(text(visible(store.classes()[i], 40), " ", counts.labels[i]));
  return shortened(words);
}

std::string lengths_of(const data::Statistics& counts, int64_t records) {
  constexpr double kBar = 40;  // characters of a bucket that has all records
  Table table({"tokens", "records", "share", ""});
  for (const auto& bucket : counts.lengths) {
    const auto part = share_of(bucket.records, records);
    table.add({text(bucket.first, "-", bucket.last), text(bucket.records), percent(part),
               std::string(static_cast<size_t>(part / 100 * kBar + 0.5), '#')});
  }
  return table.str();
}

std::string names_of_fields(const std::vector<data::UnusedField>& fields) {
  std::vector<std::string> names;
  for (const auto& field : fields) names.push_back(io::quote(field.name));
  return shortened(names, 12);
}

Json unused_json(const std::vector<data::UnusedField>& fields) {
  auto out = Json::array();
  for (const auto& field : fields)
    out.push_back({{"name", field.name},
                   {"rows", field.rows},
                   {"values", field.values},
                   {"may_be_a_user", field.may_be_a_user()}});
  return out;
}

Json lengths_json(const data::Statistics& counts) {
  auto out = Json::array();
  for (const auto& bucket : counts.lengths)
    out.push_back({{"first", bucket.first}, {"last", bucket.last}, {"records", bucket.records}});
  return out;
}

// The first record as it is trained on, cut at T. What counts in the loss is between >> and <<, unless all of it does.
std::string sample_of(const data::TextDataset& dataset) {
  constexpr size_t kShown = 600;  // bytes
  const auto& store = dataset.store();
  const auto entry = store.entry(0);
  const auto length = std::min<uint64_t>(entry.end - entry.begin, static_cast<uint64_t>(dataset.options().seq_length));
  std::vector<int64_t> ids(length);
  std::vector<uint8_t> counted(length, 1);
  store.read(entry.begin, ids);
  if (dataset.options().loss_on == data::LossOn::completion) store.read_counted(entry.begin, counted);
  const bool marked = std::find(counted.begin(), counted.end(), 0) != counted.end();
  std::string out;
  for (size_t begin = 0, end = 0; begin < length; begin = end) {
    while (end < length && counted[end] == counted[begin]) ++end;
    const std::vector<data::TokenId> run(ids.begin() + static_cast<std::ptrdiff_t>(begin),
                                         ids.begin() + static_cast<std::ptrdiff_t>(end));
    const auto words = dataset.tokenizer().decode(run, /*special=*/true);
    out += marked && counted[begin] != 0 ? ">>" + words + "<<" : words;
  }
  if (out.size() > kShown) out = out.substr(0, kShown) + " ...";
  return text("the first record", marked ? ", the part in the loss between >> and <<" : "", ":\n", visible_lines(out),
              "\n");
}

// What a person would want to know before an epsilon for one record is stated.
void say_users(const std::vector<data::UnusedField>& unused) {
  for (const auto& field : unused)
    if (field.may_be_a_user())
      std::printf("\n%s\n",
                  text("field ", io::quote(field.name), " is not used and may say whose record it is (", field.values,
                       " different values in the first ", field.rows,
                       " rows). Epsilon protects one record, not all of a user's records: ",
                       "to protect users, train with --privacy-unit user --user-field ", visible(field.name, 40))
                      .c_str());
}

// What is printed about a folder.
struct Found {
  std::unique_ptr<data::TextDataset> dataset;
  std::vector<data::TextFile> files;
  data::Statistics counts;
  std::vector<data::UnusedField> unused;
  Seconds took{0};   // to open it
  double drawn = 0;  // tokens per second

  Bytes bytes() const {
    return std::accumulate(files.begin(), files.end(), Bytes{}, [](Bytes sum, const data::TextFile& file) {
      return sum + Bytes{static_cast<int64_t>(file.size)};
    });
  }
  bool packed() const { return dataset->options().packing == data::Packing::packed; }
  privacy::PrivacyUnit unit() const { return packed() ? privacy::PrivacyUnit::window : privacy::PrivacyUnit::record; }
};

Found look_at(const data::DataConfig& source, const LookConfig& look) {
  const auto begin = Clock::now();
  Found out{.dataset = data::open_dataset(source, look.seq_length, look.task), .files = {}, .counts = {}, .unused = {}};
  out.took = Clock::now() - begin;
  out.files = data::find_text_files(source.data_folder);
  out.counts = data::count_records(*out.dataset);
  out.unused = data::find_unused_fields(out.files, source.record_options());
  out.drawn = drawing_speed(*out.dataset);
  return out;
}

std::string protected_by(const Found& found) {
  auto out = adjacency(found.unit());
  if (found.packed()) return out + ", not a text or a person";
  return found.counts.users ? out + "; with --privacy-unit user: " + adjacency(privacy::PrivacyUnit::user) : out;
}

Table table_of(const Found& found, int64_t seq_length) {
  const auto& [dataset, counts] = std::tie(*found.dataset, found.counts);
  const auto& store = dataset.store();
  Table table({"what", "found"});
  table.add({"fields of a record", visible(store.fields(), 400)});
  if (!found.unused.empty()) table.add({"fields that are not used", names_of_fields(found.unused)});
  table.add({"files", text(found.files.size(), ", ", to_string(found.bytes()))});
  table.add({"samples", text(dataset.size())});
  table.add({"epsilon would hold for", protected_by(found)});
  if (counts.users)
    table.add({"records per user", text(counts.users->median, " at the median, ", counts.users->most, " at most, of ",
                                        counts.users->users, " users")});
  table.add({"vocabulary", text(dataset.tokenizer().vocab())});
  table.add({"tokens per record", text(significant(counts.mean_length), " on average, ", counts.longest, " at most")});
  if (!found.packed())
    table.add({text("cut at ", seq_length, " tokens"),
               text(counts.cut, " records, ", percent(share_of(counts.cut, store.records())))});
  if (!store.classes().empty()) table.add({"labels", labels_of(store, counts)});
  if (!store.classes().empty() && !store.first_unlabelled().empty())
    table.add({"first without label", store.first_unlabelled()});
  table.add({store.reused() ? "opened from the cache" : "read and tokenized",
             text(to_string(found.took), ", ", to_string_bandwidth(found.bytes(), found.took))});
  table.add({"drawn at random", text(significant(found.drawn / 1e6), " million tokens/s")});
  table.add({"token cache", store.place().string()});
  return table;
}

Json found_json(const Found& found) {
  const auto& [dataset, counts] = std::tie(*found.dataset, found.counts);
  const auto& store = dataset.store();
  return {{"files", found.files.size()},
          {"bytes", found.bytes().count},
          {"records", store.records()},
          {"empty_records", store.empty_records()},
          {"tokens", store.tokens()},
          {"samples", dataset.size()},
          {"adjacency", adjacency(found.unit())},
          {"vocabulary", dataset.tokenizer().vocab()},
          {"classes", store.classes()},
          {"records_per_class", counts.labels},
          {"fields", store.fields()},
          {"users", counts.users ? Json(counts.users->users) : Json()},
          {"most_records_per_user", counts.users ? Json(counts.users->most) : Json()},
          {"unused_fields", unused_json(found.unused)},
          {"mean_tokens", counts.mean_length},
          {"longest_tokens", counts.longest},
          {"cut_records", counts.cut},
          {"lengths", lengths_json(counts)},
          {"from_cache", store.reused()},
          {"open_seconds", found.took.count()},
          {"drawn_tokens_per_second", found.drawn}};
}

struct Data final : LineVerb {
  data::DataConfig source;
  LookConfig look;
  Config config;

  Data()
      : LineVerb(
            "data",
            "Shows what is in a folder of texts or tables: fields, lengths, labels, what an epsilon would protect, "
            "and how fast it is read; or writes a synthetic corpus to try Shade with.",
            "shade data --data-folder examples/data\n"
            "  shade data --data-folder reviews.parquet --text-field body --label-field stars\n"
            "  shade data --write-sample corpus --size 2MB") {
    config.add("data", source);
    config.add("look", look);
    line.add(config);
  }

  int run(const Arguments& arguments) override;
};

}  // namespace

std::unique_ptr<Invocation> declare_data() { return std::make_unique<Data>(); }

int Data::run(const Arguments& arguments) {
  if (const auto status = line.parse(arguments)) return *status;
  SHADE_REQUIRE(!line.ranks || *line.ranks == 1, "looking at data needs one process; drop --ranks");
  if (!look.write_sample.empty()) {
    SHADE_REQUIRE(source.data_folder.empty(), "expected --data-folder or --write-sample, found both");
    source.data_folder = look.write_sample;
  }
  line.require_effects({{kModelKind, {look.task == data::Task::lm ? kLanguageModel : kTextClassifier, {"look.task"}}}});
  if (!look.write_sample.empty())
    data::write_sample_corpus(look.write_sample, look.sample_size, static_cast<uint64_t>(look.sample_seed));
  const auto found = look_at(source, look);
  std::printf("%s\n\n%s\n%s\n%s", visible_lines(found.dataset->describe()).c_str(),
              table_of(found, look.seq_length).str().c_str(),
              lengths_of(found.counts, found.dataset->store().records()).c_str(), sample_of(*found.dataset).c_str());
  say_users(found.unused);
  if (line.json_file.empty()) return 0;
  auto json = found_json(found);
  json["config"] = json_values(config);
  write_json(line.json_file, json);
  return 0;
}

}  // namespace shade::cli
