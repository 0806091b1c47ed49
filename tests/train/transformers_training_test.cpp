// Twenty steps with the defaults, on records of unequal length, against transformers' Trainer and PEFT
// (transformers_training.py): losses, gradient norms and weights. Ranks are processes.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "shade/data/config.h"
#include "shade/io/safetensors_writer.h"
#include "shade/models/registry.h"
#include "shade/models/weights.h"
#include "shade/nn/adapter.h"
#include "shade/train/budget/budget.h"
#include "tests/io/scratch.h"
#include "tests/support/process.h"

namespace shade::train {
namespace {

constexpr int64_t kRecords = 23, kBatch = 8, kSteps = 20, kLength = 48;  // an epoch: 8, 8 and 7 records
constexpr uint64_t kSeed = 7;
constexpr int64_t kRank = 4;

using Options = std::vector<std::string>;

struct OurRun {
  std::string name;
  Options options;
};

// Settings that are not named are the defaults on both sides; where those differ (rate, weight decay, schedule) both
// are told.
struct Reference {
  std::string model;
  Json arguments;   // of TrainingArguments
  Options options;  // the same for shade train
  std::vector<OurRun> runs;
  bool adapters = false;
};

std::vector<Reference> references() {
  const Json usual{{"learning_rate", 5e-3}, {"weight_decay", 0.5}, {"per_device_train_batch_size", kBatch}};
  const Options ours{"--lr", "5e-3", "--weight-decay", "0.5", "--schedule", "linear", "--micro-batch", "8"};
  const auto but = [&](Json changes) {
    Json out = usual;
    out.update(changes);
    return out;
  };
  const auto plus = [&](const Options& more) {
    Options out = ours;
    out.insert(out.end(), more.begin(), more.end());
    return out;
  };
  const Options zero3{"--shard", "zero3", "--ranks", "2"};
  return {{"qwen2",
           usual,
           ours,
           {{"none", {"--shard", "none", "--ranks", "1"}},
            {"ddp", {"--shard", "ddp", "--ranks", "2"}},
            {"zero2", {"--shard", "zero2", "--ranks", "2"}},
            {"zero3", zero3},
            {"hsdp", {"--shard", "hsdp", "--replicate", "2", "--ranks", "4"}}}},
          {"qwen2",
           but({{"per_device_train_batch_size", 2}, {"gradient_accumulation_steps", kBatch / 2}}),
           plus({"--micro-batch", "2"}),
           {{"accumulation", {"--ranks", "1"}}, {"accumulation_zero3", zero3}}},
          {"llama",
           but({{"lr_scheduler_type", "cosine"}, {"warmup_steps", 5}, {"max_grad_norm", 0.3}}),
           plus({"--schedule", "cosine", "--warmup-steps", "5", "--max-grad-norm", "0.3"}),
           {{"warmup_clipping", {"--ranks", "1"}}, {"warmup_clipping_zero3", zero3}}},
          {"llama",
           usual,
           plus({"--lora-rank", std::to_string(kRank), "--lora-alpha", "8"}),
           {{"lora", {"--ranks", "1"}}, {"lora_zero3", zero3}},
           /*adapters=*/true}};
}

std::unique_ptr<models::Model> model_of(const std::string& name, bool adapters) {
  models::SizeOverrides sizes;
  sizes.vocab_size = 260;
  models::ModelOptions options{.task = models::Task::lm};
  if (adapters) options.lora = nn::LoraOptions{.rank = kRank, .alpha = 8};
  auto model = models::make_model(name + "-nano", sizes, options);
  nn::bind_all(model->parameters(), at::kFloat, kSeed);
  return model;
}

class TransformersTraining : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(python_)) GTEST_SKIP() << "no transformers: run tools/bootstrap peers";
  }
  std::string place(const std::string& name) const { return (scratch_.path() / name).string(); }

  void write_records() const {
    std::filesystem::create_directories(place("texts"));
    std::ofstream out(place("texts/a.jsonl"));
    for (int64_t i = 0; i < kRecords; ++i) {
      std::string words;
      while (std::ssize(words) < 2 + i * 17 % 41) words += text("word ", i * i % 19, ' ');
      out << Json{{"text", words.substr(0, static_cast<size_t>(2 + i * 17 % 41))}} << "\n";
    }
  }

  // Norms and biases that would show if they decayed.
  void write_models() const {
    at::manual_seed(1);
    for (const auto* name : {"qwen2", "llama"}) {
      const auto model = model_of(name, false);
      for (const auto& weight : model->parameters().weights())
        if (weight.shape().size() == 1) weight.value().add_(at::randn_like(weight.value()), 0.2);
      models::save_model(*model, place(name));
    }
    io::TensorMap adapters;
    const auto adapted = model_of("llama", true);
    for (const auto& weight : adapted->parameters().weights())
      if (nn::is_adapter(weight.name())) adapters.emplace(weight.name(), weight.value());
    io::write_safetensors(place("adapters.safetensors"), adapters);
  }

  Json records() const {
    data::DataConfig config;
    config.data_folder = place("texts");
    config.tokenizer = "bytes";
    const auto dataset = data::open_dataset(config, kLength, data::Task::lm);
    Json out = Json::array();
    for (int64_t i = 0; i < kRecords; ++i) {
      const auto batch = dataset->batch({&i, 1});
      const auto ids = batch.ids_BT[0].narrow(0, 0, batch.mask_BT.sum().item<int64_t>()).contiguous();
      out.push_back(std::vector<int64_t>(ids.const_data_ptr<int64_t>(), ids.const_data_ptr<int64_t>() + ids.numel()));
    }
    return out;
  }

  // What shade train will draw by default, for whole epochs.
  static Json order() {
    const privacy::PrivacyEvent event{.mechanism = {.sampler = privacy::Sampler::shuffled}};
    const auto sampler = make_sampler(event, kRecords, kBatch, privacy::seeded_key(kSeed));
    Json epochs = Json::array(), sizes = Json::array();
    std::vector<int64_t> epoch;
    for (int64_t step = 0; step < kSteps || !epoch.empty(); ++step) {
      const auto drawn = sampler->draw(step);
      sizes.push_back(drawn.size());
      epoch.insert(epoch.end(), drawn.begin(), drawn.end());
      if (std::ssize(epoch) == kRecords) epochs.push_back(std::exchange(epoch, {}));
    }
    return {{"epochs", epochs}, {"batches", sizes}};
  }

  void train(const Reference& reference, const OurRun& run) const {
    Options words{test::shade_binary(),
                  "train",
                  "--model",
                  place(reference.model),
                  "--tokenizer",
                  "bytes",
                  "--data-folder",
                  place("texts"),
                  "--output",
                  place(run.name),
                  "--seq-length",
                  std::to_string(kLength),
                  "--batch-size",
                  std::to_string(kBatch),
                  "--steps",
                  std::to_string(kSteps),
                  "--seed",
                  std::to_string(kSeed),
                  "--threads",
                  "1",
                  "--log-every",
                  "1",
                  "--peak-gflops",
                  "1",
                  "--save-interval",
                  "0",
                  reference.adapters ? "--export-adapter" : "--export",
                  place(run.name + (reference.adapters ? "/adapter" : "/model"))};
    for (const auto* more : {&reference.options, &run.options}) words.insert(words.end(), more->begin(), more->end());
    const auto seen = test::run(words);
    EXPECT_EQ(seen.status, 0) << run.name << "\n" << seen.output;
  }

  io::Scratch scratch_;
  std::string python_ = test::source_root() + "/.deps/peers/bin/python";
};

