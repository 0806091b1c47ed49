// The c10d backend in NCCL's place: its contract, and the faults that NCCL punishes late or never.
#include <ATen/ATen.h>
#include <c10/util/ScopeExit.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <latch>
#include <thread>

#include "shade/comm/backends/backends.h"
#include "shade/comm/errors.h"
#include "tests/device/planted.h"

namespace shade::test::device {
namespace {

class DeviceCollectives : public DeviceTest {};

using Group = c10::intrusive_ptr<c10d::Backend>;

struct Rank {
  int rank;
  Group group;
  at::Tensor full(double value, int64_t count) const {
    return at::full({count}, value, at::TensorOptions(at::kFloat).device(shadow(rank)));
  }
};

// Two ranks as threads, each with its device as the current one and its group connected. A rank begins when both are
// connected: one that ends sooner would close the connection that the other is still making.
void two_ranks(const std::function<void(Rank)>& body, Seconds limit = Seconds(60)) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::latch connected(2);
  const auto connect = [&](int rank) {
    const auto arrived = c10::make_scope_exit([&] { connected.count_down(); });
    return comm::make_nccl(store, rank, 2,
                           {.name = "g", .address = "127.0.0.1", .limit = limit, .device = comm::nccl_device(rank)});
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      try {
        guard().setDevice(shadow(rank));
        const auto group = connect(rank);
        connected.wait();
        body({rank, group});
        group->shutdown();
      } catch (const std::exception& fault) {
        ADD_FAILURE() << "rank " << rank << ": " << fault.what();
      }
    });
  for (auto& thread : threads) thread.join();
}

TEST_F(DeviceCollectives, Compute) {
  two_ranks([](const Rank& my) {
    auto mine = my.full(my.rank + 1, 4), all = my.full(0, 8), sum = my.full(0, 2);
    my.group->all_gather_single(all, mine)->wait();
    EXPECT_EQ(all.sum().item<float>(), 12);
    my.group->reduce_scatter_single(sum, mine)->wait();
    EXPECT_EQ(sum.sum().item<float>(), 6);
    std::vector<at::Tensor> tensors{mine};
    my.group->allreduce(tensors)->wait();
    EXPECT_EQ(mine.sum().item<float>(), 12);
    tensors = {my.full(my.rank, 3)};
    c10d::BroadcastOptions from;
    from.rootRank = 1;
    my.group->broadcast(tensors, from)->wait();
    EXPECT_EQ(tensors[0].sum().item<float>(), 3);
    my.group->barrier()->wait();
  });
  EXPECT_EQ(counters(0).collectives, 5);
  EXPECT_EQ(counters(0).groups_left_open, 0);
}

TEST_F(DeviceCollectives, WaitingIsTheStreamsNotTheHosts) {
  two_ranks([](const Rank& my) {
    if (my.rank == 1) std::this_thread::sleep_for(Seconds(0.3));
    auto mine = my.full(1, 4), all = my.full(0, 8);
    const auto begin = Clock::now();
    const auto work = my.group->all_gather_single(all, mine);
    work->wait();
    if (my.rank == 0) {
      EXPECT_LT(Clock::now() - begin, Seconds(0.2));
      EXPECT_FALSE(work->isCompleted());
    }
    EXPECT_EQ(counters(static_cast<c10::DeviceIndex>(my.rank)).synchronisations, 0);
    EXPECT_EQ(all.sum().item<float>(), 8);  // the host waits here
    EXPECT_TRUE(work->isCompleted());
  });
}

TEST_F(DeviceCollectives, FuturesCompleteAtTheIssueAndKeepTheOutputs) {
  two_ranks([](const Rank& my) {
    if (my.rank == 1) std::this_thread::sleep_for(Seconds(0.2));
    auto mine = my.full(1, 4), all = my.full(0, 8);
    const auto work = my.group->all_gather_single(all, mine);
    EXPECT_TRUE(work->getFuture()->completed());
    const auto device = static_cast<c10::DeviceIndex>(my.rank);
    EXPECT_EQ(counters(device).recorded_streams, 0);
    work->getFuture()->addCallback([](c10::ivalue::Future&) {});
    EXPECT_EQ(counters(device).recorded_streams, 1);  // a stream of the pool keeps the output, unasked
    work->wait();
  });
}

TEST_F(DeviceCollectives, AWorkThatNobodyWaitsForKeepsItsMemory) {
  two_ranks([](const Rank& my) {
    {
      auto mine = my.full(1, 4), all = my.full(0, 8);
      my.group->all_gather_single(all, mine);
    }
    my.full(0, 8);
    my.full(0, 4);
  });
}

