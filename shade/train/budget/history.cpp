#include "shade/train/budget/history.h"

#include <algorithm>

#include "shade/base/error.h"
#include "shade/base/log.h"
#include "shade/base/span.h"
#include "shade/checkpoint/agreement.h"
#include "shade/comm/job/sealed_store.h"

namespace shade::train {
namespace {

std::string digest_of_key(const privacy::NoiseKey& key) {
  return hash::to_hex(hash::digest_of(std::as_bytes(std::span(key.bytes()))));
}

}  // namespace

History::History(RunFolder& folder, comm::Group control, Options options)
    : folder_(&folder), control_(std::move(control)), options_(options) {
  checkpoint::from_rank0(control_, "opening the ledger", [&] {
    ledger_.emplace(folder_->ledger());
    if (!options_.seed) key_ = folder_->find_key();
    if (key_ && ledger_->empty()) {
      // It may have been used: a ledger that lost its lines doesn't know. There is nothing to make again either.
      log::warning("the ledger ", folder_->ledger().string(), " has no entry, so the key beside it is not used again");
      key_.reset();
    }
    return std::string();
  });
  if (options_.seed) key_ = privacy::seeded_key(*options_.seed);
}

History::Known History::look(const std::string& exact, const Json& event,
                             const std::optional<checkpoint::Origin>& from) {
  from_ = from;
  exact_ = options_.replayable ? exact : text(exact, " once ", hash::to_hex(privacy::secret_key().bytes()));
  const auto words = checkpoint::from_rank0(control_, "reading the ledger", [&] {
    run_ = {.key = key_ ? digest_of_key(*key_) : "", .exact = key_ ? *sealed(exact_) : "", .event = event};
    Json out{{"made", ledger_->made(run_, from, options_.seed.has_value())}, {"spent", Json::array()}};
    for (const auto& [spent, steps] : ledger_->spent()) out["spent"].push_back({{"event", spent}, {"steps", steps}});
    return out.dump();
  });
  const auto found = Json::parse(words);
  Known out{.made = found.at("made"), .spent = {}};
  SHADE_CHECK(options_.replayable || out.made == (from ? from->step : 0), "steps up to ", out.made,
              " would be repeated where a repeated step has other bits; their noise must not be drawn twice");
  for (const auto& entry : found.at("spent")) out.spent.push_back({entry.at("event"), entry.at("steps")});
  return out;
}

void History::start() {
  const auto words = checkpoint::from_rank0(control_, "writing the ledger", [&] {
    if (!key_) {
      key_ = folder_->make_key();
      run_.key = digest_of_key(*key_);
      run_.exact = *sealed(exact_);
    }
    const auto fresh = [&](uint64_t incarnation) -> checkpoint::FreshBytes {
      if (!options_.seed) return privacy::secret_key().bytes();
      checkpoint::FreshBytes number{};
      for (size_t i = 0; i < 8; ++i) number[i] = static_cast<uint8_t>(incarnation >> (8 * i));
      return privacy::derived_key(*key_, "shade seeded", std::as_bytes(std::span(number))).bytes();
    };
    Json out = Json::array();
    for (const auto& s : ledger_->start(run_, from_, {.fresh = fresh, .repeatable = options_.seed.has_value()}))
      out.push_back({s.incarnation, hash::to_hex(s.fresh), s.begin, s.end});
    return out.dump();
  });
  if (!key_) key_ = privacy::NoiseKey{};  // rank 0 has it
  comm::share(control_, {key_->data(), key_->size()}, "run key");
  for (const auto& s : Json::parse(words)) {
    const checkpoint::Stretch stretch{s[0], hash::digest_from_hex(s[1].get<std::string>()).value(), s[2], s[3]};
    stretches_.push_back(
        {stretch, privacy::derived_key(*key_, "shade incarnate", std::as_bytes(std::span(stretch.fresh)))});
  }
}

std::optional<std::string> History::sealed(const std::string& words) const {
  if (!key_) return std::nullopt;
  return hash::to_hex(privacy::derived_key(*key_, "shade identity", std::as_bytes(std::span(words))).bytes());
}

std::optional<bool> History::is_sealed(const std::string& words, const Json& seal) const {
  const auto said = checkpoint::from_rank0(control_, "comparing with the checkpoint", [&] {
    const auto mine = sealed(words);
    return std::string(!mine || !seal.is_string() ? "?" : *mine == seal.get<std::string>() ? "same" : "other");
  });
  return said == "?" ? std::nullopt : std::optional(said == "same");
}

privacy::NoiseKey History::key_of(int64_t step) const {
  for (const auto& [stretch, key] : stretches_)
    if (step >= stretch.begin && step < stretch.end) return key;
  throw Error(text("step ", step, " is in no stretch of this run; start() comes before the first step"));
}

std::optional<checkpoint::Origin> History::origin(int64_t step) const {
  for (const auto& [stretch, key] : stretches_)
    if (step > stretch.begin && step <= stretch.end) return stretch.at(step);
  return from_;
}

void History::spend(int64_t step, const checkpoint::SumDigest& sum) {
  const Span span(SpanName::ledger);
  checkpoint::together(control_, "writing the ledger", [&] {
    if (ledger_) ledger_->spend(step, sum);
  });
}

}  // namespace shade::train
