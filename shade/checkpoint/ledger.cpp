#include "shade/checkpoint/ledger.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "shade/base/error.h"
#include "shade/checkpoint/folder.h"
#include "shade/io/errors.h"
#include "shade/io/mapped_file.h"

namespace shade::checkpoint {
namespace {

constexpr const char* kHeader = R"({"format":"shade ledger","version":1})";

std::string content(const std::filesystem::path& file) {
  const auto map = io::MappedFile::open(file);
  return {reinterpret_cast<const char*>(map->bytes().data()), map->bytes().size()};
}

Chain chain_of(const std::filesystem::path& file, std::string_view words) {
  try {
    return read_chain(words);
  } catch (const io::FormatError& fault) {
    throw io::FormatError(text("the ledger ", file, " is damaged: ", fault.what(),
                               "; what was spent is not known any more: nothing private may go on from here"));
  }
}

constexpr size_t kShortestLine = std::string_view(R"({"incarnation":0,"step":0} )").size() + io::kDigestDigits + 1;
constexpr int64_t kMostTorn = kMaxRecord / kShortestLine + 1;

}  // namespace

Json Origin::json() const { return {{"incarnation", incarnation}, {"step", step}}; }

Origin Origin::from_json(const Json& json) {
  SHADE_REQUIRE(json.is_object() && json.contains("incarnation") && json.contains("step") &&
                    json["incarnation"].is_number_unsigned() && json["step"].is_number_integer() && json["step"] >= 0,
                "expected the origin of a state, {\"incarnation\": ..., \"step\": ...}, found ", json.dump());
  return {json["incarnation"].get<uint64_t>(), json["step"].get<int64_t>()};
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
    if (json.contains("key")) {
      rule(last == incarnations.size() && json.size() == 5);
      Incarnation fresh{.run = {json.at("key"), json.at("exact"), json.at("event")}, .from = {}};
      if (!json.at("from").is_null()) {
        fresh.from = Origin::from_json(json.at("from"));
        rule(fresh.from->incarnation < last && fresh.from->step <= incarnations[fresh.from->incarnation].head);
      }
      fresh.head = fresh.begin();
      incarnations.push_back(std::move(fresh));
      return;
    }
    const auto steps = json.contains("torn") ? json.at("count").get<int64_t>() : 1;
    rule(last < incarnations.size() && json.size() == (json.contains("torn") ? 4 : 2) && steps >= 1 &&
         steps <= kMostTorn && json.at("step").get<int64_t>() == incarnations[last].head);
    incarnations[last].head += steps;
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
  out["count"] = (torn + kShortestLine - 1) / kShortestLine;
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

Ledger::Books Ledger::books_of(const Chain& chain) {
  Books books;
  for (size_t i = 0; i < chain.records.size(); ++i) {
    if (i > 0)
      books.take(chain.records[i], i + 1);
    else if (chain.records[i] != kHeader)
      throw io::FormatError("the file doesn't begin as a ledger of version 1 does");
  }
  return books;
}

std::vector<Spent> Ledger::read(const std::filesystem::path& file) {
  auto chain = chain_of(file, content(file));
  auto books = books_of(chain);
  // A line that is being written, or torn: counted as it will be.
  if (chain.torn > 0) books.take(books.seal(chain.torn).dump(), chain.records.size() + 1);
  return books.spent();
}

Ledger::Ledger(const std::filesystem::path& file) : path_(file), lock_(file, "a ledger") {
  const auto words = content(file);
  io::Digest first{};
  const auto header = next_line(first, kHeader);
  if (words.size() < header.size() && header.starts_with(words)) {  // new, or its making was interrupted
    write(std::string_view(header).substr(words.size()));
    flush_folder(file.has_parent_path() ? file.parent_path() : ".");
    head_ = first;
    return;
  }
  const auto chain = chain_of(file, words);
  books_ = books_of(chain);
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
    const auto written = ::write(lock_.descriptor(), words.data(), words.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0)
      throw Error(text("cannot write the ledger ", path_, ": ", std::strerror(errno), "; the step is not made"));
    words.remove_prefix(static_cast<size_t>(written));
  }
  if (::fsync(lock_.descriptor()) != 0)
    throw Error(text("cannot flush the ledger ", path_, ": ", std::strerror(errno), "; the step is not made"));
  broken_ = false;
}

void Ledger::append(const Json& record, std::string_view torn) {
  const auto words = record.dump();
  auto head = head_;
  write(next_line(head, words, torn));
  head_ = head;
  books_.take(words, 0);
}

uint64_t Ledger::start(const PrivateRun& run, const std::optional<Origin>& from) {
  SHADE_REQUIRE(Json::parse(run.event.dump()) == run.event, "the event would not be read back as it is (a NaN?)");
  auto& all = books_.incarnations;
  const bool known = !from || (from->incarnation < all.size() && from->step >= all[from->incarnation].begin() &&
                               from->step <= all[from->incarnation].head);
  if (!known)
    throw Error(text("the checkpoint comes from step ", from->step, " of incarnation ", from->incarnation,
                     ", which the ledger ", path_,
                     " doesn't know: it is another run's, or it lost what was spent. Give the ledger of that run"));
  current_.reset();
  if (from && all[from->incarnation].run == run) current_ = from->incarnation;
  for (size_t i = 0; i < all.size() && !current_; ++i)
    if (all[i].from == from && all[i].run == run) current_ = i;
  if (!current_) {
    append({{"incarnation", all.size()},
            {"key", run.key},
            {"exact", run.exact},
            {"from", from ? from->json() : Json()},
            {"event", run.event}});
    current_ = all.size() - 1;
  }
  next_ = from ? from->step : 0;
  return *current_;
}

bool Ledger::spend(int64_t step) {
  SHADE_CHECK(current_.has_value(), "start() comes before the first step");
  SHADE_CHECK(!broken_, "the ledger ", path_, " could not be written before");
  SHADE_CHECK(step == next_, "step ", step, " is spent, but step ", next_,
              " must come; after going back, start() anew");
  const bool replay = step < books_.incarnations[*current_].head;
  if (!replay) append({{"incarnation", *current_}, {"step", step}});
  ++next_;
  return replay;
}

int64_t Ledger::made() const {
  SHADE_CHECK(current_.has_value(), "start() comes before the first step");
  return std::max(next_, books_.incarnations[*current_].head);
}

Origin Ledger::origin(int64_t step) const {
  SHADE_CHECK(current_.has_value(), "start() comes before the first step");
  const auto& here = books_.incarnations[*current_];
  SHADE_CHECK(step >= here.begin() && step <= here.head, "a state after step ", step, " was never made");
  return {*current_, step};
}

std::vector<Spent> Ledger::spent() const { return books_.spent(); }

}  // namespace shade::checkpoint
