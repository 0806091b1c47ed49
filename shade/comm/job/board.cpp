#include "shade/comm/job/board.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <algorithm>

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/comm/errors.h"
#include "shade/comm/store.h"

namespace shade::comm {
namespace {

std::string beat_key(int rank) { return text("beat/", rank); }
std::vector<std::string> beat_keys(int first, int end) {
  std::vector<std::string> keys;
  for (int rank = first; rank < end; ++rank) keys.push_back(beat_key(rank));
  return keys;
}
constexpr const char* kVerdict = "verdict";

}  // namespace

std::string Beat::print() const {
  return text(count, ' ', to_string(standing), ' ', waiting ? 1 : 0, ' ', progress, ' ', where);
}

Beat Beat::parse(const std::string& line) {
  std::istringstream in(line);
  Beat beat;
  std::string standing;
  in >> beat.count >> standing >> beat.waiting >> beat.progress;
  SHADE_CHECK(in, "not a beat: '", line, "'");
  beat.standing = parse_name<Standing>(standing);
  in.get();
  std::getline(in, beat.where, '\0');
  return beat;
}

// A restarted world must not read what its predecessor wrote into the same store.
Board::Board(c10::intrusive_ptr<c10d::Store> store, const std::string& session)
    : prefix_(text("shade/", session, "/board")),
      store_(c10::make_intrusive<c10d::PrefixStore>(prefix_, std::move(store))) {}

void Board::post(int rank, const Beat& beat) { store_->set(beat_key(rank), beat.print()); }

std::optional<Beat> Board::read(int rank) {
  if (const auto line = peek(*store_, beat_key(rank))) return taken(rank, *line);
  if (counts_.contains(rank)) throw SealBroken(prefix_ + "/" + beat_key(rank), "was deleted");
  return std::nullopt;
}

// A recorded beat of a rank that is dead by now would keep it alive.
Beat Board::taken(int rank, const std::string& line) {
  auto beat = Beat::parse(line);
  auto& count = counts_[rank];
  if (beat.count < count) throw SealBroken(prefix_ + "/" + beat_key(rank), "was replaced by an older one");
  count = beat.count;
  return beat;
}

bool Board::any(int ranks) {
  for (int rank = 0; rank < ranks; ++rank)
    if (store_->check({beat_key(rank)})) return true;
  return false;
}

// Few requests, one after another: each waits its turn among those of all ranks. Not one for any number: the store
// reads it again from its beginning with every 4 KiB that arrive.
std::vector<std::optional<Beat>> Board::look(int ranks) {
  constexpr int kAtOnce = 4096;
  std::vector<std::optional<Beat>> beats;
  for (int first = 0; first < ranks; first += kAtOnce) {
    const int end = std::min(first + kAtOnce, ranks);
    const auto lines = peek_all(*store_, beat_keys(first, end));
    for (int rank = first; rank < end; ++rank)
      beats.push_back(lines ? taken(rank, (*lines)[static_cast<size_t>(rank - first)]) : read(rank));
  }
  return beats;
}

std::vector<Beat> Board::read_all(int ranks) {
  std::vector<Beat> beats;
  for (auto& beat : look(ranks)) {
    if (!beat) throw SealBroken(prefix_ + "/" + beat_key(static_cast<int>(beats.size())), "was deleted");
    beats.push_back(*std::move(beat));
  }
  return beats;
}

void Board::set_verdict(const std::string& verdict) { store_->compareSet(kVerdict, std::string(), verdict); }

std::optional<std::string> Board::verdict() { return peek(*store_, kVerdict); }

std::string Board::positions(int ranks) { return describe_positions(look(ranks)); }

std::string describe_positions(std::span<const std::optional<Beat>> beats) {
  std::map<std::string, std::vector<int>> at;
  for (size_t rank = 0; rank < beats.size(); ++rank) {
    const auto& beat = beats[rank];
    std::string where = "never joined";
    if (beat && beat->standing == Standing::left)
      where = "had left";
    else if (beat)
      where = (beat->standing == Standing::failed ? "failed: " : "") + beat->where;
    at[where].push_back(static_cast<int>(rank));
  }
  // The odd ones out first: that is where to look.
  std::vector<std::pair<std::string, std::vector<int>>> places(at.begin(), at.end());
  std::stable_sort(places.begin(), places.end(),
                   [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  std::vector<std::string> sentences;
  for (const auto& [where, ranks] : places)
    sentences.push_back(text(ranks.size() == 1 ? "rank " : "ranks ", ranges(ranks), ": ", where));
  return join(sentences, "; ");
}

}  // namespace shade::comm
