#include "shade/models/model.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>

#include "shade/models/registry.h"
#include "shade/nn/gradients.h"
#include "tests/models/golden.h"
#include "tests/support/fault.h"

namespace shade::models {
namespace {

const std::vector<std::string> kNano{"llama-nano", "mistral-nano", "qwen2-nano",
                                     "qwen3-nano", "dit-nano",     "linear-nano"};

// Which units were entered and left, in order.
class Diary : public nn::UnitObserver {
 public:
  explicit Diary(const nn::Parameters& p) : parameters_(p) {}
  void enter(nn::UnitId unit, nn::Pass pass) override { write('+', unit, pass); }
  void leave(nn::UnitId unit, nn::Pass pass) override { write('-', unit, pass); }
  std::string forward, backward;

 private:
  void write(char sign, nn::UnitId unit, nn::Pass pass) {
    auto& diary = pass == nn::Pass::forward ? forward : backward;
    diary += text(diary.empty() ? "" : " ", sign, parameters_.units()[static_cast<size_t>(unit)].name);
  }
  const nn::Parameters& parameters_;
};

TEST(Model, EveryWeightGetsAGradientOnceBackwardRan) {
  for (const auto& name : kNano) {
    const auto model = make_model(name, {}, {});
    nn::bind_all(model->parameters(), at::kFloat, 1);
    nn::PlainGradients gradients;
    model->parameters().wiring.tap = &gradients;
    torch::autograd::backward({model->losses(model->synthetic({3, 10}, 2, at::kFloat)).sum()}, {});
    for (const auto& weight : model->parameters().weights())
      EXPECT_TRUE(gradients.has(weight)) << name << " " << weight.name();
  }
}

// Read in pieces, with the keys and values of those before kept, a text has the logits that it has as a whole.
TEST(Model, CachedKeysAndValuesChangeNothing) {
  for (const auto* name : {"llama-nano", "qwen2-nano", "mistral-nano", "qwen3-nano"})
    for (const auto kernel : {nn::AttentionKernel::flash, nn::AttentionKernel::standard}) {
      const auto model = make_model(
          name, {}, {.task = Task::lm, .attention = kernel, .lora = nn::LoraOptions{}, .lora_targets = {"q_proj"}});
      nn::bind_all(model->parameters(), at::kDouble, 1);
      const auto ids_BT = model->synthetic({2, 12}, 2, at::kDouble).ids_BT;
      const auto logits_BTV = model->outputs({.ids_BT = ids_BT});
      nn::KvCache past(12);
      for (const int64_t piece : {5, 1, 3, 1, 2}) {
        const auto found = model->next_logits(ids_BT.narrow(1, past.length(), piece), past);
        EXPECT_TRUE(at::allclose(found, logits_BTV.select(1, past.length() - 1), 1e-10, 1e-12))
            << name << " " << to_string(kernel) << " after " << past.length();
      }
      EXPECT_EQ(past.length(), 12);
    }
}

TEST(Model, UnitsAreEnteredAndLeftInBothDirections) {
  for (const auto checkpointing : {Checkpointing::none, Checkpointing::block}) {
    const auto diary_of = [&](const char* name) {
      const auto model = make_model(name, {}, {.checkpointing = checkpointing});
      nn::bind_all(model->parameters(), at::kFloat, 1);
      Diary diary(model->parameters());
      nn::PlainGradients gradients;
      model->parameters().wiring = {&gradients, &diary};
      torch::autograd::backward({model->losses(model->synthetic({2, 6}, 2, at::kFloat)).sum()}, {});
      return std::pair{diary.forward, diary.backward};
    };
    EXPECT_EQ(diary_of("llama-nano").first, "+embed -embed +layers.0 -layers.0 +layers.1 -layers.1 +head -head");
    EXPECT_EQ(diary_of("llama-nano").second, "+head -head +layers.1 -layers.1 +layers.0 -layers.0 +embed -embed");
    EXPECT_EQ(diary_of("qwen2-nano").first,
              "+embed -embed +layers.0 -layers.0 +layers.1 -layers.1 +embed +head -head -embed");
    EXPECT_EQ(diary_of("qwen2-nano").second,
              "+embed +head -head -embed +layers.1 -layers.1 +layers.0 -layers.0 +embed -embed");
    EXPECT_EQ(diary_of("dit-nano").second, "+final -final +blocks.1 -blocks.1 +blocks.0 -blocks.0 +embed -embed");
    EXPECT_EQ(diary_of("linear-nano").second, "+layers.2 -layers.2 +layers.1 -layers.1 +layers.0 -layers.0");
  }
}

TEST(Model, InitialisationFollowsTheNameNotTheOrder) {
  const auto small = make_model("llama-nano", {}, {});
  const auto deeper = make_model("llama-nano", {.num_layers = 3}, {.task = Task::classify});
  nn::bind_all(small->parameters(), at::kFloat, 7);
  nn::bind_all(deeper->parameters(), at::kFloat, 7);
  for (const auto& weight : small->parameters().weights()) {
    const auto* twin = deeper->parameters().find(weight.name());
    if (twin == nullptr) continue;
    EXPECT_TRUE(at::equal(weight.value(), twin->value())) << weight.name();
  }
  // A rank that owns a piece makes that piece alone.
  const auto& weight = small->parameters().weights()[0];
  auto piece = at::empty({1001});
  nn::initialise(piece, weight, 7, 333);
  EXPECT_TRUE(at::equal(piece, weight.value().view(-1).narrow(0, 333, 1001)));
  EXPECT_NEAR(weight.value().std().item<double>(), 0.02, 5e-4);
  EXPECT_NEAR(weight.value().mean().item<double>(), 0, 1e-3);
}

// facebookresearch/DiT, initialize_weights: by kind of layer, whatever the name.
TEST(Model, ADitBeginsAsPublished) {
  const auto model = make_model("dit-nano", {.hidden_dim = 128, .patch_size = 2}, {});
  nn::bind_all(model->parameters(), at::kFloat, 3);
  const auto is_any = [](const std::string& name, std::initializer_list<const char*> parts) {
    return std::any_of(parts.begin(), parts.end(), [&](const char* part) { return name.find(part) != name.npos; });
  };
  for (const auto& weight : model->parameters().weights()) {
    const auto& name = weight.name();
    const auto value = weight.value();
    if (is_any(name, {"bias", "adaLN_modulation", "final_layer"})) {
      EXPECT_EQ(value.abs().max().item<double>(), 0) << name;
    } else if (is_any(name, {"t_embedder", "y_embedder", "pos_embed"})) {
      EXPECT_NEAR(value.std().item<double>(), 0.02, 1.5e-3) << name;
      EXPECT_GT(value.abs().max().item<double>(), 0.05) << name << " is normal";
    } else {
      const auto out = static_cast<double>(value.size(0)), in = static_cast<double>(value.numel()) / out;
      const double bound = std::sqrt(6 / (in + out)), largest = value.abs().max().item<double>();
      EXPECT_LE(largest, bound * (1 + 1e-6)) << name;
      EXPECT_GT(largest, bound * 0.99) << name;
      EXPECT_NEAR(value.std().item<double>(), bound / std::sqrt(3), bound * 0.03) << name;
      EXPECT_NEAR(value.mean().item<double>(), 0, bound * 0.05) << name;
      auto piece = at::empty({501});
      nn::initialise(piece, weight, 3, 37);
      EXPECT_TRUE(at::equal(piece, value.view(-1).narrow(0, 37, 501))) << "a rank makes its piece alone: " << name;
    }
  }
}

// PEFT: kaiming_uniform_(A, a=sqrt(5)) is U(-1 / sqrt(in), 1 / sqrt(in)), and B is 0.
TEST(Model, AdaptersBeginAsThoseOfPeft) {
  const auto model = make_model(
      "llama-nano", {}, {.lora = nn::LoraOptions{.rank = 64, .alpha = 16}, .lora_targets = {"q_proj", "down_proj"}});
  nn::bind_all(model->parameters(), at::kFloat, 7);
  int adapters = 0;
  for (const auto& weight : model->parameters().weights()) {
    const auto value = weight.value();
    if (weight.name().find("lora_B") != std::string::npos) EXPECT_TRUE(value.eq(0).all().item<bool>()) << weight.name();
    if (weight.name().find("lora_A") == std::string::npos) continue;
    ++adapters;
    const double bound = 1 / std::sqrt(static_cast<double>(weight.shape()[1]));
    EXPECT_LE(value.abs().max().item<double>(), bound) << weight.name();
    EXPECT_GT(value.abs().max().item<double>(), 0.99 * bound) << weight.name();
    EXPECT_NEAR(value.std().item<double>(), bound / std::sqrt(3), 0.03 * bound) << weight.name();
    EXPECT_NEAR(value.mean().item<double>(), 0, 0.05 * bound) << weight.name();
    auto piece = at::empty({101});
    nn::initialise(piece, weight, 7, 33);
    EXPECT_TRUE(at::equal(piece, value.view(-1).narrow(0, 33, 101)));
  }
  EXPECT_EQ(adapters, 4);
}

TEST(Model, DryRunsOnMetaTensors) {
  for (const std::string name : {"llama3-8b", "qwen2-1.5b", "dit-l", "dit-l as published"}) {
    const auto model =
        name == "dit-l as published"
            ? make_model("dit-l", {.num_layers = 2, .positions = nn::Positions::sincos, .learn_sigma = true}, {})
            : make_model(name, {.num_layers = 2}, {});
    nn::bind_all(model->parameters(), at::TensorOptions(at::kMeta).dtype(at::kBFloat16), 1);
    nn::PlainGradients gradients;
    model->parameters().wiring.tap = &gradients;
    const auto batch = model->synthetic({1, 128}, 1, at::kBFloat16).to(at::kMeta);
    torch::autograd::backward({model->losses(batch).sum()}, {});
    for (const auto& weight : model->parameters().weights())
      EXPECT_EQ(gradients.has(weight), weight.trainable()) << name << " " << weight.name();
  }
}

// A rank without samples must run all the same: the others wait for its collectives.
TEST(Model, RunsWithoutSamples) {
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    for (const auto& name : {"llama-nano", "qwen2-nano", "dit-nano", "linear-nano"}) {
      for (const auto attention : {nn::AttentionKernel::flash, nn::AttentionKernel::standard}) {
        const auto model = make_model(name, {}, {.attention = attention});
        nn::bind_all(model->parameters(), type, 1);
        nn::PlainGradients gradients;
        model->parameters().wiring.tap = &gradients;
        const auto losses = model->losses(model->synthetic({2, 6}, 2, type).rows(1, 0));
        EXPECT_EQ(losses.numel(), 0);
        torch::autograd::backward({losses.sum()}, {});
        for (const auto& weight : model->parameters().weights())
          EXPECT_EQ(gradients.of(weight).abs().sum().item<double>(), 0) << name << " " << weight.name();
      }
    }
  }
}

TEST(Model, LoraTrainsAdaptersAlone) {
  const auto model =
      make_model("qwen2-nano", {},
                 {.task = Task::classify, .lora = nn::LoraOptions{.rank = 4}, .lora_targets = {"q_proj", "down_proj"}});
  nn::bind_all(model->parameters(), at::kFloat, 1);
  nn::PlainGradients gradients;
  model->parameters().wiring.tap = &gradients;
  const auto batch = model->synthetic({2, 6}, 2, at::kFloat);
  torch::autograd::backward({model->losses(batch).sum()}, {});
  int trained = 0;
  for (const auto& weight : model->parameters().weights()) {
    EXPECT_EQ(gradients.has(weight), weight.trainable()) << weight.name();
    trained += weight.trainable() ? 1 : 0;
  }
  EXPECT_EQ(trained, 2 * 2 * 2 + 1);
  // B begins at zero: the adapted model begins as the base model.
  const auto base = make_model("qwen2-nano", {}, {.task = Task::classify});
  nn::bind_all(base->parameters(), at::kFloat, 1);
  EXPECT_TRUE(at::equal(base->outputs(batch), model->outputs(batch)));
}

// Without this a misspelled target leaves layers without an adapter.
TEST(Model, EveryLoraTargetNamesALayer) {
  const auto said = [](const std::vector<std::string>& targets) {
    return test::fault(
        [&] { make_model("llama-nano", {}, {.lora = nn::LoraOptions{.rank = 2}, .lora_targets = targets}); });
  };
  const std::string all = "; expected some of q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj";
  EXPECT_EQ(said({"q_proj", "nonsense"}), "LoRA target 'nonsense' matches no linear layer" + all);
  EXPECT_EQ(said({"q_prj"}), "LoRA target 'q_prj' matches no linear layer; did you mean 'q_proj'?" + all);
  EXPECT_NE(said({}), "no error");
  // The list is that of the layers that are there.
  for (const auto* target : {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}) {
    const auto model = make_model("llama-nano", {}, {.lora = nn::LoraOptions{.rank = 2}, .lora_targets = {target}});
    int64_t trained = 0;
    for (const auto& weight : model->parameters().weights()) trained += weight.trainable() ? 1 : 0;
    EXPECT_EQ(trained, 2 * 2) << target;
  }
}

TEST(Model, AWeightThatIsNotHeldIsNamed) {
  const auto model = make_model("llama-nano", {}, {});
  nn::bind_all(model->parameters(), at::kFloat, 1);
  model->parameters().find("model.layers.1.mlp.up_proj.weight")->release();
  try {
    model->losses(model->synthetic({1, 4}, 1, at::kFloat));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(
        std::string(error.what()).find("model.layers.1.mlp.up_proj.weight was read while its unit is not gathered"),
        std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace shade::models
