#include "shade/measure/collectives.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "shade/base/median.h"
#include "shade/base/terminal.h"
#include "shade/comm/partition.h"
#include "shade/nn/device.h"

namespace shade::measure {

using comm::Collective;

void CollectivesConfig::declare(Fields& fields) {
  fields.add("sizes", sizes, {.help = "sizes of the full buffer, comma-separated", .min = 8, .flags = {"--sizes"}});
  fields.add("collectives", collectives,
             {.help = "names of the collectives to measure, comma-separated", .flags = {"--collectives"}});
  fields.add("dtype", dtype, {.help = "data type of the elements", .flags = {"--dtype"}});
  fields.add(
      "iterations", iterations,
      {.help = "number of measured repetitions, of which the best is reported", .min = 1, .flags = {"--num-iter"}});
  fields.add("warmup", warmup,
             {.help = "number of repetitions before measuring", .min = 0, .flags = {"--warmup-iter"}});
}

Json CollectiveRow::json() const {
  return {{"collective", to_string(collective)},
          {"bytes", bytes.count},
          {"ranks", ranks},
          {"dtype", to_string(dtype)},
          {"ours_ms", Millis(ours).count()},
          {"stock_ms", Millis(stock).count()},
          {"ratio", ratio()},
          {"ours_median_ms", Millis(ours_median).count()},
          {"stock_median_ms", Millis(stock_median).count()}};
}

namespace {

// The buffers of one row; run() issues the collective on a group and waits.
class Trial {
 public:
  Trial(Collective kind, Bytes bytes, Element dtype, const comm::World& world) : kind_(kind) {
    const int rank = world.rank(), ranks = world.size();
    const auto type = dtype == Element::bf16 ? at::kBFloat16 : at::kFloat;
    const auto item = static_cast<int64_t>(at::elementSize(type));
    // Stock collectives want equal parts: round down to a multiple of the ranks.
    const auto total = std::max<int64_t>(1, bytes.count / item / ranks) * ranks;
    const auto options = at::TensorOptions(world.device()).dtype(type);
    whole_ = at::ones({total}, options);
    other_ = at::ones({total}, options);
    slice_ = at::ones({comm::slice_of(total, ranks, rank).size}, options);
  }

  // Until it is done on the device too, where the transport's wait() only holds up what is issued later.
  void run(const comm::Group& group) const {
    issue(group);
    nn::Issued(whole_.device()).wait();
  }

 private:
  void issue(const comm::Group& group) const {
    switch (kind_) {
      case Collective::all_gather: return group.all_gather(whole_, slice_).wait();
      case Collective::reduce_scatter: return group.reduce_scatter(slice_, whole_).wait();
      case Collective::all_reduce: return group.all_reduce(whole_).wait();
      case Collective::all_to_all: return group.all_to_all(other_, whole_).wait();
      case Collective::broadcast: return group.broadcast(whole_).wait();
      case Collective::barrier: return group.barrier().wait();
    }
  }

  Collective kind_;
  at::Tensor whole_, other_, slice_;
};

// The time of the slowest rank: a collective is over when the last rank has its result.
std::vector<double> slowest(const comm::Group& control, const std::vector<double>& mine) {
  auto times = at::tensor(mine, at::kDouble);
  control.all_reduce(times, {.reduce = comm::Reduce::max}).wait();
  return {times.data_ptr<double>(), times.data_ptr<double>() + times.numel()};
}

}  // namespace

std::vector<CollectiveRow> measure_collectives(comm::World& world, const CollectivesConfig& config) {
  nn::use_device(world.device());
  const auto control = world.control("comm/control");
  const auto ours = world.group("comm/ours", {}, comm::Algorithms::best);
  const auto stock = world.group("comm/stock", {}, comm::Algorithms::native);
  std::vector<CollectiveRow> rows;
  Progress progress("measuring collectives", static_cast<int64_t>(config.collectives.size() * config.sizes.size()),
                    world.rank() == 0);
  for (const auto& name : config.collectives) {
    const auto kind = parse_name<Collective>(name);
    for (const auto bytes : config.sizes) {
      const Trial trial(kind, bytes, config.dtype, world);
      std::vector<double> ours_s, stock_s;
      for (int64_t i = 0; i < config.warmup + config.iterations; ++i) {
        for (const auto& [group, times] : {std::pair{&ours, &ours_s}, std::pair{&stock, &stock_s}}) {
          control.barrier().wait();
          const auto begin = Clock::now();
          trial.run(*group);
          if (i >= config.warmup) times->push_back(Seconds(Clock::now() - begin).count());
        }
      }
      ours_s = slowest(control, ours_s);
      stock_s = slowest(control, stock_s);
      rows.push_back({.collective = kind,
                      .bytes = bytes,
                      .ranks = world.size(),
                      .dtype = config.dtype,
                      .ours = Seconds(*std::min_element(ours_s.begin(), ours_s.end())),
                      .stock = Seconds(*std::min_element(stock_s.begin(), stock_s.end())),
                      .ours_median = Seconds(median(ours_s)),
                      .stock_median = Seconds(median(stock_s))});
      progress.advance(text(name, " ", to_string(bytes)));
    }
  }
  return rows;
}

}  // namespace shade::measure
