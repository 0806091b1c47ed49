// How many classes a classifier has: as many as are stated or, in a run that is not private, as the data has. And which
// labels they are: a head that was trained before keeps its numbers.
#include "shade/io/weight_folder.h"
#include "shade/models/registry.h"
#include "shade/models/weights.h"
#include "shade/train/feed/records.h"
#include "shade/train/run/run_folder.h"
#include "shade/train/spec/recipe.h"
#include "tests/data/folder.h"
#include "tests/train/training.h"

namespace shade::train {
namespace {

void put_labels(const data::Folder& folder, int classes) {
  std::string lines;
  for (int i = 0; i < 20; ++i) lines += text("{\"text\": \"text ", i, "\", \"label\": \"", i % classes, "\"}\n");
  folder.put("a.jsonl", lines);
}

Words on(const data::Folder& folder, const Words& more) {
  Words out{{"data.data_folder", folder.path().string()},
            {"model.vocab_size", "260"},
            {"model.task", "classify"},
            {"train.steps", "1"},
            {"train.batch_size", "4"},
            {"train.micro_batch", "4"},
            {"train.seq_length", "12"},
            {"train.peak_gflops", "100"}};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

int64_t rows_of_head(const Trained& found) { return found.weights.back().size(0); }

TEST(Classes, AsManyAsTheDataHas) {
  const data::Folder folder;
  for (const int classes : {2, 3, 5}) {
    put_labels(folder, classes);
    const io::Scratch run;
    EXPECT_EQ(rows_of_head(train_in(run.path(), 2, on(folder, {{"shard.shard", "zero3"}}))), classes);
    EXPECT_NE(io::content(run.path() / "recipe.toml").find(text("num_classes = ", classes)), std::string::npos);
  }
}

TEST(Classes, AsManyAsAreStated) {
  const data::Folder folder;
  put_labels(folder, 2);
  for (const auto& kind : {Words{}, Words{{"dp.dp", "auto"}, {"dp.sigma", "1"}}}) {
    const io::Scratch run;
    auto words = on(folder, kind);
    words.emplace_back("data.classes", "0,1,2,3");
    EXPECT_EQ(rows_of_head(train_in(run.path(), 1, words)), 4);
  }
  const io::Scratch run;
  EXPECT_NE(refused(run.path(), on(folder, {{"dp.dp", "auto"}, {"dp.sigma", "1"}})).find("must be given its classes"),
            std::string::npos);
}

TEST(Classes, AContradictionNamesBothNumbers) {
  const data::Folder folder;
  const io::Scratch run;
  folder.put("a.jsonl", "{\"text\": \"t\", \"label\": \"a\"}\n{\"text\": \"u\", \"label\": \"b\"}\n");
  const std::string rest =
      " (--num-classes, or num_labels of its config.json), and both must be the same; drop --num-classes, or state the "
      "names of all ";
  EXPECT_EQ(refused(run.path(), on(folder, {{"model.num_classes", "6"}})),
            text("the data has 2 classes, the model 6", rest, "6 (--classes)"));
  EXPECT_EQ(refused(run.path(), on(folder, {{"model.num_classes", "3"}, {"data.classes", "a,b,c,d"}})),
            text("the data has 4 classes, the model 3", rest, "3 (--classes)"));
}

// A classifier of sea, air and hill, in this order, with weights that know the texts.
struct Trained3 : testing::Test {
  static constexpr const char* kNames[] = {"sea", "air", "hill"};

  void SetUp() override {
    put_texts(folder, {"sea", "air", "hill"});
    train_in(place("first"), 1,
             on(folder, {{"data.classes", "sea,air,hill"},
                         {"train.steps", "30"},
                         {"optim.lr", "1e-2"},
                         {"train.export_folder", place("model")}}));
  }
  std::string place(const std::string& name) const { return (scratch.path() / name).string(); }

  // With the first characters of texts that tell their class.
  static void put_texts(const data::Folder& into, const std::vector<std::string>& labels) {
    std::string lines;
    for (int i = 0; i < 24; ++i)
      lines += text("{\"text\": \"", kNames[i % 3], " ", i, "\", \"label\": \"", labels[static_cast<size_t>(i % 3)],
                    "\"}\n");
    into.put("a.jsonl", lines);
  }

  // The same function: rows of the head and their names in another order.
  std::string permuted(const std::vector<int64_t>& rows) const {
    const auto model = models::make_model(place("model"), {}, {});
    models::load_weights(model->parameters(), place("model"), at::kFloat);
    for (auto& weight : model->parameters().weights())
      if (weight.task_head()) weight.bind(weight.value().index_select(0, at::tensor(rows)));
    models::save_model(*model, place("permuted"));
    rename("permuted", [&](size_t i) { return std::string(kNames[rows[i]]); });
    return place("permuted");
  }
  void rename(const std::string& model, const std::function<std::string(size_t)>& name) const {
    const auto file = scratch.path() / model / "config.json";
    auto config = read_json(file);
    for (size_t i = 0; i < 3; ++i) config["id2label"][std::to_string(i)] = name(i);
    write_json(file, config);
  }
  Words from(const std::string& model, const Words& more = {}) const {
    return on(folder, with({{"model.model", model},
                            {"model.weights", model},
                            {"data.tokenizer", "bytes"},
                            {"train.batch_size", "24"},
                            {"dp.sampler", "shuffled"},
                            {"train.export_folder", place("exported")}},
                           more));
  }
  double first_loss(const std::string& model, const Words& more = {}) const {
    std::filesystem::remove_all(place("run"));
    std::filesystem::remove_all(place("exported"));
    return train_in(place("run"), 1, from(model, more)).losses().at(0);
  }
  std::vector<std::string> exported_names() const {
    std::vector<std::string> out;
    const auto config = read_json(scratch.path() / "exported/config.json");
    for (size_t i = 0; i < config["id2label"].size(); ++i) {
      out.push_back(config["id2label"][std::to_string(i)]);
      EXPECT_EQ(config["label2id"][out.back()], i);
    }
    return out;
  }
  std::string refused_run(const std::string& model, const Words& more = {}) const {
    return refused(scratch.path() / "refused", from(model, more));
  }

  data::Folder folder;
  io::Scratch scratch;
  using Names = std::vector<std::string>;
};

TEST_F(Trained3, RowsAndNamesInAnotherOrderAreTheSameModel) {
  const auto loss = first_loss(place("model"));
  EXPECT_LT(loss, 0.3) << "the head has learned its classes";
  EXPECT_EQ(exported_names(), (Names{"sea", "air", "hill"}));
  const auto other = permuted({2, 0, 1});
  EXPECT_NEAR(first_loss(other), loss, 1e-5);
  EXPECT_EQ(exported_names(), (Names{"hill", "sea", "air"}));
  for (const auto* stated : {"air,hill,sea", "sea,air,hill", "2,0,1"}) {
    EXPECT_NEAR(first_loss(other, {{"data.classes", stated}}), loss, 1e-5) << stated;
    EXPECT_EQ(exported_names(), (Names{"hill", "sea", "air"})) << stated;
  }
  const Words is_private{{"dp.dp", "auto"}, {"dp.sigma", "1"}, {"dp.sampler", "shuffled"}};
  EXPECT_NEAR(first_loss(other, with(is_private, {{"data.classes", "air,hill,sea"}})), loss, 1e-5);
  EXPECT_EQ(exported_names(), (Names{"hill", "sea", "air"}));
  EXPECT_NE(refused_run(other, is_private).find("must be given its classes"), std::string::npos);
  EXPECT_NE(
      refused_run(other, with(is_private, {{"data.classes", "air,hill,lake"}})).find("must have the same classes"),
      std::string::npos);

  // Weights with their own config.json, for a model by its name.
  const Words by_name{{"model.model", "llama-nano"}, {"model.weights", other}};
  EXPECT_NEAR(first_loss(other, by_name), loss, 1e-5);
  EXPECT_EQ(exported_names(), (Names{"hill", "sea", "air"}));
}

TEST_F(Trained3, WholeNumbersAreClassNumbersAndNamesStay) {
  const auto loss = first_loss(place("model"));
  const auto other = permuted({2, 0, 1});
  put_texts(folder, {"1", "2", "0"});
  EXPECT_NEAR(first_loss(other), loss, 1e-5);
  EXPECT_EQ(exported_names(), (Names{"hill", "sea", "air"}));
  rename("permuted", [](size_t i) { return text("LABEL_", i); });
  EXPECT_NEAR(first_loss(other), loss, 1e-5);
  EXPECT_EQ(exported_names(), (Names{"LABEL_0", "LABEL_1", "LABEL_2"}));
  put_texts(folder, {"1", "1", "0"});  // fewer than the model has
  EXPECT_GT(first_loss(other), loss);
}

TEST_F(Trained3, OtherLabelsAreRefused) {
  put_texts(folder, {"sea", "Air", "hill"});
  EXPECT_NE(refused_run(place("model")).find("case counts; did you mean 'air'?"), std::string::npos);
  put_texts(folder, {"sea", "air", "lake"});
  const auto said = refused_run(place("model"));
  EXPECT_NE(said.find("the model's classes: 'sea', 'air', 'hill'; labels of the data: 'air', 'lake', 'sea'"),
            std::string::npos)
      << said;
}

TEST_F(Trained3, ARunWritesDownItsClassesAndIsContinuedWithThem) {
  const auto other = permuted({2, 0, 1});
  first_loss(other);
  const auto recipe = recipe_of(*find_run(place("run")));
  EXPECT_EQ(recipe.data.classes, (Names{"hill", "sea", "air"}));
  std::filesystem::remove_all(place("exported"));
  const auto more = [&] { return refused(place("run"), from(other, {{"train.steps", "2"}})); };
  EXPECT_EQ(more(), "no error") << "it is continued";
  rename("permuted", [](size_t i) { return std::string(kNames[i]); });
  EXPECT_NE(more().find("the checkpoint's run numbered its classes hill, sea, air, and now they are sea, air, hill"),
            std::string::npos)
      << more();
}

// Of runs up to 0.2, which wrote down the classes that were stated alone.
TEST(Classes, CheckpointsWithoutClassesWereNumberedByTheSortedLabels) {
  const data::Folder folder;
  Trained3::put_texts(folder, {"sea", "air", "hill"});
  const auto opened = [&](const data::HeadClasses& head) {
    return data::open_dataset(folder.config(), 12, data::Task::classify, {}, head);
  };
  const Json old{{"data", {{"classes", Json::array()}}}}, stated{{"data", {{"classes", {"hill", "sea", "air"}}}}};
  const auto sorted = opened({}), other = opened({.number = 3, .names = {"hill", "sea", "air"}});
  EXPECT_NO_THROW(require_same_numbers(old, *sorted));
  EXPECT_NO_THROW(require_same_numbers(stated, *other));
  EXPECT_THROW(require_same_numbers(old, *other), UsageError);
  EXPECT_THROW(require_same_numbers(stated, *sorted), UsageError);
}

// The labels of synthetic records are drawn from the model's classes.
TEST(Classes, SyntheticRecordsHaveTheModels) {
  for (const auto& [number, rows] : {std::pair("0", 3), std::pair("7", 7)}) {
    const io::Scratch run;
    const auto found = train_in(run.path(), 1,
                                {{"model.task", "classify"},
                                 {"train.steps", "1"},
                                 {"train.records", "8"},
                                 {"train.batch_size", "4"},
                                 {"train.seq_length", "8"},
                                 {"model.num_classes", number}});
    EXPECT_EQ(rows_of_head(found), rows);
  }
}

}  // namespace
}  // namespace shade::train
