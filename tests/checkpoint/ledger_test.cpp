// What was spent stays spent: whatever is cut off, flipped, gone back to or started twice.
#include "shade/checkpoint/ledger.h"

#include <gtest/gtest.h>

#include "shade/io/errors.h"
#include "tests/io/scratch.h"

namespace shade::checkpoint {
namespace {

using io::content;
using io::Scratch;

const Json kEvent{{"sampler", "poisson"}, {"rate", 0.01}, {"sigma", 1.1}, {"clip_norm", 1.0}, {"delta", 1e-5}};
const PrivateRun kRun{.key = "5f0c", .exact = "seed 1, 2 ranks zero3", .event = kEvent};

// Bytes and sums that are the same whenever they are asked for.
FreshBytes numbered(uint64_t number) {
  FreshBytes out{};
  out[0] = static_cast<uint8_t>(number), out[1] = 7;
  return out;
}
SumDigest sum_of(int64_t step) { return numbered(static_cast<uint64_t>(step)); }
const NewSteps kSeeded{.fresh = numbered, .repeatable = true};

// A state of a seeded ledger.
Origin state(uint64_t incarnation, int64_t step) {
  return Stretch{.incarnation = incarnation, .fresh = numbered(incarnation)}.at(step);
}

// Each call other bytes, as a process that draws them.
NewSteps drawn() {
  static uint64_t number = 1000;
  return {.fresh = [](uint64_t) { return hash::digest_of(text(++number)); }};
}

struct LedgerTest : testing::Test {
  Scratch scratch;
  std::filesystem::path file = scratch.path() / "ledger";

