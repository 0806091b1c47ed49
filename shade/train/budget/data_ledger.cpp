#include "shade/train/budget/data_ledger.h"

#include <algorithm>
#include <ctime>

#include "shade/accounting/events.h"
#include "shade/base/error.h"
#include "shade/base/utc.h"
#include "shade/io/errors.h"
#include "shade/privacy/key.h"

namespace shade::train {
namespace {

constexpr const char* kFormat = "shade data ledger";

std::string describe(privacy::PrivacyUnit unit, const std::string& unit_by) {
  return text("one ", to_string(unit), unit_by.empty() ? "" : " (" + unit_by + ")");
}

int64_t steps_in(const Json& json) {
  const auto steps = json.at("steps").get<int64_t>();
  if (steps < 0 || steps > privacy::kMaxSteps) throw UsageError("a number of steps that can't be");
  return steps;
}

DataBooks::Entry entry_in(const Json& json) {
  DataBooks::Entry out;
  out.spender = {.run = json.at("run"),
                 .stretch = json.at("stretch"),
                 .mechanism = privacy::mechanism_from(json),
                 .unit = parse_name<privacy::PrivacyUnit>(json.at("unit").get<std::string>()),
                 .unit_by = json.value("unit_by", "")};
  out.spender.mechanism.require_valid();
  out.date = json.at("date");
  out.steps = steps_in(json);
  return out;
}

void take(DataBooks& books, const Json& json) {
  if (json.contains("torn")) return;  // its writer was never told that it is there
  const auto stretch = json.at("stretch").get<std::string>();
  const auto known = std::find_if(books.entries.begin(), books.entries.end(),
                                  [&](const auto& entry) { return entry.spender.stretch == stretch; });
  const auto rule = [](bool kept) {
    if (!kept) throw UsageError("a line that can't follow those before it");
  };
  if (json.contains("run")) {
    rule(known == books.entries.end() && books.orders.empty() == json.contains("orders"));
    if (json.contains("orders"))
      for (const auto& pair : json["orders"]) books.orders.push_back({pair.at(0), pair.at(1)});
    books.entries.push_back(entry_in(json));
    if (json.contains("orders")) (void)books.filter();  // refuses shares that are more than delta
    return;
  }
  rule(known != books.entries.end() && !known->closed);
  known->closed = json.value("closed", false);
  const auto steps = steps_in(json);
  rule(known->closed ? steps <= known->steps : steps > known->steps);
  known->steps = steps;
}

}  // namespace

const DataBooks::Entry* DataBooks::find(const std::string& stretch) const {
  const auto found =
      std::find_if(entries.begin(), entries.end(), [&](const auto& entry) { return entry.spender.stretch == stretch; });
  return found == entries.end() ? nullptr : &*found;
}

std::vector<privacy::Steps> DataBooks::spent() const {
  std::vector<privacy::Steps> out;
  for (const auto& entry : entries) {
    const auto same =
        std::find_if(out.begin(), out.end(), [&](const auto& s) { return s.mechanism == entry.spender.mechanism; });
    if (same != out.end())
      same->count += entry.steps;
    else if (entry.steps > 0)
      out.push_back({entry.spender.mechanism, entry.steps});
  }
  return out;
}

std::optional<privacy::RenyiFilter> DataBooks::filter() const {
  if (orders.empty()) return std::nullopt;
  privacy::RenyiFilter out(cap, orders);
  for (const auto& steps : spent()) out.take(steps);
  return out;
}

int64_t DataBooks::allowed(const privacy::Mechanism& mechanism, int64_t wanted) const {
  if (const auto here = filter()) return here->allowed(mechanism, wanted);
  return privacy::RenyiFilter(cap, privacy::filter_orders(cap, mechanism)).allowed(mechanism, wanted);
}

void DataBooks::require_unit(privacy::PrivacyUnit unit, const std::string& unit_by) const {
  if (entries.empty()) return;
  const auto& first = entries.front().spender;
  SHADE_REQUIRE(
      first.unit == unit && first.unit_by == unit_by, "its first run protects ", describe(first.unit, first.unit_by),
      ", and this run ", describe(unit, unit_by),
      ": what they spend doesn't add up to a promise for either. Use a data ledger for each, or the same unit");
}

void DataLedger::create(const std::filesystem::path& file, const privacy::Cap& cap) {
  cap.require_valid();
  const auto id = hash::to_hex(privacy::secret_key().bytes()).substr(0, 32);
  checkpoint::SharedChain(file, "the data ledger")
      .create({{"format", kFormat}, {"version", 1}, {"id", id}, {"epsilon", cap.epsilon}, {"delta", cap.delta}});
}

DataLedger::DataLedger(std::filesystem::path file) : chain_(std::move(file), "the data ledger") {}

DataBooks DataLedger::books_of(const checkpoint::Chain& chain) const {
  if (end_.line > 0 && !has(chain, end_))
    throw io::FormatError(
        text("the data ledger ", path(), " has lost or changed line ", end_.line,
             ", which was in it before: it was restored from an old copy, truncated or edited. What was "
             "spent is no longer known; restore the newest copy"));
  DataBooks out;
  for (size_t i = 0; i < chain.records.size(); ++i) {
    const auto& record = chain.records[i];
    try {
      const auto json = parse_json(record);
      if (i > 0) {
        take(out, json);
        continue;
      }
      if (json.at("format") != kFormat || json.at("version") != 1) throw UsageError("another format");
      out.id = json.at("id");
      out.cap = {json.at("epsilon"), json.at("delta")};
      out.cap.require_valid();
    } catch (const std::exception& fault) {
      throw io::FormatError(text("line ", i + 1, " of the data ledger ", path(),
                                 " is no record of version 1: ", record.substr(0, 200), " (", fault.what(), ")"));
    }
  }
  return out;
}

DataBooks DataLedger::read() const { return books_of(chain_.read()); }

int64_t DataLedger::reserve(const Spender& spender, int64_t steps) {
  int64_t reserved = 0;
  end_ = chain_.append([&](const checkpoint::Chain& chain) -> std::optional<Json> {
    const auto books = books_of(chain);
    books.require_unit(spender.unit, spender.unit_by);
    const auto* known = books.find(spender.stretch);
    SHADE_CHECK(known == nullptr || (!known->closed && known->spender.mechanism == spender.mechanism),
                "steps of a stretch that has ended, or has another mechanism");
    reserved = known != nullptr ? known->steps : 0;
    const auto more = steps <= reserved ? 0 : books.allowed(spender.mechanism, steps - reserved);
    if (more == 0) return std::nullopt;
    reserved += more;
    if (known != nullptr) return Json{{"stretch", spender.stretch}, {"steps", reserved}};
    Json out{{"run", spender.run},
             {"stretch", spender.stretch},
             {"date", utc_text(std::time(nullptr))},
             {"unit", to_string(spender.unit)},
             {"adjacency", adjacency(spender.unit)}};
    if (!spender.unit_by.empty()) out["unit_by"] = spender.unit_by;
    out.update(privacy::mechanism_json(spender.mechanism));
    out["steps"] = reserved;
    if (books.orders.empty())
      for (const auto& [order, share] : privacy::filter_orders(books.cap, spender.mechanism))
        out["orders"].push_back({order, share});
    return out;
  });
  return reserved;
}

void DataLedger::close(const std::string& stretch, int64_t made) {
  end_ = chain_.append([&](const checkpoint::Chain& chain) -> std::optional<Json> {
    const auto books = books_of(chain);
    const auto* known = books.find(stretch);
    if (known == nullptr || known->closed || known->steps <= made) return std::nullopt;  // all of it was used
    return Json{{"stretch", stretch}, {"steps", made}, {"closed", true}};
  });
}

}  // namespace shade::train
