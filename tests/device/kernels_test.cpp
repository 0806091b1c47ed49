// What runs on the emulated device is what runs on the CPU, and arguments of two places are refused.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "tests/device/planted.h"

namespace shade::test::device {
namespace {

class DeviceKernels : public DeviceTest {};

double distance(const at::Tensor& on_device, const at::Tensor& expected) {
  EXPECT_EQ(on_device.device(), shadow());
  return (on_device.cpu() - expected).abs().max().item<double>();
}

TEST_F(DeviceKernels, AreTheCpus) {
  const auto x = at::randn({4, 8}), y = at::randn({8, 3});
  const auto x_d = x.to(shadow()), y_d = y.to(shadow());
  EXPECT_EQ(distance(x_d.mm(y_d), x.mm(y)), 0);
  EXPECT_EQ(distance(x_d + 1, x + 1), 0);
  EXPECT_EQ(distance(at::softmax(x_d, 1), at::softmax(x, 1)), 0);
  EXPECT_EQ(distance(x_d.sum(1), x.sum(1)), 0);
  EXPECT_EQ(distance(at::cat({x_d, x_d}), at::cat({x, x})), 0);
  EXPECT_EQ(distance(x_d.to(at::kBFloat16).to(at::kFloat), x.to(at::kBFloat16).to(at::kFloat)), 0);
  EXPECT_EQ(distance(at::arange(5, x_d.options()), at::arange(5, x.options())), 0);
  EXPECT_EQ(distance(x_d.index_select(0, at::tensor({2, 0}).to(shadow())), x.index_select(0, at::tensor({2, 0}))), 0);
  EXPECT_EQ(distance(std::get<0>(at::sort(x_d, 1)), std::get<0>(at::sort(x, 1))), 0);
  EXPECT_EQ(distance(x_d * at::scalar_tensor(2.0), x * 2), 0);  // a scalar of the CPU may take part
}

TEST_F(DeviceKernels, ViewsShareTheMemory) {
  const auto x = at::randn({4, 8}).to(shadow());
  const auto before = counters(0).launches;
  const auto part = x.narrow(0, 1, 2).t().unsqueeze(0).view({8, 2}).unfold(0, 2, 2);
  EXPECT_EQ(counters(0).launches, before);
  part.zero_();
  EXPECT_EQ(counters(0).launches, before + 1);
  EXPECT_EQ(x.narrow(0, 1, 2).abs().sum().item<float>(), 0);
  EXPECT_GT(x.narrow(0, 3, 1).abs().sum().item<float>(), 0);
  auto other = at::empty({0}, x.options());
  other.set_(x.storage(), 8, {2, 8}, {8, 1});
  EXPECT_TRUE(other.is_alias_of(x));
  EXPECT_EQ(other.sum().item<float>(), 0);
}

TEST_F(DeviceKernels, ResizeKeepsWhatWasThere) {
  const auto x = at::arange(4, at::TensorOptions(at::kFloat).device(shadow()));
  x.resize_({4000});
  EXPECT_EQ(x.narrow(0, 0, 4).sum().item<float>(), 6);
  auto out = at::empty({0}, x.options());
  at::mul_out(out, x.narrow(0, 0, 4), x.narrow(0, 0, 4));
  EXPECT_EQ(out.sum().item<float>(), 14);
}

TEST_F(DeviceKernels, EmptyTensorsKeepTheirShape) {
  const auto none = at::empty({0, 7}, shadow()) > 0;
  EXPECT_EQ(at::logical_and(none, none).sizes(), none.sizes());
  EXPECT_EQ(none.sum(0).sum().item<int64_t>(), 0);
}

TEST_F(DeviceKernels, AutogradRunsOnTheDevice) {
  const auto x = at::randn({4, 8});
  auto w = at::randn({3, 8}), w_d = w.to(shadow());
  w.set_requires_grad(true);
  w_d.set_requires_grad(true);
  torch::autograd::backward({at::linear(x, w).pow(2).sum()}, {});
  torch::autograd::backward({at::linear(x.to(shadow()), w_d).pow(2).sum()}, {});
  EXPECT_EQ(distance(w_d.grad(), w.grad()), 0);
}

// Where a kernel is made of TensorIterator, libtorch itself refuses, as for CUDA.
constexpr auto kTwoPlaces = "Expected all tensors to be on the same device, but found at least two devices, ";

TEST_F(PlantedFault, CpuTensorInAKernel) {
  const auto x = at::ones({2}, shadow());
  EXPECT_TRUE(refused([&] { x + at::ones({2}); }, {kTwoPlaces}));
  EXPECT_TRUE(refused([&] { at::ones({2}) + x; }, {kTwoPlaces}));
  EXPECT_TRUE(refused([&] { at::ones({2}).add_(x); }, {kTwoPlaces}));
  EXPECT_TRUE(refused([&] { at::scalar_tensor(1.0).add_(x.sum()); }, {kTwoPlaces}));
  EXPECT_TRUE(refused([&] { at::scalar_tensor(1.0).masked_fill_(x.sum() > 0, 1); },
                      {"on stream 0 of shadow:0 got a CPU tensor of [] together with storage #"}));
  EXPECT_TRUE(
      refused([&] { x.index_select(0, at::tensor({0})); },
              {"aten::index_select on stream 0 of shadow:0 got a CPU tensor of [1]", "move it to shadow:0 first"}));
  EXPECT_TRUE(refused([&] { at::cat({x, at::ones({2})}); }, {"got a CPU tensor of [2]"}));
  EXPECT_TRUE(refused([&] { x.view({1, 2}).mm(at::ones({2, 1})); }, {"got a CPU tensor of [2, 1]"}));
}

TEST_F(PlantedFault, TwoDevicesInAKernel) {
  const auto x = at::ones({2}, shadow(0)), y = at::ones({2}, shadow(1));
  EXPECT_TRUE(refused([&] { x + y; }, {kTwoPlaces}));
  EXPECT_TRUE(refused([&] { at::cat({x, y}); }, {"aten::cat", "got tensors of two devices: storage #",
                                                 "bytes of shadow:0", "bytes of shadow:1"}));
  EXPECT_EQ(y.to(shadow(0)).add(x).sum().item<float>(), 4);  // a copy is the way
}

TEST_F(PlantedFault, GeneratorOfTheCpu) {
  EXPECT_TRUE(refused([] { at::empty({2}, shadow()).normal_(0, 1, at::detail::createCPUGenerator(1)); },
                      {"aten::normal_ got a generator of the CPU"}));
}

}  // namespace
}  // namespace shade::test::device
