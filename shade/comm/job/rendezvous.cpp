#include "shade/comm/job/rendezvous.h"

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <algorithm>
#include <array>
#include <thread>

#include "shade/base/strings.h"
#include "shade/comm/errors.h"
#include "shade/comm/job/roll_call.h"
#include "shade/comm/job/sealed_store.h"
#include "shade/comm/job/task.h"
#include "shade/comm/store.h"

namespace shade::comm {
namespace {

constexpr std::chrono::milliseconds kLook{5};  // how often rank 0 looks for those who come
constexpr const char* kHere = "place";         // of each rank: the size of its world and its transport
constexpr const char* kWord = "met";           // rank 0's: kAll, or why the world can't meet
constexpr const char* kAll = "all";

std::string mine(int rank) { return RollCall::key_of(kHere, rank); }

// Rank 0 leaves the store half of its time to the others.
void rest(Clock::time_point since) {
  std::this_thread::sleep_for(std::max<Clock::duration>(kLook, Clock::now() - since));
}

}  // namespace

Rendezvous::Rendezvous(c10::intrusive_ptr<c10d::Store> sealed, const Place& place, Seconds limit)
    : sealed_(std::move(sealed)), place_(place), limit_(limit) {}

std::string Rendezvous::did_not_come(std::span<const int> missing) const {
  return text(missing.size() == 1 ? "rank " : "ranks ", ranges(missing), " of ", place_.size,
              " did not come to the rendezvous at ", place_.store_host, ":", place_.store_port, " within ",
              to_string(limit_), " (world stated by ", place_.origin, "; --comm.rendezvous-timeout changes the limit)");
}

const std::string& Rendezvous::join() {
  if (!place_.store_reused) {
    session_ = kOnlySession;
  } else if (place_.rank == 0) {
    session_ = host_.emplace(sealed_, place_.size).session();
  } else {
    SessionClient client(sealed_, place_.rank);
    const auto deadline = Clock::now() + limit_;
    std::optional<std::string> name;
    while (!(name = client.session(deadline - Clock::now())))
      if (Clock::now() > deadline) throw CommError(did_not_come(std::array{0}));
    session_ = *name;
  }
  inside_ = c10::make_intrusive<c10d::PrefixStore>(text("shade/", session_), sealed_);
  return session_;
}

void Rendezvous::meet(const std::string& transport, const std::function<void()>& interrupt) {
  inside_->set(mine(place_.rank), text(place_.size, " ", transport));
  if (place_.rank != 0) return await_word(interrupt);
  try {
    gather(transport, interrupt);
  } catch (const PeerLost&) {
    throw;  // the others hear of it as we did
  } catch (const CommError& fault) {
    inside_->set(kWord, std::string(fault.what()));
    throw;
  }
  inside_->set(kWord, std::string(kAll));
}

void Rendezvous::gather(const std::string& transport, const std::function<void()>& interrupt) {
  std::vector<int> others;  // with another secret
  RollCall ranks(*inside_, kHere, place_.size, [&](int rank, const std::optional<std::string>& theirs) {
    if (!theirs) {
      others.push_back(rank);
      return;
    }
    const auto space = theirs->find(' ');
    const auto size = theirs->substr(0, space), speaks = theirs->substr(space + 1);
    if (size != std::to_string(place_.size))
      throw CommError(text("rank ", rank, " was started for a world of ", size, " ranks, rank 0 one of ", place_.size,
                           "; start all ranks with the same world size"));
    if (speaks != transport)
      throw CommError(text("rank ", rank, " speaks over ", speaks, ", rank 0 over ", transport,
                           "; does one host lack the GPU or driver of the other? State --comm.backend gloo to train on "
                           "CPUs, or give every rank a GPU"));
  });
  const auto deadline = Clock::now() + limit_;
  while (true) {
    const auto since = Clock::now();
    interrupt();
    if (host_) host_->answer(ranks.next());
    if (ranks.complete()) break;
    if (Clock::now() > deadline) {
      if (!inside_->check({mine(0)})) throw SealBroken(full_key(mine(0)), "was deleted");
      throw CommError(did_not_come(ranks.missing()));
    }
    rest(since);
  }
  host_.reset();
  if (!others.empty()) throw other_secret(others, 0, full_key(mine(others.front())));
}

// Rank 0 ends its own wait with a word, within a limit that began when it came.
void Rendezvous::await_word(const std::function<void()>& interrupt) {
  const auto deadline = Clock::now() + limit_;
  while (!wait_for(*inside_, kWord, std::max<Seconds>(deadline - Clock::now(), kLook))) {
    interrupt();
    if (Clock::now() < deadline) continue;
    if (!inside_->check({mine(place_.rank)})) throw SealBroken(full_key(mine(place_.rank)), "was deleted");
    if (!inside_->check({mine(0)})) throw CommError(did_not_come(std::array{0}));
    if (Clock::now() > deadline + limit_)
      throw CommError(text("rank 0 came to the rendezvous and sent nothing within ", to_string(limit_),
                           "; its own message says why"));
  }
  std::optional<std::string> word;
  try {
    word = peek(*inside_, kWord);
  } catch (const SealBroken&) {
    throw whose_secret_differs();
  }
  if (!word) throw SealBroken(full_key(kWord), "was deleted");
  if (*word != kAll) throw PeerLost(text("the world did not meet: ", *word));
}

bool Rendezvous::opens(const std::string& key) {
  try {
    peek(*inside_, key);
    return true;
  } catch (const SealBroken&) {
    return false;
  }
}

// Rank 0's word doesn't open: whose secret is another one? A few ranks show whether it is ours.
CommError Rendezvous::whose_secret_differs() {
  constexpr int kAsked = 64;
  std::vector<int> others;
  for (int rank = 0; rank < std::min(place_.size, kAsked); ++rank)
    if (!opens(mine(rank))) others.push_back(rank);
  if (others.empty()) return SealBroken(full_key(kWord), kForged);
  return other_secret(others, place_.rank, full_key(mine(others.front())));
}

void Rendezvous::say_farewell(bool hosts, Seconds limit) {
  constexpr const char* kFarewell = "farewell";
  inside_->set(RollCall::key_of(kFarewell, place_.rank), std::string("1"));
  if (!hosts) return;
  RollCall ranks(*inside_, kFarewell, place_.size, [&](int rank, const std::optional<std::string>& goodbye) {
    if (!goodbye)  // it would take the store from those who still work
      throw SealBroken(full_key(RollCall::key_of(kFarewell, rank)), kForged);
  });
  const auto deadline = Clock::now() + limit;
  while (!ranks.complete() && Clock::now() < deadline) std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

namespace {

constexpr Seconds kBetween{0.05};  // between two calls of interrupt

std::string name_of(int rank) { return text("proof of ", rank); }

}  // namespace

void prove(Transport& transport, const ProofOptions& options) {
  const auto ranks = static_cast<int64_t>(options.global_ranks.size());
  auto own = options.secret.seal(name_of(options.rank), {});
  const auto size = static_cast<int64_t>(own.size());
  const auto input = at::from_blob(own.data(), {size}, at::kByte).to(options.device, at::kByte, false, /*copy=*/true);
  const auto output = at::empty({size * ranks}, input.options());

  struct Outcome {
    at::Tensor proofs;
    std::exception_ptr fault;
  };
  auto outcome = std::make_shared<Outcome>();  // the task may outlive us
  auto pending = transport.submit({.kind = Collective::all_gather, .output = output, .input = input, .label = "proof"},
                                  {[](auto) {}, [](auto, auto) {}, [](auto) {}});
  Task waiting([outcome, pending = std::move(pending), output] {
    try {
      pending->wait();
      outcome->proofs = output.cpu();
    } catch (...) {
      outcome->fault = std::current_exception();
    }
  });
  const auto refuse = [&](const std::string& why) {
    const CommError error(text("group ", options.group, ": ", why,
                               ". Nothing of the run was sent; let only the job's hosts and its user reach its "
                               "ports (SECURITY.md)"));
    transport.abort(std::make_exception_ptr(error));
    throw error;
  };
  for (const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(options.limit);
       !waiting.ends_within(kBetween) && Clock::now() < deadline;) {
    try {
      options.interrupt();
    } catch (...) {
      transport.abort(std::current_exception());
      waiting.join_within(kBetween);
      throw;
    }
  }
  if (!waiting.join_within(Seconds(0)))
    refuse(text("not all ranks have proven within ", to_string(options.limit), " that they have the job secret"));
  if (outcome->fault) std::rethrow_exception(outcome->fault);
  for (int rank = 0; rank < ranks; ++rank) {
    const auto* const proof = outcome->proofs.data_ptr<uint8_t>() + size * rank;
    if (!options.secret.open(name_of(rank), {proof, own.size()}))
      refuse(text("the process in place of rank ", options.global_ranks[static_cast<size_t>(rank)],
                  " does not have the job secret"));
  }
}

}  // namespace shade::comm
