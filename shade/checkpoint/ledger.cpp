#include "shade/checkpoint/ledger.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include "shade/base/error.h"
#include "shade/base/explain.h"
#include "shade/base/stop_signals.h"
#include "shade/checkpoint/folder.h"
#include "shade/io/errors.h"
#include "shade/io/input_file.h"

namespace shade::checkpoint {
namespace {

constexpr const char* kHeader = R"({"format":"shade ledger","version":2})";
constexpr int64_t kOpen = std::numeric_limits<int64_t>::max();

std::string content_of(const std::filesystem::path& file) {
  const auto map = io::MappedFile::open(file);
  return {reinterpret_cast<const char*>(map->bytes().data()), map->bytes().size()};
}

Chain chain_of(const std::filesystem::path& file, std::string_view words) {
  try {
    return read_chain(words);
  } catch (const io::FormatError& fault) {
    throw io::FormatError(text("the ledger ", file, " is damaged: ", fault.what(),
                               "; what was spent is no longer known, so no private run may continue from here"));
  }
}

// Of a step, with its digest and end.
size_t shortest_line() {
  return std::string_view(R"({"incarnation":0,"step":0,"sum":""} )").size() + 2 * hash::kDigestDigits + 1;
}

std::string mark_of(const FreshBytes& fresh) {
  return hash::to_hex(hash::digest_of(std::as_bytes(std::span(fresh)))).substr(0, 16);
}

std::array<uint8_t, 32> bytes_in(const Json& hex) {
  const auto bytes = hash::digest_from_hex(hex.get<std::string>());
  if (!bytes) throw UsageError("expected 64 hexadecimal digits");
  return *bytes;
}

}  // namespace

Json Origin::json() const {
  Json out{{"incarnation", incarnation}, {"step", step}};
  if (!mark.empty()) out["mark"] = mark;
  return out;
}

Origin Origin::from_json(const Json& json) {
  SHADE_REQUIRE(json.is_object() && json.contains("incarnation") && json.contains("step") &&
                    json["incarnation"].is_number_unsigned() && json["step"].is_number_integer() && json["step"] >= 0 &&
                    (!json.contains("mark") || json["mark"].is_string()),
                "expected the origin of a state, {\"incarnation\": ..., \"step\": ...}, found ", json.dump());
  return {json["incarnation"].get<uint64_t>(), json["step"].get<int64_t>(), json.value("mark", "")};
}

Origin Stretch::at(int64_t step) const { return {incarnation, step, mark_of(fresh)}; }

std::string Ledger::Incarnation::mark() const { return mark_of(fresh); }

int64_t Ledger::Incarnation::known() const {
  const auto torn = std::find(sums.begin(), sums.end(), std::nullopt);
  return begin() + (torn - sums.begin());
}

void Ledger::Books::take_incarnation(const Json& json, const std::function<void(bool)>& rule) {
  rule(last == incarnations.size() && json.size() == 6);
  Incarnation found{
      .run = {json.at("key"), json.at("exact"), json.at("event")}, .fresh = bytes_in(json.at("fresh")), .from = {}};
  if (!json.at("from").is_null()) {
    found.from = Origin::from_json(json.at("from"));
    rule(found.from->incarnation < last && found.from->step <= incarnations[found.from->incarnation].head &&
         found.from->mark == incarnations[found.from->incarnation].mark());
  }
  found.head = found.begin();
  incarnations.push_back(std::move(found));
}

void Ledger::Books::take(const std::string& record, size_t line) {
  const auto rule = [&](bool kept) {
    if (!kept) throw io::FormatError(text("line ", line, " of the ledger is no record: ", record.substr(0, 200)));
  };
  try {
    const auto json = Json::parse(record);
    rule(json.is_object());
    if (json.contains("torn") && json.size() == 1) return;  // before the first incarnation: nothing was spent
    last = json.at("incarnation").get<uint64_t>();
    if (json.contains("key")) return take_incarnation(json, rule);
    rule(last < incarnations.size());
    auto& here = incarnations[last];
    if (json.contains("remember")) {
      rule(json.size() == 2 && json["remember"].is_object());
      remembered = json["remember"];
      return;
    }
    if (json.contains("diverged")) {
      const auto step = json.at("diverged").get<int64_t>();
      rule(json.size() == 2 && step >= here.begin() && step < here.head);
      here.diverged = true;
      return;
    }
    const bool torn = json.contains("torn");
    const auto steps = torn ? json.at("count").get<int64_t>() : 1;
    const auto most = static_cast<int64_t>(kMaxRecord / shortest_line()) + 1;
    rule(json.size() == (torn ? 4U : 3U) && steps >= 1 && steps <= most && json.at("step").get<int64_t>() == here.head);
    here.head += steps;
    here.sums.resize(static_cast<size_t>(here.head - here.begin()));
    if (torn) return;
    if (const auto sum = bytes_in(json.at("sum")); sum != kNotKnown) here.sums.back() = sum;
  } catch (const Json::exception&) {
    rule(false);
  } catch (const UsageError&) {
    rule(false);
  }
}

Json Ledger::Books::seal(size_t torn) const {
  Json out{{"torn", torn}};
  if (incarnations.empty()) return out;
  out["incarnation"] = last;
  out["step"] = incarnations[last].head;
  const auto line = shortest_line();
  out["count"] = (torn + line - 1) / line;
  return out;
}

std::vector<Spent> Ledger::Books::spent() const {
  std::vector<Spent> out;
  for (const auto& incarnation : incarnations) {
    const auto steps = incarnation.head - incarnation.begin();
    if (steps == 0) continue;
    const auto known =
        std::find_if(out.begin(), out.end(), [&](const auto& s) { return s.event == incarnation.run.event; });
    if (known == out.end())
      out.push_back({incarnation.run.event, steps});
    else
      known->steps += steps;
  }
  return out;
}

Ledger::Books Ledger::books_of(const Chain& chain, const std::filesystem::path& file) {
  Books books;
  for (size_t i = 0; i < chain.records.size(); ++i) {
    if (i > 0)
      books.take(chain.records[i], i + 1);
    else if (chain.records[i] != kHeader)
      throw io::FormatError(text("the ledger ", file,
                                 " doesn't begin as one of version 2: another program or version wrote it, and what it "
                                 "spent can't be read. Continue with that version, or start another run (--output)"));
  }
  return books;
}

Ledger::Books Ledger::books_in(const std::filesystem::path& file) {
  auto chain = chain_of(file, content_of(file));
  auto books = books_of(chain, file);
  // A line that is being written, or torn: counted as it will be.
  if (chain.torn > 0) books.take(books.seal(chain.torn).dump(), chain.records.size() + 1);
  return books;
}

std::vector<Spent> Ledger::read(const std::filesystem::path& file) { return books_in(file).spent(); }

bool Ledger::knows(const std::filesystem::path& file, const Origin& state) { return books_in(file).knows(state); }

bool Ledger::Books::knows(const Origin& state) const {
  if (state.incarnation >= incarnations.size()) return false;
  const auto& of = incarnations[state.incarnation];
  return state.step >= of.begin() && state.step <= of.head && state.mark == of.mark();
}

Ledger::Ledger(const std::filesystem::path& file) : path_(file), lock_(file, "a ledger") {
  const auto words = content_of(file);
  hash::Digest first{};
  const auto header = next_line(first, kHeader);
  if (words.size() < header.size() && header.starts_with(words)) {  // new, or its making was interrupted
    write(std::string_view(header).substr(words.size()));
    flush_folder(file.has_parent_path() ? file.parent_path() : ".");
    head_ = first;
    return;
  }
  const auto chain = chain_of(file, words);
  books_ = books_of(chain, file);
  SHADE_CHECK(!chain.records.empty(), "a ledger that is not new has its first line");
  head_ = chain.head;
  if (chain.torn == 0) return;
  const auto torn = std::string_view(words).substr(words.size() - chain.torn);
  append(books_.seal(torn.size()), torn);
}

// After a failed write or flush the system may call the same pages clean: nothing that follows could be believed.
void Ledger::write(std::string_view words) {
  SHADE_REQUIRE(!broken_, "the ledger ", path_, " could not be written before; open it again in a new run");
  broken_ = true;
  while (!words.empty()) {
    const auto written = uninterrupted([&] { return ::write(lock_.descriptor(), words.data(), words.size()); });
    if (written <= 0)
      throw Error(text("cannot write the ledger ", path_, ": ", reason_of(errno), "; the step is not made"));
    words.remove_prefix(static_cast<size_t>(written));
  }
  if (uninterrupted([&] { return ::fsync(lock_.descriptor()); }) != 0)
    throw Error(text("cannot flush the ledger ", path_, ": ", reason_of(errno), "; the step is not made"));
  broken_ = false;
}

void Ledger::append(const Json& record, std::string_view torn) {
  const auto words = record.dump();
  auto head = head_;
  write(next_line(head, words, torn));
  head_ = head;
  books_.take(words, 0);
}

std::vector<Stretch> Ledger::replayed(const PrivateRun& run, const std::optional<Origin>& from, bool repeatable) const {
  const auto& all = books_.incarnations;
  if (from && !books_.knows(*from))
    throw Error(text("the checkpoint comes from step ", from->step, " of incarnation ", from->incarnation,
                     ", which the ledger ", path_,
                     " doesn't know: it is another run's, or it lost what was spent. Give the ledger of that run"));
  std::vector<Stretch> out;
  auto state = from;
  const auto end_of = [&](size_t i) { return repeatable ? all[i].head : all[i].known(); };
  const auto again = [&](size_t i, int64_t begin) {
    return !all[i].diverged && all[i].run == run && (repeatable || begin < end_of(i));
  };
  const auto follow = [&](size_t i, int64_t begin) {
    out.push_back({i, all[i].fresh, begin, end_of(i)});
    state = out.back().at(end_of(i));
  };
  if (from && again(from->incarnation, from->step)) follow(from->incarnation, from->step);
  for (;;) {  // of several that continued from here, the one that came furthest
    std::optional<size_t> next;
    for (size_t i = 0; i < all.size(); ++i)
      if (all[i].from == state && again(i, all[i].begin()) && (!next || end_of(i) >= end_of(*next))) next = i;
    if (!next) return out;
    follow(*next, all[*next].begin());
  }
}

int64_t Ledger::made(const PrivateRun& run, const std::optional<Origin>& from, bool repeatable) const {
  const auto again = replayed(run, from, repeatable);
  return !again.empty() ? again.back().end : from ? from->step : 0;
}

std::vector<Stretch> Ledger::start(const PrivateRun& run, const std::optional<Origin>& from, const NewSteps& steps) {
  SHADE_REQUIRE(Json::parse(run.event.dump()) == run.event, "the event would not be read back as it is (a NaN?)");
  stretches_ = replayed(run, from, steps.repeatable);
  next_ = from ? from->step : 0;
  if (steps.repeatable && !stretches_.empty()) {
    stretches_.back().end = kOpen;
    return stretches_;
  }
  const auto state = stretches_.empty() ? from : std::optional(stretches_.back().at(stretches_.back().end));
  const uint64_t incarnation = books_.incarnations.size();
  const auto fresh = steps.fresh(incarnation);
  append({{"incarnation", incarnation},
          {"fresh", hash::to_hex(fresh)},
          {"key", run.key},
          {"exact", run.exact},
          {"from", state ? state->json() : Json()},
          {"event", run.event}});
  stretches_.push_back({incarnation, fresh, state ? state->step : 0, kOpen});
  return stretches_;
}

bool Ledger::spend(int64_t step, const SumDigest& sum) {
  SHADE_CHECK(!stretches_.empty(), "start() comes before the first step");
  SHADE_CHECK(!broken_, "the ledger ", path_, " could not be written before");
  SHADE_CHECK(step == next_, "step ", step, " is spent, but step ", next_,
              " must come; after going back, call start() again");
  const auto stretch =
      std::find_if(stretches_.begin(), stretches_.end(), [&](const auto& of) { return step < of.end; });
  const auto& here = books_.incarnations[stretch->incarnation];
  const bool replay = step < here.head;
  if (!replay) append({{"incarnation", stretch->incarnation}, {"step", step}, {"sum", hash::to_hex(sum)}});
  if (const auto& before = here.sums[static_cast<size_t>(step - here.begin())]; replay && before && *before != sum) {
    append({{"incarnation", stretch->incarnation}, {"diverged", step}});
    broken_ = true;
    throw Error(text("step ", step,
                     " was made before, and its sum of clipped gradients was another one: records, "
                     "program or machine differ in a way that was not noticed. The same noise on both would reveal "
                     "their difference, so none was drawn. Start again (with --restart if there is no checkpoint): the "
                     "steps since then get "
                     "noise of their own and are counted again"));
  }
  ++next_;
  return replay;
}

std::vector<Spent> Ledger::spent() const { return books_.spent(); }

std::vector<Ledger::Counted> Ledger::Books::counted() const {
  std::vector<Counted> out;
  for (const auto& incarnation : incarnations)
    out.push_back({incarnation.mark(), incarnation.head - incarnation.begin()});
  return out;
}

std::vector<Ledger::Counted> Ledger::counted() const { return books_.counted(); }

std::vector<Ledger::Counted> Ledger::counted_in(const std::filesystem::path& file) { return books_in(file).counted(); }

Json Ledger::remembered_in(const std::filesystem::path& file) { return books_in(file).remembered; }

void Ledger::remember(const Json& what) {
  SHADE_CHECK(!stretches_.empty(), "start() comes before what is remembered");
  append({{"incarnation", stretches_.back().incarnation}, {"remember", what}});
}

}  // namespace shade::checkpoint
