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
  const auto end = static_cast<int>(answered_.size());
  for (int begin = std::max(1, first); begin < end; begin += kTogether)
    answer_those(static_cast<size_t>(begin), static_cast<size_t>(std::min(begin + kTogether, end)));
}

void SessionHost::answer_those(size_t first, size_t end) {
  std::vector<std::string> notes;
  for (size_t rank = first; rank < end; ++rank) notes.push_back(note_key(static_cast<int>(rank)));
  std::vector<std::optional<std::string>> words(notes.size());
  std::optional<std::vector<std::string>> all;
  try {
    all = peek_all(*store_, notes);
  } catch (const SealBroken&) {  // whose it is, is seen one by one
  }
  for (size_t i = 0; i < notes.size(); ++i)
    words[i] = all ? (*all)[i] : note_of(*store_, static_cast<int>(first + i), 0);
  std::vector<std::string> keys;
  for (size_t i = 0; i < words.size(); ++i) {
    if (!words[i] || *words[i] == answered_[first + i]) continue;
    keys.push_back(answer_key(*words[i]));
    answered_[first + i] = *words[i];
  }
  if (!keys.empty())
    store_->multiSet(keys, std::vector(keys.size(), std::vector<uint8_t>(session_.begin(), session_.end())));
}

SessionClient::SessionClient(c10::intrusive_ptr<c10d::Store> store, int rank)
    : store_(std::move(store)), rank_(rank), word_(new_word()) {
  store_->set(note_key(rank), word_);
}

std::optional<std::string> SessionClient::session(Seconds limit) {
  if (limit > Seconds(0)) wait_for(*store_, note_key(0), limit);
  note_of(*store_, 0, rank_);
  if (limit > Seconds(0)) wait_for(*store_, answer_key(word_), limit);
  return peek(*store_, answer_key(word_));
}

}  // namespace shade::comm
