#include "shade/io/weight_folder.h"

#include <ATen/ATen.h>

#include <thread>

#include "scratch.h"
#include "shade/base/json.h"
#include "shade/io/errors.h"
#include "shade/io/weight_folder_writer.h"

namespace shade::io {
namespace {

TensorMap small_model() {
  TensorMap tensors;
  for (int layer = 0; layer < 5; ++layer)
    for (const char* part : {"q", "k"})
      tensors.emplace(text("layers.", layer, ".", part), at::full({4, 8}, layer, at::kBFloat16));
  tensors.emplace("embed", at::randn({100, 4}));
  return tensors;
}

// Two shards of one tensor each, and the index given.
void write_shards(const Scratch& scratch, const std::string& index) {
  write_safetensors(scratch.path() / "one.safetensors", {{"a", at::full(2, 1.0)}});
  write_safetensors(scratch.path() / "two.safetensors", {{"b", at::full(2, 2.0)}});
  scratch.write(kWeightsIndex, index);
}

std::string refused_index(const std::string& index) {
  const Scratch scratch;
  write_shards(scratch, index);
  auto message = message_of<FormatError>([&] { WeightFolder(scratch.path()); });
  const auto begin = text(scratch.path() / kWeightsIndex, " is not a sound index: ");
  const std::string end = "; fetch or write it again";
  EXPECT_TRUE(message.starts_with(begin) && message.ends_with(end)) << message;
  return message.substr(begin.size(), message.size() - begin.size() - end.size());
}

TEST(WeightFolder, OneFileRoundTrip) {
  const Scratch scratch;
  const auto tensors = small_model();
  write_weight_folder(scratch.path() / "model", tensors);
  for (const auto& place : {scratch.path() / "model", scratch.path() / "model" / kWeightsFile}) {
    const WeightFolder weights(place);
    EXPECT_EQ(weights.files().size(), 1U);
    EXPECT_EQ(weights.names().size(), tensors.size());
    for (const auto& [name, tensor] : tensors) EXPECT_TRUE(weights.tensor(name).equal(tensor));
  }
  EXPECT_EQ(SafetensorsFile(scratch.path() / "model" / kWeightsFile).header().metadata, (Metadata{{"format", "pt"}}));
}

TEST(WeightFolder, ShardedRoundTrip) {
  const Scratch scratch;
  const auto tensors = small_model();
  write_weight_folder(scratch.path(), tensors, {.max_shard = Bytes{200}});
  // "embed" has 1600 bytes and a shard of its own; of the layers' 64-byte tensors three fit into one.
  const auto index = read_json(scratch.path() / kWeightsIndex);
  EXPECT_EQ(index["metadata"]["total_size"], 100 * 4 * 4 + 10 * 64);
  EXPECT_EQ(index["weight_map"]["embed"], "model-00001-of-00005.safetensors");
  EXPECT_EQ(index["weight_map"]["layers.4.q"], "model-00005-of-00005.safetensors");
  for (const auto& place : {scratch.path(), scratch.path() / kWeightsIndex}) {
    const WeightFolder weights(place);
    weights.check();
    EXPECT_EQ(weights.files().size(), 5U);
    EXPECT_EQ(weights.names().size(), tensors.size());
    EXPECT_EQ(weights.info("embed").shape, (std::vector<int64_t>{100, 4}));
    for (const auto& [name, tensor] : tensors) EXPECT_TRUE(weights.tensor(name).equal(tensor));
  }
}

TEST(WeightFolder, ShardsAreOpenedWhenTheyAreNeeded) {
  const Scratch scratch;
  write_shards(scratch, R"({"weight_map":{"a":"one.safetensors","b":"two.safetensors"}})");
  scratch.write("two.safetensors", "broken");
  const WeightFolder weights(scratch.path());
  EXPECT_TRUE(weights.contains("b"));
  EXPECT_EQ(weights.tensor("a")[0].item<float>(), 1.0F);
  message_of<FormatError>([&] { weights.tensor("b"); });
  message_of<FormatError>([&] { weights.check(); });
}

TEST(WeightFolder, ThreadsMayAskAtOnce) {
  const Scratch scratch;
  const auto tensors = small_model();
  write_weight_folder(scratch.path(), tensors, {.max_shard = Bytes{1}});
  const WeightFolder weights(scratch.path());
  std::vector<std::thread> threads;
  std::atomic<int> equal{0};
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (const auto& [name, tensor] : tensors) equal += weights.tensor(name).equal(tensor) ? 1 : 0;
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(equal, 4 * static_cast<int>(tensors.size()));
}

TEST(WeightFolder, AFolderWithoutWeightsOrWithTwoOfThemIsRefused) {
  const Scratch scratch;
  EXPECT_EQ(message_of<Error>([&] { WeightFolder(scratch.path()); }),
            text(scratch.path(), " has no weights: expected model.safetensors or model.safetensors.index.json; is it ",
                 "the model's folder, and is the download complete?"));
  EXPECT_EQ(message_of<FormatError>([&] { WeightFolder(scratch.path() / "none"); }),
            text("cannot open ", scratch.path() / "none", ": No such file or directory"));
  write_shards(scratch, "{}");
  write_safetensors(scratch.path() / kWeightsFile, {});
  EXPECT_EQ(message_of<Error>([&] { WeightFolder(scratch.path()); }),
            text(scratch.path(), " has both model.safetensors and model.safetensors.index.json, and they may differ; ",
                 "name the one to read, or remove the other"));
}

TEST(WeightFolder, AMissingShardIsNamedAtOnce) {
  const Scratch scratch;
  write_shards(scratch, R"({"weight_map":{"a":"one.safetensors","b":"three.safetensors"}})");
  EXPECT_EQ(
      message_of<Error>([&] { WeightFolder(scratch.path()); }),
      text(scratch.path() / kWeightsIndex, " places tensor 'b' in 'three.safetensors', which is missing; fetch it, ",
           "the download may be incomplete"));
}

TEST(WeightFolder, IndexAndShardsMustAgree) {
  const auto refused = [](const std::string& map, const std::string& ask, const auto& expected) {
    const Scratch scratch;
    write_shards(scratch, R"({"weight_map":)" + map + "}");
    const WeightFolder weights(scratch.path());
    EXPECT_EQ(message_of<FormatError>([&] { weights.tensor(ask); }),
              expected(scratch.path()) + "; index and shards are not of one download, fetch them again");
  };
  refused(R"({"a":"one.safetensors","b":"two.safetensors","c":"two.safetensors"})", "b", [](const auto& folder) {
    return text("tensor 'c' is in ", folder / "two.safetensors", " by the index, but not in the file");
  });
  refused(R"({"b":"two.safetensors","c":"one.safetensors"})", "c", [](const auto& folder) {
    return text("tensor 'a' is in ", folder / "one.safetensors", " but not in the index");
  });
  refused(R"({"a":"one.safetensors","b":"one.safetensors","c":"two.safetensors"})", "c", [](const auto& folder) {
    return text("tensor 'b' is in two shards: ", folder / "one.safetensors", " by the index, and ",
                folder / "two.safetensors");
  });
}

TEST(WeightFolder, AnIndexThatLeavesItsFolderIsRefused) {
  for (const char* file : {"../one.safetensors", "/etc/passwd", "sub/../../one.safetensors", "..", "", "sub/",
                           "one.safetensors/..", "a\\u0000b"}) {
    const auto shown = std::string_view(file) == "a\\u0000b" ? "a\\x00b" : file;
    EXPECT_EQ(refused_index(text(R"({"weight_map":{"a":")", file, R"("}})")),
              text("the index places tensor 'a' in '", shown, "', which is not a file in the folder of the index"));
  }
}

// Of an index, a shard and a single file, whether the folder or the file is named.
TEST(WeightFolder, FilesThatLeadOutOfTheFolderAreRefused) {
  const Scratch scratch;
  namespace fs = std::filesystem;
  const auto model = scratch.path() / "model";
  const auto refuse = [&](const std::string& name, const auto& act) {
    fs::rename(model / name, scratch.path() / "outside");
    fs::create_symlink("../outside", model / name);
    const auto said = message_of<FormatError>(act);
    EXPECT_NE(said.find(text("cannot read ", model / name, ": it leads to ")), std::string::npos) << said;
    fs::rename(scratch.path() / "outside", model / name);
  };
  write_weight_folder(model, small_model(), {.max_shard = Bytes{200}});
  refuse(kWeightsIndex, [&] { WeightFolder weights(model); });
  refuse(kWeightsIndex, [&] { WeightFolder weights(model / kWeightsIndex); });
  refuse("model-00001-of-00005.safetensors", [&] { WeightFolder(model).tensor("embed"); });
  WeightFolder(model).check();
  fs::remove_all(model);
  write_weight_folder(model, small_model());
  refuse(kWeightsFile, [&] { WeightFolder weights(model); });
  refuse(kWeightsFile, [&] { WeightFolder weights(model / kWeightsFile); });
}

TEST(WeightFolder, ABrokenIndexIsRefused) {
  EXPECT_EQ(refused_index("[]"), "the index must be an object, found an array");
  EXPECT_EQ(refused_index("{}"), "the index has no weight_map");
  EXPECT_EQ(refused_index(R"({"metadata":{"weight_map":{}}})"), "the index has no weight_map");
  EXPECT_EQ(refused_index(R"({"weight_map":[]})"), "the index's weight_map must be an object, found an array");
  EXPECT_EQ(refused_index(R"({"weight_map":{"a":1}})"),
            "the index must name a file for tensor 'a', found the number 1");
  EXPECT_EQ(refused_index(R"({"weight_map":{"a":"one.safetensors","a":"two.safetensors"}})"),
            "the index has the key 'a' twice in 'weight_map'");
  EXPECT_EQ(refused_index("{"), "the index is not valid JSON at byte 1, after '{'");
}

TEST(WeightFolder, WhatElseAnIndexSaysIsSkipped) {
  const Scratch scratch;
  write_shards(scratch, R"({"metadata":{"total_size":1.5e10,"x":[{"weight_map":{"z":1}}]},)"
                        R"("weight_map":{"a":"one.safetensors","b":"./two.safetensors"},"more":{"c":[]}})");
  const WeightFolder weights(scratch.path());
  weights.check();
  EXPECT_EQ(weights.names(), (std::vector<std::string>{"a", "b"}));
}

TEST(WeightFolder, AnUnknownNameIsToldWithTheNearestOne) {
  const Scratch scratch;
  write_weight_folder(scratch.path(), {{"model.norm", at::ones(1)}});
  EXPECT_EQ(message_of<UsageError>([&] { WeightFolder(scratch.path()).tensor("model.nrom"); }),
            text("there is no tensor 'model.nrom' in ", scratch.path(), "; did you mean 'model.norm'?"));
}

TEST(WeightFolderWriter, RefusesAFolderThatHasWeights) {
  for (const char* name : {"model.safetensors", "model-00001-of-00002.safetensors", "model.safetensors.index.json"}) {
    const Scratch scratch;
    scratch.write("config.json", "{}");
    scratch.write(name, "");
    EXPECT_EQ(message_of<UsageError>([&] { write_weight_folder(scratch.path(), {}); }),
              text(scratch.path(), " already has weights (", name, "); give another folder, or remove them"));
  }
}

TEST(WeightFolderWriter, NothingIsThereBeforeEverythingIs) {
  const Scratch scratch;
  const std::vector<TensorSpec> specs{{"a", Dtype::f32, {4}}, {"b", Dtype::f32, {4}}};
  WeightFolderWriter writer(scratch.path(), specs, {.max_shard = Bytes{16}});
  writer.put("a", at::zeros(4));
  EXPECT_EQ(message_of<UsageError>([&] { writer.commit(); }),
            text("tensor 'b' was declared for ", scratch.path() / "model-00002-of-00002.safetensors",
                 " and never put; 1 of 1 are missing"));
  EXPECT_FALSE(std::filesystem::exists(scratch.path() / "model-00001-of-00002.safetensors"));
  writer.put("b", at::ones(4));
  writer.commit();
  WeightFolder(scratch.path()).check();
}

}  // namespace
}  // namespace shade::io
