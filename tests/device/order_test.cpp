// Accesses that no event orders are faults, whatever the timing.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <thread>

#include "shade/nn/autograd.h"
#include "tests/device/planted.h"

namespace shade::test::device {
namespace {

class DeviceOrder : public DeviceTest {};

at::Tensor ones(int64_t count) { return at::ones({count}, shadow()); }

TEST_F(DeviceOrder, EventsWaitsAndTheHostOrder) {
  const auto side = side_stream();
  const auto x = ones(10);
  wait_for(side, here());
  {
    const c10::StreamGuard on(side);
    x.add_(1);
  }
  guard().synchronizeStream(side);  // the host knows, and so does all that it launches from now on
  EXPECT_EQ(x.sum().item<float>(), 20);
}

TEST_F(DeviceOrder, ReadsNeedNoOrderAmongThemselves) {
  const auto one = side_stream(), other = side_stream();
  const auto x = ones(10);
  for (const auto& stream : {one, other}) {
    wait_for(stream, here());
    const c10::StreamGuard on(stream);
    x.sum();
  }
  EXPECT_TRUE(refused([&] { x.zero_(); }, {"not ordered after aten::sum"}));
  wait_for(here(), one);
  EXPECT_TRUE(refused([&] { x.zero_(); }, {"not ordered after aten::sum"}));
  wait_for(here(), other);
  x.zero_();
}

TEST_F(DeviceOrder, PartsOfAStorageAreApart) {
  const auto side = side_stream();
  const auto x = ones(10);
  wait_for(side, here());
  {
    const c10::StreamGuard on(side);
    x.narrow(0, 0, 5).zero_();
  }
  x.narrow(0, 5, 5).zero_();
  EXPECT_TRUE(refused([&] { x.narrow(0, 4, 2).zero_(); }, {"not ordered after"}));
}

TEST_F(DeviceOrder, AutogradOrdersTheStreamsOfForward) {
  const auto side = side_stream();
  auto w = ones(4);
  w.set_requires_grad(true);
  wait_for(side, here());
  at::Tensor y;
  {
    const c10::StreamGuard on(side);
    y = (w * w).sum();
  }
  wait_for(here(), side);
  torch::autograd::backward({y}, {});
  EXPECT_EQ(w.grad().sum().item<float>(), 8);
}

TEST_F(DeviceOrder, EventsMeasureTimeAndTellTheEnd) {
  c10::Event first(c10::kPrivateUse1, c10::EventFlag::BACKEND_DEFAULT),
      last(c10::kPrivateUse1, c10::EventFlag::BACKEND_DEFAULT);
  first.record(here());
  ones(1000).sum();
  last.record(here());
  EXPECT_FALSE(last.query());  // the host is ahead
  EXPECT_TRUE(last.query());
  last.synchronize();
  EXPECT_GE(first.elapsedTime(last), 0);
}

TEST_F(PlantedFault, MissingWaitBetweenStreams) {
  const auto side = side_stream();
  const auto x = ones(10);
  const c10::StreamGuard on(side);
  EXPECT_TRUE(refused([&] { x.zero_(); },
                      {"aten::zero_ on stream ", "of shadow:0 writes storage #", "not ordered after",
                       "on stream 0 of shadow:0, which writes it: wait for an event of that stream first"}));
}

TEST_F(PlantedFault, EventRecordedTooEarly) {
  const auto side = side_stream();
  const auto x = ones(10);
  c10::Event event(c10::kPrivateUse1);
  event.record(here());
  x.add_(1);
  event.block(side);
  const c10::StreamGuard on(side);
  EXPECT_TRUE(refused([&] { x.sum(); }, {"not ordered after aten::add"}));
}

// Reads on a stream of its own what backward's stream has just written.
struct WrongStream : torch::autograd::Function<WrongStream> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) { return x.clone(); }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list gradients) {
    const c10::StreamGuard on(side_stream());
    return {gradients[0] * 2};
  }
};

TEST_F(PlantedFault, WrongStreamInBackward) {
  auto w = ones(4);
  w.set_requires_grad(true);
  const auto y = WrongStream::apply(w * 1).pow(2).sum();
  EXPECT_TRUE(refused([&] { torch::autograd::backward({y}, {}); },
                      {"aten::mul", "not ordered after", "on stream 0 of shadow:0"}));
}

TEST_F(PlantedFault, EventOfAnotherDevice) {
  c10::Event event(c10::kPrivateUse1);
  event.record(here(0));
  EXPECT_TRUE(
      refused([&] { event.record(here(1)); }, {"an event of shadow:0 can't be recorded on stream 0 of shadow:1"}));
}

TEST_F(PlantedFault, ThreadsHaveTheirOwnCurrentStream) {
  const auto side = side_stream();
  const c10::StreamGuard on(side);
  const auto x = ones(10);
  std::string seen;
  std::thread([&] { seen = fault_of([&] { x.sum(); }); }).join();
  EXPECT_TRUE(says(seen, {"on stream 0 of shadow:0 reads storage #"}));
}

}  // namespace
}  // namespace shade::test::device
