#include "shade/comm/session.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <random>

#include "shade/base/error.h"

namespace shade::comm {
namespace {

constexpr const char* kNotes = "shade/lobby/notes";  // how many were left

std::string note_key(int64_t number) { return text("shade/lobby/note/", number); }
std::string answer_key(const std::string& word) { return text("shade/lobby/answer/", word); }

std::string new_word() {
  std::random_device device;  // the system's
  return text(device(), "-", device(), "-", device(), "-", device());
}

}  // namespace

Reception::Reception(c10::intrusive_ptr<c10d::Store> store) : store_(std::move(store)), session_(new_word()) {}

void Reception::answer() {
  for (const auto left = store_->add(kNotes, 0); seen_ < left; ++seen_) open_.push_back(seen_);
  std::erase_if(open_, [&](int64_t number) {
    if (!store_->check({note_key(number)})) return false;  // counted, but not yet written
    store_->set(answer_key(store_->get_to_str(note_key(number))), session_);
    return true;
  });
}

Visitor::Visitor(c10::intrusive_ptr<c10d::Store> store) : store_(std::move(store)), word_(new_word()) {
  store_->set(note_key(store_->add(kNotes, 1) - 1), word_);
}

std::optional<std::string> Visitor::told() {
  if (!store_->check({answer_key(word_)})) return std::nullopt;
  return store_->get_to_str(answer_key(word_));
}

}  // namespace shade::comm
