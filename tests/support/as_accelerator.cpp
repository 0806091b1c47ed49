// Source of a test that runs twice: with SHADE_AS_ACCELERATOR set, all of it computes as on an accelerator
// (nn/launches.h), in blocks so small that a layer of a small model has several.
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>

#include "shade/nn/launches.h"

namespace shade::test {
namespace {

class Accelerator : public testing::Environment {
 public:
  void SetUp() override {
    if (std::getenv("SHADE_AS_ACCELERATOR") != nullptr) as_.emplace(KiB(16));
  }
  void TearDown() override { as_.reset(); }

 private:
  std::optional<nn::AsAccelerator> as_;
};

const auto* const kAccelerator = testing::AddGlobalTestEnvironment(new Accelerator);

}  // namespace
}  // namespace shade::test
