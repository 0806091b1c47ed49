// A rank that comes to grief on purpose:  rank_victim VICTIM HOW WHERE
//   HOW    kill | stop | exit | throw | none
//   WHERE  rendezvous, or a collective's name
// Every rank does one good round first; then the victim meets its fate with the collective under way.
#include <ATen/ATen.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <thread>

#include "shade/cli/verb.h"
#include "shade/comm/errors.h"

namespace {

using namespace shade;

void meet_fate(const std::string& how) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  std::fprintf(stderr, "FAULT %lld\n", static_cast<long long>(std::chrono::nanoseconds(now).count()));
  std::fflush(stderr);
  if (how == "kill") std::raise(SIGKILL);
  if (how == "stop") std::raise(SIGSTOP);
  if (how == "exit") std::_Exit(1);
  if (how == "throw") throw std::runtime_error("the victim's own words");
}

comm::Work issue(const comm::Group& group, const std::string& where, const at::Tensor& whole, const at::Tensor& slice,
                 const std::string& label) {
  switch (parse_name<comm::Collective>(where)) {
    case comm::Collective::all_gather: return group.all_gather(whole, slice, {.label = label});
    case comm::Collective::reduce_scatter: return group.reduce_scatter(slice, whole, {.label = label});
    case comm::Collective::all_reduce: return group.all_reduce(whole, {.label = label});
    case comm::Collective::all_to_all: return group.all_to_all(at::empty_like(whole), whole, {.label = label});
    case comm::Collective::broadcast: return group.broadcast(whole, {.label = label});
    case comm::Collective::barrier: return group.barrier({.label = label});
  }
  return {};
}

int run(int victim, const std::string& how, const std::string& where) {
  const auto place = comm::place_from_environment();
  const bool doomed = place.rank == victim;
  if (doomed && where == "rendezvous") meet_fate(how);
  cli::in_world(std::nullopt, {}, [&](comm::World& world) {
    const auto group = world.group("victims");
    const auto whole = at::ones({world.size() * 4'000'000});
    const auto slice = at::ones({4'000'000});
    issue(group, where, whole, slice, "unit 6").wait();
    std::this_thread::sleep_for(std::chrono::milliseconds(500));  // everybody's position is on the board
    if (doomed && how != "none") {
      // A broadcast's root is done once its bytes are out: the victim doesn't even start that one.
      comm::Work work;
      if (where != "broadcast" && where != "barrier") work = issue(group, where, whole, slice, "unit 7");
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      meet_fate(how);
      work.wait();
    }
    issue(group, where, whole, slice, "unit 7").wait();
    group.barrier({.label = "unit 8"}).wait();
  });
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 64;
  try {
    return run(std::atoi(argv[1]), argv[2], argv[3]);
  } catch (const comm::PeerLost& fault) {
    std::fprintf(stderr, "victim: %s\n", fault.what());
    return comm::kPeerLostStatus;
  } catch (const std::exception& fault) {
    std::fprintf(stderr, "victim: %s\n", fault.what());
    return 1;
  }
}
