// How many classes a classifier has: as many as are stated or, in a run that is not private, as the data has.
#include "shade/train/recipe.h"
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
  EXPECT_NE(refused(run.path(), on(folder, {{"dp.dp", "auto"}, {"dp.sigma", "1"}})).find("states its classes"),
            std::string::npos);
}

TEST(Classes, AContradictionNamesBothNumbers) {
  const data::Folder folder;
  const io::Scratch run, model;
  put_labels(folder, 4);
  const std::string wanted =
      "the data has 4 classes, the model 6 (--num-classes, or num_labels of its config.json), and both must be the "
      "same; drop --num-classes, or state the names of all 6 (--classes)";
  EXPECT_EQ(refused(run.path(), on(folder, {{"model.num_classes", "6"}})), wanted);
  EXPECT_EQ(refused(run.path(), on(folder, {{"model.num_classes", "3"}, {"data.classes", "0,1,2,3"}})),
            "the data has 4 classes, the model 3 (--num-classes, or num_labels of its config.json), and both must be "
            "the same; drop --num-classes, or state the names of all 3 (--classes)");

  // A classifier that was trained before.
  put_labels(folder, 6);
  train_in(run.path() / "first", 1, on(folder, {{"train.export_folder", (model.path() / "six").string()}}));
  const auto six = (model.path() / "six").string();
  const Words from{{"model.model", six}, {"model.weights", six}};
  EXPECT_EQ(rows_of_head(train_in(run.path() / "again", 1, on(folder, from))), 6);
  put_labels(folder, 4);
  EXPECT_EQ(refused(run.path() / "other", on(folder, from)), wanted);
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