  std::vector<Stretch> make(const PrivateRun& run, const std::optional<Origin>& from, int64_t begin, int64_t end,
                            const NewSteps& steps = kSeeded) const {
    Ledger ledger(file);
    const auto out = ledger.start(run, from, steps);
    for (auto step = begin; step < end; ++step) ledger.spend(step, sum_of(step));
    return out;
  }
  int64_t total() const {
    int64_t sum = 0;
    for (const auto& spent : Ledger::read(file)) sum += spent.steps;
    return sum;
  }
};

TEST_F(LedgerTest, CountsStepsByEvent) {
  make(kRun, {}, 0, 5);
  auto other = kRun;
  other.event["sigma"] = 2.0;
  make(other, state(0, 5), 5, 8);
  make(kRun, state(1, 8), 8, 10);
  const auto spent = Ledger::read(file);
  ASSERT_EQ(spent.size(), 2u);
  EXPECT_EQ(spent[0].event, kEvent);
  EXPECT_EQ(spent[0].steps, 7);
  EXPECT_EQ(spent[1].event["sigma"], 2.0);
  EXPECT_EQ(spent[1].steps, 3);
  const Ledger ledger(file);
  EXPECT_EQ(ledger.spent().size(), 2u);
}

// The mark for a killed run: the same bytes as of one that was never interrupted.
TEST_F(LedgerTest, AnExactReplayIsCountedOnceAndLeavesTheFileAsItWas) {
  make(kRun, {}, 0, 7);
  const auto before = content(file);
  {
    Ledger ledger(file);
    EXPECT_EQ(ledger.made(kRun, state(0, 4), /*repeatable=*/true), 7);
    EXPECT_EQ(ledger.start(kRun, state(0, 4), kSeeded).back().incarnation, 0u);
    for (int64_t step = 4; step < 7; ++step) EXPECT_TRUE(ledger.spend(step, sum_of(step)));
    EXPECT_EQ(content(file), before);
    EXPECT_FALSE(ledger.spend(7, sum_of(7)));
  }
  make(kRun, {}, 0, 8);  // from the first weights: there was no checkpoint yet
  const auto resumed = content(file);
  std::filesystem::remove(file);
  make(kRun, {}, 0, 8);
  EXPECT_EQ(content(file), resumed);
}

TEST_F(LedgerTest, WhatIsNoExactReplayIsCountedAgainWithNoiseOfItsOwn) {
  make(kRun, {}, 0, 7);
  for (auto [change, incarnation] : {std::pair{"3 ranks", 1u}, {"4 ranks", 2u}, {"3 ranks", 1u}}) {
    auto run = kRun;
    run.exact = change;
    Ledger ledger(file);
    EXPECT_EQ(ledger.start(run, state(0, 4), kSeeded).back().incarnation, incarnation);
    const bool again = ledger.spend(4, sum_of(4));
    EXPECT_EQ(again, incarnation == 1 && total() > 8) << "the second time it is a replay of that one";
  }
  EXPECT_EQ(total(), 9);
  auto run = kRun;
  run.key = "another";
  Ledger ledger(file);
  EXPECT_EQ(ledger.start(run, {}, kSeeded).back().incarnation, 3u) << "another key from the start";
}

// On accelerators sums are not hashed. Even if all that is known of two runs were the same, nobody would see that a
// step comes out otherwise.
TEST_F(LedgerTest, AStepWithoutTheHashOfItsSumIsNeverMadeAgain) {
  {
    Ledger ledger(file);
    ledger.start(kRun, {}, drawn());
    for (int64_t step = 0; step < 2; ++step) ledger.spend(step, sum_of(step));
    for (int64_t step = 2; step < 4; ++step) ledger.spend(step, kNotKnown);
  }
  Ledger ledger(file);
  EXPECT_EQ(ledger.made(kRun, {}), 2);
  const auto stretches = ledger.start(kRun, {}, drawn());
  ASSERT_EQ(stretches.size(), 2u);
  EXPECT_EQ(stretches[1].begin, 2) << "from here on with bytes of its own";
  EXPECT_NE(stretches[0].fresh, stretches[1].fresh);
  EXPECT_NE(io::message_of<Error>([&] { ledger.spend(0, kNotKnown); }).find("was made before"), std::string::npos)
      << "nor is one that was hashed taken for the same unseen";
  EXPECT_EQ(total(), 4);
}

// The same noise on other weights would give away the difference of two sums.
TEST_F(LedgerTest, AnIncarnationHasOneHistory) {
  make(kRun, {}, 0, 10);
  auto moved = kRun;
  moved.exact = "3 ranks";
  make(moved, state(0, 8), 8, 12);  // incarnation 1, begins at 8
  Ledger ledger(file);
  const auto continues = [&](const PrivateRun& run, const Origin& from) {
    return ledger.start(run, from, kSeeded).back().incarnation;
  };
  EXPECT_EQ(continues(moved, state(0, 5)), 2u) << "not 1: its steps 8 to 11 were made from other weights";
  EXPECT_EQ(continues(moved, state(1, 9)), 1u);
  EXPECT_EQ(continues(kRun, state(1, 9)), 3u) << "not 0: its step 9 was made from other weights";
  EXPECT_EQ(continues(kRun, state(0, 9)), 0u);
}

// Two copies of a file that go on: what the file has is made again from its own bytes, what is new never from the same.
TEST_F(LedgerTest, CopiesThatGoOnNeverShareBytes) {
  const auto first = make(kRun, {}, 0, 7, drawn()).front();
  const auto copy = content(file);
  std::vector<std::vector<Stretch>> both;
  for (int i = 0; i < 2; ++i) {
    scratch.write("ledger", copy);
    both.push_back(make(kRun, first.at(4), 4, 9, drawn()));
    EXPECT_EQ(total(), 9) << "steps 4 to 6 are counted once";
  }
  for (const auto& stretches : both) {
    ASSERT_EQ(stretches.size(), 2u);
    EXPECT_EQ(stretches[0].begin, 4);
    EXPECT_EQ(stretches[0].end, 7);
    EXPECT_EQ(stretches[1].begin, 7);
  }
  EXPECT_EQ(both[0][0].fresh, both[1][0].fresh) << "the same steps";
  EXPECT_NE(both[0][1].fresh, both[1][1].fresh) << "other steps";
  EXPECT_NE(both[0][1].fresh, both[0][0].fresh);
  // A checkpoint of the other copy is not one of this ledger, though incarnation and step are.
  const Ledger ledger(file);
  EXPECT_EQ(ledger.made(kRun, both[1][1].at(8)), 9);
  EXPECT_THROW(ledger.made(kRun, both[0][1].at(8)), Error);
}

// A crash in the second process, whose steps were not saved: they are made again too, along the history.
TEST_F(LedgerTest, StepsOfSeveralProcessesAreMadeAgainInOrder) {
  const auto first = make(kRun, {}, 0, 5, drawn()).front();
  const auto second = make(kRun, first.at(3), 3, 8, drawn()).back();
  make(kRun, first.at(3), 3, 4, drawn());  // ended while it made steps again
  const Ledger ledger(file);
  EXPECT_EQ(ledger.made(kRun, first.at(3)), 8);
  EXPECT_EQ(ledger.made(kRun, second.at(6)), 8);
  EXPECT_EQ(ledger.made(kRun, {}), 8);
  auto moved = kRun;
  moved.exact = "3 ranks";
  EXPECT_EQ(ledger.made(moved, first.at(3)), 3);
  EXPECT_EQ(total(), 8);
}

// Identity can't know everything. The sum of a step that is made again is compared before its noise is drawn.
TEST_F(LedgerTest, AStepThatComesOutOtherwiseStops) {
  for (const auto& steps : {kSeeded, drawn()}) {
    std::filesystem::remove(file);
    const auto first = make(kRun, {}, 0, 7, steps).front();
    {
      Ledger ledger(file);
      ledger.start(kRun, first.at(4), steps);
      ledger.spend(4, sum_of(4));
      EXPECT_NE(io::message_of<Error>([&] { ledger.spend(5, sum_of(99)); }).find("was made before"), std::string::npos);
      EXPECT_ANY_THROW(ledger.spend(5, sum_of(5))) << "nothing more is accepted";
    }
    Ledger ledger(file);
    const auto after = ledger.start(kRun, first.at(4), steps);
    ASSERT_EQ(after.size(), 1u) << "incarnation 0 is not made again";
    EXPECT_EQ(after[0].incarnation, steps.repeatable ? 1u : 2u);
    ledger.spend(4, sum_of(4));
    EXPECT_EQ(total(), 8) << "step 4 counts twice";
  }
}

TEST_F(LedgerTest, StepsComeInOrder) {
  Ledger ledger(file);
  EXPECT_ANY_THROW(ledger.spend(0, sum_of(0))) << "not started";
  ledger.start(kRun, {}, kSeeded);
  EXPECT_ANY_THROW(ledger.spend(1, sum_of(1)));
  ledger.spend(0, sum_of(0));
  EXPECT_ANY_THROW(ledger.spend(0, sum_of(0))) << "the same step twice in one run is no replay";
}

TEST_F(LedgerTest, RefusesACheckpointItDoesNotKnow) {
  make(kRun, {}, 0, 3);
  Ledger ledger(file);
  for (const auto& origin : {state(0, 4), state(1, 0), state(7, 2), Origin{0, 2}})
    EXPECT_NE(io::message_of<Error>([&] { ledger.start(kRun, origin, kSeeded); }).find("lost what was spent"),
              std::string::npos);
}

TEST_F(LedgerTest, IsOneRunsAtATime) {
  const Ledger ledger(file);
  EXPECT_NE(io::message_of<UsageError>([&] { Ledger second(file); }).find("in use by another run"), std::string::npos);
  EXPECT_TRUE(Ledger::read(file).empty()) << "reading is always possible";
}

// Cut anywhere: never less than the whole lines say, and at most one step more; the file only grows.
TEST_F(LedgerTest, ATornLastLineCountsAsSpent) {
  make(kRun, {}, 0, 3);
  const auto whole = content(file);
  size_t complete = 0;
  for (size_t size = 0; size < whole.size(); ++size) {
    // Every flush takes milliseconds: all sizes near the end of a line, and some between.
    const auto end = whole.find('\n', size == 0 ? 0 : size - 1);
    if (size % 11 != 0 && end + 1 - size > 2) continue;
    const auto part = whole.substr(0, size);
    const auto lines = static_cast<int64_t>(std::count(part.begin(), part.end(), '\n'));
    scratch.write("ledger", part);
    const auto least = std::max<int64_t>(0, lines - 2);  // a line for the format, one for the incarnation
    const bool torn = size > 0 && part.back() != '\n';
    const auto counted = total();
    EXPECT_GE(counted, least + (torn && lines >= 2 ? 1 : 0)) << size;
    EXPECT_TRUE(lines >= 2 || counted == 0) << size << ": no step can have been made";
    {
      Ledger ledger(file);
      int64_t sum = 0;
      for (const auto& spent : ledger.spent()) sum += spent.steps;
      EXPECT_EQ(sum, counted) << size;
      // Life goes on, as a replay of what was torn.
      ledger.start(kRun, {}, size % 2 == 0 ? kSeeded : drawn());
      for (int64_t step = 0; step < 3; ++step) ledger.spend(step, sum_of(step));
    }
    const auto grown = content(file);
    EXPECT_TRUE(grown.starts_with(part)) << size << ": nothing is ever removed";
    EXPECT_GE(total(), 3) << size;
    EXPECT_LE(total(), 4) << size;
    complete += torn ? 0 : 1;
  }
  EXPECT_EQ(complete, 5u) << "0 bytes, and four ends of lines";
}

TEST_F(LedgerTest, ASealMayBeTornToo) {
  make(kRun, {}, 0, 2);
  auto words = content(file);
  for (int i = 0; i < 5; ++i) {
    words.resize(words.size() - 20);  // the last line, of a step and then of seals
    scratch.write("ledger", words);
    const Ledger ledger(file);
    words = content(file);
  }
  EXPECT_GE(total(), 2);
  make(kRun, {}, 0, 5);
  EXPECT_GE(total(), 5);
}

TEST_F(LedgerTest, ZerosAtTheEndCountAsTheStepsTheyCouldHaveBeen) {
  make(kRun, {}, 0, 4);
  const auto words = content(file);
  const auto line = words.size() - (words.rfind('\n', words.size() - 2) + 1);
  for (const size_t lost : {size_t{10}, line, 3 * line, 4 * line - 1}) {
    auto zeroed = words;
    std::fill(zeroed.end() - static_cast<ptrdiff_t>(lost), zeroed.end(), '\0');
    scratch.write("ledger", zeroed);
    EXPECT_GE(total(), 4) << lost;
    {
      const Ledger ledger(file);
    }
    EXPECT_GE(total(), 4) << lost;
  }
}

TEST_F(LedgerTest, DamageElsewhereIsRefused) {
  make(kRun, {}, 0, 4);
  const auto words = content(file);
  const auto last = words.rfind('\n', words.size() - 2) + 1;
  int refused = 0, counted = 0;
  for (size_t at = 0; at < words.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      const auto poke = [&](char byte) {
        std::fstream(file, std::ios::binary | std::ios::in | std::ios::out)
            .seekp(static_cast<std::streamoff>(at))
            .put(byte);
      };
      poke(static_cast<char>(words[at] ^ (1 << bit)));
      try {
        const auto sum = total();
        EXPECT_GE(at, last) << "byte " << at << " bit " << bit << " is not in the last line";
        EXPECT_GE(sum, 4) << "byte " << at << " bit " << bit;
        ++counted;
      } catch (const io::FormatError&) {
        ++refused;
      }
      poke(words[at]);
    }
  EXPECT_EQ(refused + counted, static_cast<int>(words.size()) * 8);
  EXPECT_LE(counted, 16) << "only what looks like an interrupted write: no end of line, or a zero in it";
  // Lines taken out, swapped or repeated.
  const auto line = words.size() - last;
  for (const auto& broken : {words.substr(0, last - line) + words.substr(last), words + words.substr(last),
                             words.substr(0, last - line) + words.substr(last) + words.substr(last - line, line)}) {
    scratch.write("ledger", broken);
    EXPECT_THROW(total(), io::FormatError);
    EXPECT_THROW(Ledger ledger(file), io::FormatError);
    EXPECT_EQ(content(file), broken) << "and left as it is";
  }
}

TEST_F(LedgerTest, RefusesWellChainedNonsense) {
  const std::string bytes(64, '0');
  const auto first = text(R"({"incarnation":0,"fresh":")", bytes, R"(","key":"","exact":"","from":null,"event":{}})");
  for (const auto& record : std::vector<std::string>{
           "{}", "7", "[]", R"({"incarnation":0,"step":0})", R"({"incarnation":-1,"step":0})",
           R"({"incarnation":1,"key":"","exact":"","from":null,"event":{}})",
           R"({"incarnation":0,"key":"","exact":"","from":{"incarnation":0,"step":0},"event":{}})",
           R"({"incarnation":0,"key":3,"exact":"","from":null,"event":{}})", R"({"torn":5,"incarnation":0,"step":0})",
           R"({"torn":5,"incarnation":0,"step":0,"count":99999999})", "nonsense",
           R"({"incarnation":0,"fresh":"00","key":"","exact":"","from":null,"event":{}})",
           R"({"incarnation":0,"diverged":0})"}) {
    for (const int version : {1, 2}) {
      hash::Digest head{};
      auto words = next_line(head, text(R"({"format":"shade ledger","version":)", version, "}"));
      words += next_line(head, record);
      scratch.write("ledger", words);
      EXPECT_THROW(total(), io::FormatError) << record;
    }
  }
  for (const auto& record :
       {text(R"({"incarnation":0,"step":0})"), text(R"({"incarnation":0,"diverged":0})"),
        text(R"({"incarnation":0,"step":0,"sum":"00"})"), text(R"({"incarnation":0,"step":1,"sum":")", bytes, R"("})"),
        text(R"({"incarnation":1,"key":"","exact":"","from":null,"event":{}})")}) {
    hash::Digest head{};
    auto words = next_line(head, R"({"format":"shade ledger","version":2})");
    words += next_line(head, first);
    scratch.write("ledger", words);
    EXPECT_EQ(total(), 0);
    scratch.write("ledger", words + next_line(head, record));
    EXPECT_THROW(total(), io::FormatError) << record;
  }
  hash::Digest head{};
  scratch.write("ledger", next_line(head, R"({"format":"shade ledger","version":3})"));
  EXPECT_THROW(total(), io::FormatError);
  scratch.write("ledger", "something else entirely\n");
  EXPECT_THROW(total(), io::FormatError);
}

TEST_F(LedgerTest, RefusesAnEventThatWouldNotComeBack) {
  Ledger ledger(file);
  auto run = kRun;
  run.event["sigma"] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(ledger.start(run, {}, kSeeded), UsageError);
  EXPECT_EQ(total(), 0);
}

TEST(Origin, TravelsInACheckpoint) {
  const Origin origin{3, 120, "5f0c"};
  EXPECT_EQ(Origin::from_json(Json::parse(origin.json().dump())), origin);
  EXPECT_THROW(Origin::from_json({{"step", 3}}), UsageError);
  EXPECT_THROW(Origin::from_json({{"incarnation", -1}, {"step", 3}}), UsageError);
}

}  // namespace
}  // namespace shade::checkpoint
