// What `auto` keeps of a layer depends on shapes and order alone.
#include "shade/privacy/clip/one_pass.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace shade::privacy {
namespace {

constexpr int64_t kT = 4, kD = 8, kP = 4;

struct Choices {
  Keep layer(const at::Tensor& a_BTD) { return chooser.choose({a_BTD, at::ones({1, kT, kP}), nullptr, nullptr}).keep; }
  Chooser chooser{row_of(MethodName::automatic), {}};
};

at::Tensor input() { return at::ones({1, kT, kD}); }

// An input that two layers share is kept once, which makes books the smaller choice for the second one.
TEST(Choice, AnInputOfTwoLayersCountsOnce) {
  Choices choices;
  const auto shared = input();
  EXPECT_EQ(choices.layer(shared), Keep::gradients);
  EXPECT_EQ(choices.layer(shared), Keep::books);
  EXPECT_EQ(choices.layer(shared.view({1, kT, kD})), Keep::books) << "a view is the same input";
  EXPECT_EQ(choices.layer(input()), Keep::gradients);
}

// With checkpointing a layer's input is freed and the next one may come to lie in its place.
TEST(Choice, DoesNotDependOnAddresses) {
  std::vector<float> place(kT * kD);
  Choices reused, apart;
  std::vector<at::Tensor> alive;
  for (int layer = 0; layer < 3; ++layer) EXPECT_EQ(apart.layer(alive.emplace_back(input())), Keep::gradients) << layer;
  for (int layer = 0; layer < 3; ++layer)
    EXPECT_EQ(reused.layer(at::from_blob(place.data(), {1, kT, kD})), Keep::gradients) << layer;
}

TEST(Choice, ForgetsTheLastMicroBatch) {
  Choices choices;
  const auto shared = input();
  choices.layer(shared);
  choices.chooser.begin();
  EXPECT_EQ(choices.layer(shared), Keep::gradients);
}

}  // namespace
}  // namespace shade::privacy
