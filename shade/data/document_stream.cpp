#include "shade/data/document_stream.h"

#include <algorithm>

#include "shade/base/error.h"

namespace shade::data {

DocumentStream::DocumentStream(std::shared_ptr<const TokenStore> store, std::span<const int64_t> held_out)
    : store_(std::move(store)),
      frame_(store_->framed() ? 1 : 0),
      all_(static_cast<uint64_t>(store_->tokens()) + static_cast<uint64_t>(store_->records()) * frame_) {
  for (const auto document : held_out) {
    SHADE_REQUIRE(document >= 0 && document < store_->records() && (out_.empty() || document > out_.back().document),
                  "held-out document ", document, " of ", store_->records(), "; expected ascending numbers");
    const auto [begin, end, label] = store_->entry(document);
    out_.push_back({document, begin + static_cast<uint64_t>(document) * frame_, held_out_});
    held_out_ += end - begin + frame_;
  }
}

DocumentStream::Place DocumentStream::find(Use use, uint64_t position) const {
  if (use == Use::held_out) {
    const auto next = std::partition_point(out_.begin(), out_.end(),
                                           [&](const HeldOut& document) { return document.before <= position; });
    return {std::prev(next)->document, position - std::prev(next)->before};
  }
  // Before the k-th that is held out lie its begin less those held out before it, which never falls with k.
  const auto next = std::partition_point(
      out_.begin(), out_.end(), [&](const HeldOut& document) { return document.begin - document.before <= position; });
  const auto skipped = next == out_.end() ? held_out_ : next->before;
  const auto [document, begin] = store_->find(position + skipped, frame_);
  return {document, position + skipped - begin};
}

int64_t DocumentStream::after(Use use, int64_t document) const {
  auto next =
      std::partition_point(out_.begin(), out_.end(), [&](const HeldOut& other) { return other.document <= document; });
  if (use == Use::held_out) return next == out_.end() ? store_->records() : next->document;
  for (++document; next != out_.end() && next->document == document; ++next) ++document;
  return document;
}

}  // namespace shade::data
