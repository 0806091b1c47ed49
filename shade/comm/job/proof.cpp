#include "shade/comm/job/proof.h"

#include <ATen/ATen.h>

#include "shade/comm/errors.h"
#include "shade/comm/job/task.h"

namespace shade::comm {
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
