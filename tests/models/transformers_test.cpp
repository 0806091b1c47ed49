// A folder we write is a checkpoint of Hugging Face transformers: it loads there and computes the same.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "shade/io/safetensors_writer.h"
#include "shade/models/weights.h"
#include "tests/models/golden.h"
#include "tests/support/process.h"

namespace shade::models {
namespace {

struct Transformers : testing::Test {
  void SetUp() override {
    if (!std::filesystem::exists(python)) GTEST_SKIP() << "no transformers: run tools/bootstrap peers";
  }
  void TearDown() override { std::filesystem::remove_all(written); }

  std::string python = test::source_root() + "/.deps/peers/bin/python";
  std::filesystem::path written = std::filesystem::path(testing::TempDir()) / text("transformers_", ::getpid());
};

// All folders go to one process: importing transformers takes far longer than the rest.
TEST_F(Transformers, LoadsWhatWeWriteWithIdenticalLogits) {
  int folders = 0;
  for (const auto& name : test::golden_names()) {
    const test::Golden golden(name);
    if (!golden.has("input_ids")) continue;  // transformers has no DiT
    for (const auto type : {at::kFloat, at::kBFloat16}) {
      const auto model = golden.model({}, type);
      const auto logits = model->outputs(golden.batch(type));
      for (const auto& [layout, max_shard] : {std::pair{"single", GiB(1)}, std::pair{"sharded", KiB(10)}}) {
        const auto folder = written / name / text(at::toString(type), "_", layout);
        save_model(*model, folder, max_shard);
        ASSERT_EQ(std::filesystem::exists(folder / "model.safetensors"), layout == std::string("single"));
        io::write_safetensors(folder / "shade_logits.safetensors", {{"logits", logits}});
        ++folders;
      }
    }
  }
  const auto seen = test::run({python, test::source_root() + "/tools/golden/check_written.py", written.string()},
                              {.environment = {{"PYTHONDONTWRITEBYTECODE", "1"}}, .limit = Seconds(240)});
  EXPECT_EQ(seen.status, 0) << seen.output;
  EXPECT_NE(seen.output.find(text(folders, " folders load with identical logits")), std::string::npos) << seen.output;
}

}  // namespace
}  // namespace shade::models
