// What is exported, from live ranks or from a checkpoint, is a model that transformers loads and computes the same
// with.
#include "shade/checkpoint/export.h"

#include <gtest/gtest.h>

#include "shade/checkpoint/store.h"
#include "shade/io/safetensors_writer.h"
#include "shade/io/weight_folder.h"
#include "shade/models/registry.h"
#include "shade/models/weights.h"
#include "shade/optim/sgd.h"
#include "tests/io/scratch.h"
#include "tests/models/golden.h"
#include "tests/support/process.h"
#include "tests/support/ranks.h"

namespace shade::checkpoint {
namespace {

using test::As;
using test::run_ranks;

struct Exported {
  io::Scratch scratch;
  int folders = 0;

  std::filesystem::path written() const { return scratch.path() / "written"; }

  // Two ranks of `strategy` take the golden's weights, export them, and save; the checkpoint is exported as well.
  void add(const std::string& name, shard::Strategy strategy, at::ScalarType type) {
    const test::Golden golden(name);
    const auto whole = golden.model({}, type);
    const auto logits = whole->outputs(golden.batch(type));
    const auto place = [&](const char* origin) {
      return written() / name / text(to_string(strategy), "_", at::toString(type), "_", origin);
    };
    const auto saves = scratch.path() / text(name, to_string(strategy), at::toString(type));
    run_ranks(2, As::threads, [&](comm::World& world) {
      const auto model = golden.model({}, at::kFloat);
      std::map<std::string, at::Tensor> values;
      for (const auto& weight : model->parameters().weights()) values[weight.name()] = weight.value().view(-1);
      shard::ShardConfig config;
      config.shard = strategy;
      shard::Runtime runtime(model->parameters(), connect_groups(world, shard::policy_of(config, 2)), config);
      runtime.fill([&](const nn::Weight& weight, int64_t begin, at::Tensor out) {
        out.copy_(values.at(weight.name()).narrow(0, begin, out.numel()));
      });
      const auto group = world.group("checkpoint");
      export_model(runtime, place("live"), model->config_json(), group, {.dtype = type});
      const auto optimizer = optim::make_sgd({});
      Store store(group, {.folder = saves});
      store.save(runtime, *optimizer, {});
      if (world.rank() == 0)
        export_checkpoint(store.latest()->folder, place("saved"), model->config_json(),
                          {.dtype = type, .max_shard = KiB(10)});
    });
    for (const auto* origin : {"live", "saved"}) {
      const io::WeightFolder folder(place(origin));
      for (const auto& weight : whole->parameters().weights())
        EXPECT_TRUE(at::equal(folder.tensor(weight.name()), weight.value())) << origin << " " << weight.name();
      io::write_safetensors(place(origin) / "shade_logits.safetensors", {{"logits", logits}});
      ++folders;
    }
  }
};

constexpr double kLoraScale = 1.5;

// An adapter's elements, which no golden has: a few waves. Its B is not zero here.
at::Tensor adapter_values(const nn::Weight& weight) {
  return at::sin(at::arange(weight.numel(), at::kFloat) * 0.7 + static_cast<double>(weight.id())) * 0.1;
}

// Two ranks export a golden with adapters; its outputs with them are those of the merged model without.
void add_adapted(Exported& exported, const std::string& name, shard::Strategy strategy) {
  const test::Golden golden(name);
  const io::WeightFolder source(golden.folder() / "model.safetensors");
  const models::ModelOptions options{.lora = nn::LoraOptions{.rank = 2, .alpha = 2 * kLoraScale},
                                     .lora_targets = {"q_proj", "v_proj", "down_proj"}};
  const auto make = [&] { return models::make_model(golden.folder().string(), {}, options); };
  const auto value = [&](const nn::Weight& weight) {
    return source.contains(weight.name()) ? source.tensor(weight.name()).to(at::kFloat).view(-1)
                                          : adapter_values(weight);
  };
  const auto whole = make();
  for (auto& weight : whole->parameters().weights()) weight.bind(value(weight).view(weight.shape()));
  const auto logits = whole->outputs(golden.batch(at::kFloat));
  const auto place = [&](const char* origin) {
    return exported.written() / name / text("lora_", to_string(strategy), "_", origin);
  };
  run_ranks(2, As::threads, [&](comm::World& world) {
    const auto model = make();
    shard::ShardConfig config;
    config.shard = strategy;
    shard::Runtime runtime(model->parameters(), connect_groups(world, shard::policy_of(config, 2)), config);
    runtime.fill([&](const nn::Weight& weight, int64_t begin, at::Tensor out) {
      out.copy_(value(weight).narrow(0, begin, out.numel()));
    });
    const auto group = world.group("checkpoint");
    const ExportOptions written{.lora_scale = kLoraScale};
    export_model(runtime, place("live"), model->config_json(), group, written);
    const auto optimizer = optim::make_sgd({});
    Store store(group, {.folder = exported.scratch.path() / text("lora", name, to_string(strategy))});
    store.save(runtime, *optimizer, {});
    if (world.rank() == 0) export_checkpoint(store.latest()->folder, place("saved"), model->config_json(), written);
  });
  for (const auto* origin : {"live", "saved"}) {
    const auto merged = models::make_model(place(origin).string(), {}, {});
    models::load_weights(merged->parameters(), place(origin), at::kFloat);  // and nothing else is there
    const auto found = merged->outputs(golden.batch(at::kFloat));
    EXPECT_LT(test::relative_difference(found, logits), 1e-5) << place(origin);
    EXPECT_GT(test::relative_difference(logits, golden.model({}, at::kFloat)->outputs(golden.batch(at::kFloat))), 1e-2)
        << "the adapters of this test do nothing";
    io::write_safetensors(place(origin) / "shade_logits.safetensors", {{"logits", logits}});
    ++exported.folders;
  }
}

TEST(Export, IsLoadedByTransformersWithIdenticalLogits) {
  Exported exported;
  exported.add("llama_lm", shard::Strategy::zero3, at::kFloat);
  exported.add("llama_lm", shard::Strategy::ddp, at::kBFloat16);
  exported.add("qwen2_lm_tied", shard::Strategy::zero2, at::kFloat);
  add_adapted(exported, "llama_classify", shard::Strategy::zero3);
  add_adapted(exported, "llama_lm", shard::Strategy::zero2);
  add_adapted(exported, "qwen2_lm_tied", shard::Strategy::ddp);
  const auto python = test::source_root() + "/.deps/peers/bin/python";
  if (!std::filesystem::exists(python)) GTEST_SKIP() << "no transformers: run tools/bootstrap peers";
  const auto seen =
      test::run({python, test::source_root() + "/tools/golden/check_written.py", exported.written().string()},
                {.environment = {{"PYTHONDONTWRITEBYTECODE", "1"}}, .limit = Seconds(240)});
  EXPECT_EQ(seen.status, 0) << seen.output;
  EXPECT_NE(seen.output.find(text(exported.folders, " folders load with identical logits")), std::string::npos)
      << seen.output;
}

TEST(Export, RefusesAdaptersWithoutTheirScaleOnAllRanks) {
  const io::Scratch scratch;
  run_ranks(2, As::threads, [&](comm::World& world) {
    nn::Parameters parameters;
    parameters.begin_unit("block");
    parameters.add("block.q_proj.lora_A.weight", {4, 2}, {});
    shard::ShardConfig config;
    config.shard = shard::Strategy::ddp;
    shard::Runtime runtime(parameters, connect_groups(world, shard::policy_of(config, 2)), config);
    EXPECT_NE(io::message_of<UsageError>([&] {
                export_model(runtime, scratch.path() / "out", "{}", world.group("checkpoint"));
              }).find("LoRA adapter 'block.q_proj.lora_A.weight'"),
              std::string::npos);
  });
}

}  // namespace
}  // namespace shade::checkpoint