TEST_F(PlantedFault, CpuTensorInACollective) {
  two_ranks([](const Rank& my) {
    auto mine = at::ones({4}), all = at::ones({8});
    EXPECT_TRUE(refused([&] { my.group->all_gather_single(all, mine); },
                        {"all_gather of group g on stream ", "got a tensor of cpu ([8]); tensors must be on shadow:"}));
    auto other = at::ones({4}, shadow(1 - my.rank)), here = my.full(0, 8);
    EXPECT_TRUE(refused([&] { my.group->all_gather_single(here, other); }, {"got a tensor of shadow:"}));
  });
}

TEST_F(PlantedFault, OutputReadBeforeTheWait) {
  two_ranks([](const Rank& my) {
    auto mine = my.full(1, 4), all = my.full(0, 8);
    const auto work = my.group->all_gather_single(all, mine);
    EXPECT_TRUE(refused([&] { all.sum(); }, {"aten::sum", "reads storage #", "not ordered after all_gather of group g",
                                             "which writes it"}));
    EXPECT_EQ(mine.sum().item<float>(), 4);  // the input may be read
    work->wait();
    EXPECT_EQ(all.sum().item<float>(), 8);
  });
}

TEST_F(PlantedFault, InputWrittenWhileUnderWay) {
  two_ranks([](const Rank& my) {
    auto mine = my.full(1, 4), all = my.full(0, 8);
    const auto work = my.group->all_gather_single(all, mine);
    EXPECT_TRUE(refused([&] { mine.zero_(); }, {"aten::zero_ on stream 0", "writes storage #",
                                                "not ordered after all_gather of group g", "which reads it"}));
    work->wait();
    mine.zero_();
  });
}

TEST_F(PlantedFault, InputNotReadyOnTheIssuingStream) {
  two_ranks([](const Rank& my) {
    auto mine = my.full(1, 4), all = my.full(0, 8);
    const auto side = side_stream(my.rank);
    const c10::StreamGuard on(side);
    EXPECT_TRUE(refused([&] { my.group->all_gather_single(all, mine); },
                        {"all_gather of group g on stream ", "reads storage #", "not ordered after aten::fill_"}));
  });
}

// A second stream that uses the output must wait, too: one wait orders one stream.
TEST_F(PlantedFault, WaitOfAnotherThreadsStream) {
  two_ranks([](const Rank& my) {
    auto mine = my.full(1, 4), all = my.full(0, 8);
    const auto work = my.group->all_gather_single(all, mine);
    work->wait();
    const auto side = side_stream(my.rank);
    std::string seen;
    std::thread([&] {
      const c10::StreamGuard on(side);
      seen = fault_of([&] { all.sum(); });
      work->wait();
      EXPECT_EQ(all.sum().item<float>(), 8);
    }).join();
    EXPECT_TRUE(says(seen, {"reads storage #", "not ordered after all_gather of group g"}));
  });
}

TEST_F(PlantedFault, FreedAfterTheWaitOfAnotherStream) {
  two_ranks([](const Rank& my) {
    const auto side = side_stream(my.rank);
    {
      auto mine = my.full(1, 400), all = my.full(0, 800);
      const auto work = my.group->all_gather_single(all, mine);
      const c10::StreamGuard on(side);
      work->wait();  // orders the side stream; the memory goes back to stream 0
    }
    EXPECT_TRUE(refused([&] { my.full(0, 800); },
                        {"aten::fill_", "on stream 0 of shadow:", "all_gather of group g", "it was freed too early"}));
  });
}

TEST_F(DeviceCollectives, AnOperationHasALimit) {
  two_ranks(
      [](const Rank& my) {
        auto mine = my.full(1, 4), all = my.full(0, 8);
        if (my.rank == 1) return std::this_thread::sleep_for(Seconds(0.6));
        const auto work = my.group->all_gather_single(all, mine);
        work->wait();
        guard().synchronizeStream(here(my.rank));
        EXPECT_TRUE(at::isnan(all).all().item<bool>());  // garbage, as the device would leave it
        EXPECT_THROW(work->wait(), comm::CommError);
      },
      Seconds(0.2));
}

TEST_F(DeviceCollectives, AbortBlocksUntilNothingIsUnderWay) {
  two_ranks([](const Rank& my) {
    auto mine = my.full(1, 4), all = my.full(0, 8);
    if (my.rank == 1) return std::this_thread::sleep_for(Seconds(0.3));
    const auto work = my.group->all_gather_single(all, mine);
    EXPECT_FALSE(work->isCompleted());
    my.group->abort();
    EXPECT_TRUE(work->isCompleted());
    EXPECT_THROW(work->wait(), comm::CommError);
    EXPECT_THROW(my.group->all_gather_single(all, mine), UsageError);
  });
}

}  // namespace
}  // namespace shade::test::device
