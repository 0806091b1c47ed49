// Images that are drawn, compared with those of the reference sampler in tools/golden/make_dit.py.
#include "shade/serve/sample_images.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "shade/base/error.h"
#include "shade/io/safetensors.h"
#include "shade/models/registry.h"
#include "shade/models/weights.h"
#include "tests/support/process.h"

namespace shade::serve {
namespace {

constexpr int64_t kSteps = 12;  // of the reference

std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(test::source_root()) / "tests/golden" / name;
}

std::unique_ptr<models::Model> model_of(const std::string& name) {
  auto model = models::make_model(golden(name).string(), {}, {});
  models::load_weights(model->parameters(), golden(name), at::kFloat, /*copy=*/true);
  return model;
}

TEST(SampleImages, AreThoseOfTheReference) {
  for (const char* name : {"dit", "dit_rect", "dit_published"}) {
    const auto model = model_of(name);
    const io::SafetensorsFile reference(golden(name) / "sampled.safetensors");
    const auto noise = reference.tensor("noise"), labels = reference.tensor("labels");
    for (const int guidance : {0, 1, 4}) {
      int64_t steps = 0;
      const auto images =
          sample_images(*model, noise, labels, {.steps = kSteps, .guidance = 1.0 * guidance}, [&] { ++steps; });
      const auto expected = reference.tensor("guidance_" + std::to_string(guidance));
      EXPECT_LT((images - expected).abs().max().item<double>(), 1e-4) << name << ", guidance " << guidance;
      EXPECT_EQ(steps, kSteps);
      EXPECT_LE(images.abs().max().item<double>(), 1);
      // Each image by itself is what it is among others.
      const auto alone = sample_images(*model, noise.narrow(0, 1, 1), labels.narrow(0, 1, 1),
                                       {.steps = kSteps, .guidance = 1.0 * guidance});
      EXPECT_LT((images[1] - alone[0]).abs().max().item<double>(), 1e-4);
    }
  }
}

TEST(SampleImages, NeedAModelThatCanDrawThem) {
  const auto noise = at::zeros({1, 3, 8, 8}), label = at::zeros({1}, at::kLong);
  const auto said = [&](models::Model& model, const ImageSampling& options) -> std::string {
    try {
      sample_images(model, noise, label, options);
    } catch (const UsageError& fault) {
      return fault.what();
    }
    return "";
  };
  const auto dit = model_of("dit");
  EXPECT_EQ(said(*dit, {.steps = 2, .guidance = 3}), "");
  EXPECT_EQ(said(*dit, {.steps = 1}), "");
  EXPECT_NE(said(*dit, {.steps = 1001}).find("expected 1 to 1000"), std::string::npos);
  EXPECT_NE(said(*model_of("llama_lm"), {}).find("draws no images"), std::string::npos);
}

}  // namespace
}  // namespace shade::serve
