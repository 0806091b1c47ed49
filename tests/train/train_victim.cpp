// A trainer that comes to grief on purpose:  train_victim FOLDER STRATEGY [RANK SPAN COUNT]
// RANK kills itself (SIGKILL) when the span of that name ends there for the COUNT-th time. The product has no such
// switch: what listens here is what a profiler would use.
#include <ATen/Parallel.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "shade/base/span.h"
#include "shade/comm/errors.h"
#include "shade/train/run/trainer.h"

namespace {

using namespace shade;

class Killer : public SpanListener {
 public:
  Killer(SpanName span, int64_t count) : span_(span), left_(count) { Span::listen(this); }
  void ended(const SpanRecord& record) noexcept override {
    if (span_ == record.name && --left_ == 0) ::kill(::getpid(), SIGKILL);
  }

 private:
  SpanName span_;
  std::atomic<int64_t> left_;
};

int run(const std::vector<std::string>& words) {
  at::set_num_threads(1);
  train::Recipe recipe;
  Config config;
  recipe.declare(config);
  for (const auto& [key, word] :
       std::vector<std::pair<std::string, std::string>>{{"model.task", "lm"},         {"model.from_scratch", "true"},
                                                        {"train.synthetic", "true"},  {"train.output", words.at(0)},
                                                        {"shard.shard", words.at(1)}, {"train.steps", "7"},
                                                        {"train.batch_size", "6"},    {"train.seq_length", "8"},
                                                        {"train.records", "30"},      {"train.micro_batch", "2"},
                                                        {"train.eval_rate", "0.15"},  {"train.eval_every", "3"},
                                                        {"train.save_every", "2"},    {"train.keep", "2"},
                                                        {"train.log_every", "1"},     {"train.threads", "1"},
                                                        {"train.peak_gflops", "100"}, {"dp.dp", "flash_bookkeeping"},
                                                        {"dp.noise_seed", "3"},       {"optim.lr", "1e-2"}})
    config.set(key, word);
  auto world = comm::World::connect(comm::place_from_environment(), recipe.comm,
                                    {.overdue = [](const comm::Loss& loss) { std::_Exit(loss.exit_status()); }});
  std::optional<Killer> killer;
  if (words.size() == 5 && std::stoi(words[2]) == world.rank())
    killer.emplace(parse_name<SpanName>(words[3]), std::stoll(words[4]));
  try {
    train::Trainer trainer(world, train::resolve(recipe, config.stated(), world.size()), nullptr, {.quiet = true});
    trainer.run();
  } catch (...) {
    world.fail(std::current_exception());
    throw;
  }
  world.leave();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const comm::PeerLost&) {
    return comm::kPeerLostStatus;
  } catch (const std::exception& fault) {
    std::fprintf(stderr, "%s\n", fault.what());
    return 1;
  }
}
