#include "shade/comm/job/session.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <algorithm>
#include <random>

#include "shade/base/strings.h"
#include "shade/comm/job/sealed_store.h"
#include "shade/comm/store.h"

namespace shade::comm {
namespace {

std::string note_key(int rank) { return text("shade/lobby/note/", rank); }
std::string answer_key(const std::string& word) { return text("shade/lobby/answer/", word); }

std::string new_word() {
  std::random_device device;  // the system's
  return text(device(), "-", device(), "-", device(), "-", device());
}

// What `rank` has left in the lobby, if anything, as `reader` sees it.
std::optional<std::string> note_of(c10d::Store& store, int rank, int reader) {
  try {
    return peek(store, note_key(rank));
  } catch (const SealBroken&) {
    throw other_secret({rank}, reader, note_key(rank));
  }
}

}  // namespace

CommError other_secret(const std::vector<int>& theirs, int own, const std::string& key) {
  return CommError(text(theirs.size() == 1 ? "rank " : "ranks ", ranges(theirs), theirs.size() == 1 ? " has" : " have",
                        " another job secret than rank ", own, ": ", key,
                        " in the store doesn't open. Start all ranks with the same SHADE_SECRET or SHADE_SECRET_FILE "
                        "(SECURITY.md)"));
}

SessionHost::SessionHost(c10::intrusive_ptr<c10d::Store> store, int size)
    : store_(std::move(store)), session_(new_word()), answered_(static_cast<size_t>(size)) {
  store_->set(note_key(0), new_word());  // says nothing, but opens for ranks that have the same secret
}

void SessionHost::answer(int first) {
  for (auto rank = static_cast<size_t>(std::max(1, first)); rank < answered_.size(); ++rank) {
    const auto word = note_of(*store_, static_cast<int>(rank), 0);
    if (!word || *word == answered_[rank]) continue;
    store_->set(answer_key(*word), session_);
    answered_[rank] = *word;
  }
}

SessionClient::SessionClient(c10::intrusive_ptr<c10d::Store> store, int rank)
    : store_(std::move(store)), rank_(rank), word_(new_word()) {
  store_->set(note_key(rank), word_);
}

std::optional<std::string> SessionClient::session() {
  note_of(*store_, 0, rank_);
  return peek(*store_, answer_key(word_));
}

}  // namespace shade::comm
