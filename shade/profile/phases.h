// Where the time of a step goes: spans (base/span.h), one by one or added up by name and by index.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "shade/base/span.h"

namespace shade::profile {

// Listens from construction to destruction; a listener that was there before still hears everything. Listeners end in
// the reverse order of their beginning. Phases nest: a norm is also part of its backward.
class Phases : public SpanListener {
 public:
  Phases() : previous_(Span::listen(this)) {}
  ~Phases() override;
  Phases(const Phases&) = delete;
  Phases& operator=(const Phases&) = delete;

  void ended(const SpanRecord& record) noexcept override;
  void in_unit(const UnitSpan* owner, int64_t unit) noexcept override;
  void restart();  // forgets what it heard; 32 bytes a span add up in a long run

  std::map<std::string, Millis> by_name() const;
  std::map<int64_t, Millis> by_index(const std::string& name) const;
  std::vector<SpanRecord> records() const;  // in the order in which they ended

 private:
  SpanListener* previous_;
  mutable std::mutex mutex_;
  std::vector<SpanRecord> records_;
};

}  // namespace shade::profile
