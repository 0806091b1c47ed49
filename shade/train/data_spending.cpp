#include "shade/train/data_spending.h"

#include <algorithm>

#include "shade/base/error.h"
#include "shade/base/span.h"
#include "shade/base/strings.h"
#include "shade/checkpoint/agreement.h"

namespace shade::train {
namespace {

constexpr int64_t kBlocks = 64;

std::string standing(const std::string& file, const DataBooks& books) {
  const auto filter = books.filter();
  return text("data ledger ", file, ": ", rounded_up(filter ? filter->position() : 0), " of epsilon ",
              books.cap.epsilon, " at delta ", books.cap.delta, " used by all runs (Renyi filter)");
}

}  // namespace

DataSpending::DataSpending(std::string file, Spender spender, comm::Group control, History& history)
    : file_(std::move(file)), spender_(std::move(spender)), control_(std::move(control)), history_(&history) {}

int64_t DataSpending::look(int64_t made, int64_t last) {
  made_ = reserved_ = made;
  last_ = last;
  const auto found = Json::parse(checkpoint::from_rank0(control_, "reading the data ledger", [&] {
    Json out;
    read_on_rank0(out);
    return out.dump();
  }));
  words_ = found.at("words");
  last_ = std::min(last, made + found.at("room").get<int64_t>());
  return last_;
}

void DataSpending::read_on_rank0(Json& found) {
  SHADE_REQUIRE(std::filesystem::exists(file_), "there is no data ledger ", file_,
                "; create it once for these data: shade ledger --create ", file_, " --epsilon E --delta D");
  ledger_.emplace(file_);
  const auto before = history_->remembered();
  if (!before.is_null()) ledger_->remember({before.at("line"), before.at("digest")});
  // Another ledger has other lines; that it is another one is said before that it lost some.
  id_ = DataLedger(file_).read().id;
  SHADE_REQUIRE(before.is_null() || before.at("id") == id_, "this run spends from the data ledger ",
                before.at("file").get<std::string>(), ", and ", file_,
                " is another one; name that one, or choose another ", "directory (--output)");
  require_counted(ledger_->read());
  const auto books = ledger_->read();
  try {
    books.require_unit(spender_.unit, spender_.unit_by);
  } catch (const UsageError& fault) {
    throw UsageError(text("the data ledger ", file_, ": ", fault.what()));
  }
  const auto wanted = std::max<int64_t>(0, last_ - made_);
  const auto room = books.allowed(spender_.mechanism, wanted);
  SHADE_REQUIRE(wanted == 0 || room > 0 || made_ > 0, standing(file_, books),
                ", which leaves no budget for a step with sigma ", spender_.mechanism.noise_multiplier,
                " at sample rate ", spender_.mechanism.sample_rate,
                ". Nothing was trained. More noise or a smaller rate may fit (shade ledger ", file_, ")");
  found = {{"room", room}, {"words", standing(file_, books)}};
}

// Steps of this run that the file doesn't have were made without it, or it lost them.
void DataSpending::require_counted(const DataBooks& books) {
  for (const auto& [mark, steps] : history_->counted()) {
    if (steps == 0) continue;
    const auto* entry = books.find(mark);
    // A line of the run's ledger that was torn counts as whole there, and as more than one if it was long.
    if (entry != nullptr && entry->steps < steps && !entry->closed) {
      auto spender = entry->spender;
      if (ledger_->reserve(spender, steps) >= steps) continue;
    }
    SHADE_REQUIRE(entry != nullptr && entry->steps >= steps, "the run has made ", steps,
                  " steps of which the data ledger ", file_, " has ", entry == nullptr ? 0 : entry->steps,
                  ": they were made without it, or it lost them. Choose another directory (--output), or restore the "
                  "newest copy of the data ledger");
  }
}

void DataSpending::remember_end() {
  const auto& end = ledger_->end();
  history_->remember({{"file", file_}, {"id", id_}, {"line", end.line}, {"digest", end.digest}});
}

bool DataSpending::reserve(int64_t step) {
  if (step < reserved_) return true;
  const Span span("ledger");
  const auto block = std::max<int64_t>(1, (last_ - made_ + kBlocks - 1) / kBlocks);
  const auto wanted = std::max(step + 1, std::min(last_, step + block)) - made_;
  reserved_ = made_ + std::stoll(checkpoint::from_rank0(control_, "reserving steps in the data ledger", [&] {
                spender_.stretch = history_->origin(made_ + 1).value().mark;
                const auto reserved = ledger_->reserve(spender_, wanted);
                remember_end();
                return std::to_string(reserved);
              }));
  return step < reserved_;
}

std::string DataSpending::settle(int64_t steps) {
  return checkpoint::from_rank0(control_, "closing the steps in the data ledger", [&] {
    if (reserved_ > std::max(steps, made_)) {
      ledger_->close(spender_.stretch, std::max<int64_t>(0, steps - made_));
      remember_end();
    }
    return standing(file_, ledger_->read());
  });
}

void require_no_data_ledger(const comm::Group& control, const History& history) {
  checkpoint::from_rank0(control, "looking for a data ledger", [&] {
    const auto before = history.remembered();
    SHADE_REQUIRE(before.is_null(), "this run spends from the data ledger ", before.value("file", ""),
                  ", and none is named; add --data-ledger, or choose another directory (--output)");
    return std::string();
  });
}

}  // namespace shade::train
