// From what was stated to what it means, once. resolve() fills in what follows from other fields and refuses what
// contradicts itself; what it gives is read, and never edited.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "shade/base/config.h"
#include "shade/base/json.h"

namespace shade::train {

enum class Topic { weights, tokenizer, vocabulary, privacy, strategy };

// What was decided that a user may not expect, by topic, in words for the first lines of a run.
class Decisions {
 public:
  void add(Topic topic, const std::string& what) {
    if (!what.empty()) by_topic_[topic] = what;
  }
  // Empty: nothing was decided, or it was stated.
  std::string of(Topic topic) const { return by_topic_.contains(topic) ? by_topic_.at(topic) : std::string(); }

 private:
  std::map<Topic, std::string> by_topic_;
};

template <class Spec>
class Resolved {
 public:
  const Spec& operator*() const { return spec_; }
  const Spec* operator->() const { return &spec_; }
  const Decisions& decisions() const { return decisions_; }
  int ranks() const { return ranks_; }  // that it was resolved for
  // The same run with what could not be known before; apply(Spec&, facts), beside the Spec, writes it down.
  template <class Facts>
  Resolved with(const Facts& facts) const {
    Resolved out = *this;
    apply(out.spec_, facts);
    return out;
  }
  Json json() const {  // every field, by section
    Spec copy = spec_;
    Config config;
    copy.declare(config);
    return json_values(config);
  }

 private:
  Resolved(Spec spec, Decisions decisions, int ranks)
      : spec_(std::move(spec)), decisions_(std::move(decisions)), ranks_(ranks) {}
  template <class Any>
  friend Resolved<Any> resolve(Any stated, const Given& given, int ranks);

  Spec spec_;
  Decisions decisions_;
  int ranks_;
};

// `given`: which fields were stated. decide(Spec&, given, ranks), beside each Spec, has the rules. Throws UsageError.
template <class Spec>
Resolved<Spec> resolve(Spec stated, const Given& given, int ranks = 1) {
  auto decisions = decide(stated, given, ranks);
  return Resolved<Spec>(std::move(stated), std::move(decisions), ranks);
}

}  // namespace shade::train