TEST_F(TransformersTraining, IsThatOfTheTrainerAndPeft) {
  write_records();
  write_models();
  Json cases{{"steps", kSteps}, {"records", records()}, {"references", Json::array()}};
  cases.update(order());
  int runs = 0;
  for (const auto& reference : references()) {
    Json line{{"model", place(reference.model)}, {"arguments", reference.arguments}, {"runs", Json::array()}};
    if (reference.adapters) {
      line["lora"] = {{"r", kRank}, {"lora_alpha", 8}, {"target_modules", {"q_proj", "v_proj"}}};
      line["adapters"] = place("adapters.safetensors");
    }
    for (const auto& run : reference.runs) {
      train(reference, run);
      line["runs"].push_back(run.name);
      ++runs;
    }
    cases["references"].push_back(line);
  }
  scratch_.write("cases.json", cases.dump());
  const auto seen =
      test::run({python_, test::source_root() + "/tests/train/transformers_training.py", scratch_.path().string()},
                {.environment = {{"PYTHONDONTWRITEBYTECODE", "1"}, {"OMP_NUM_THREADS", "1"}}, .limit = Seconds(240)});
  EXPECT_EQ(seen.status, 0) << seen.output;
  EXPECT_NE(seen.output.find(text(runs, " of ", runs, " runs are those of transformers")), std::string::npos)
      << seen.output;
  std::printf("%s", seen.output.c_str());
}

}  // namespace
}  // namespace shade::train
