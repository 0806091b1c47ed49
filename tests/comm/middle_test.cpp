// A private job of two hosts and a man in the middle (middle.h). Whatever is done to one message, the job ends within
// ten seconds and says why, or goes on with the weights that it has without it.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <future>

#include "shade/base/strings.h"
#include "shade/base/temporary_folder.h"
#include "tests/comm/middle.h"
#include "tests/comm/private_job.h"
#include "tests/comm/weight_pieces.h"
#include "tests/support/process.h"

namespace shade::comm {
namespace {

using test::Trick;

constexpr const char *kChanged = "changed on its way", *kLost = "lost rank ", *kSecret = "does not have the job secret",
                     *kWaiting = "all ranks are alive and wait for each other";

struct Tampering {
  std::string name;
  test::Disturbance disturbance;
  std::vector<std::string> reasons;  // one of them is printed; none: the job finishes
};

struct Ending {
  test::Outcome job;
  std::string statuses;
  std::optional<Clock::time_point> disturbed;
  Seconds after{0};  // the disturbance
  size_t messages = 0;
  bool understood = true;
  std::map<std::string, std::string> weights;
};

Ending tamper(const std::filesystem::path& folder, const test::Disturbance& disturbance) {
  const test::Host a, b;
  test::Middle middle(a, b, {.disturbance = disturbance});
  Ending out;
  out.job = test::run({"sh", "-c", test::start_ranks({&a, &b}, test::private_run(folder))}, {.limit = Seconds(60)});
  const auto end = Clock::now();
  middle.stop();
  out.disturbed = middle.disturbed();
  if (out.disturbed) out.after = end - *out.disturbed;
  out.messages = middle.messages();
  out.understood = middle.understood();
  const auto at = out.job.output.rfind("statuses ");
  if (at != std::string::npos) out.statuses = trim(std::string_view(out.job.output).substr(at));
  out.weights = test::weight_files(folder);
  return out;
}

std::vector<Tampering> tamperings() {
  std::vector<Tampering> out;
  const std::vector<std::pair<std::string, Trick>> tricks{{"flipped payload", Trick::flip_payload},
                                                          {"flipped length", Trick::flip_length},
                                                          {"flipped number", Trick::flip_number},
                                                          {"flipped tag", Trick::flip_tag},
                                                          {"dropped", Trick::drop},
                                                          {"repeated", Trick::repeat},
                                                          {"swapped", Trick::swap},
                                                          {"truncated", Trick::truncate},
                                                          {"renumbered", Trick::renumber},
                                                          {"reflected", Trick::reflect},
                                                          {"crossed", Trick::cross},
                                                          {"closed", Trick::close}};
  // On every change one direction of each in turn, at the first message of some size; nightly all, and at the first
  // message of all and a later one too.
  const bool all = std::getenv("SHADE_FULL_MATRIX") != nullptr;
  std::vector<std::pair<uint64_t, size_t>> places{{1, 1024}};  // number, bytes
  if (all) places.insert(places.end(), {{0, 1}, {20, 1}});
  for (const auto& [number, bytes] : places)
    for (size_t i = 0; i < 2 * tricks.size(); ++i) {
      const auto& [name, trick] = tricks[i / 2];
      const bool to_server = i % 2 == 0;
      if (i / 2 % 2 != i % 2 && !all) continue;
      // A message that doesn't come, or not all of it, may be missed before the next one shows it.
      const bool missing = trick == Trick::drop || trick == Trick::swap || trick == Trick::truncate;
      out.push_back({.name = text(name, to_server ? " to rank 0" : " to rank 1", " from message ", number, " on"),
                     // Private sums have 8 bytes a weight: no long message of theirs is as long as one of weights.
                     .disturbance = {.trick = trick,
                                     .to_server = to_server,
                                     .number = trick == Trick::cross ? 0 : number,
                                     .at_least = trick == Trick::cross ? 1 : bytes},
                     .reasons = {trick == Trick::close ? kLost : kChanged, missing ? kWaiting : kChanged}});
    }
  // Rank 0 refuses, and rank 1 tries again.
  for (const auto& [name, offset] : {std::pair("rank", 0), {"greeting", 20}, {"offer to seal", 40}, {"code", 50}})
    out.push_back({.name = text("hello: ", name),
                   .disturbance = {.trick = Trick::flip_hello, .offset = static_cast<size_t>(offset)}});
  for (const auto& [name, offset] : {std::pair("greeting", 5), {"offer to seal", 32}, {"code", 40}})
    out.push_back({.name = text("answer: ", name),
                   .disturbance = {.trick = Trick::flip_answer, .offset = static_cast<size_t>(offset)},
                   .reasons = {kSecret}});
  out.push_back({.name = "confirmation", .disturbance = {.trick = Trick::flip_confirmation, .offset = 7}});
  out.push_back({.name = "welcome", .disturbance = {.trick = Trick::flip_welcome, .offset = 7}, .reasons = {kSecret}});
  return out;
}

TEST(Middle, WhoeverChangesAMessageEndsTheJobAndNoWeightIsChanged) {
  if (!test::can_make_hosts()) GTEST_SKIP() << "network namespaces cannot be made here";
  const TemporaryFolder folder("shade-middle");
  const auto undisturbed = tamper(folder / "undisturbed", {});
  ASSERT_EQ(undisturbed.statuses, "statuses 0 0") << undisturbed.job.output;
  ASSERT_TRUE(undisturbed.understood);
  ASSERT_GT(undisturbed.messages, 50u);
  ASSERT_EQ(undisturbed.weights.size(), 6u);  // of two ranks, after each of three steps

  const auto cases = tamperings();
  std::vector<Ending> endings(cases.size());
  std::atomic<size_t> next = 0;
  std::vector<std::future<void>> workers;  // the jobs mostly wait
  for (int i = 0; i < 4; ++i)
    workers.push_back(std::async(std::launch::async, [&] {
      for (size_t at = 0; (at = next++) < cases.size();)
        endings[at] = tamper(folder / text("case", at), cases[at].disturbance);
    }));
  for (auto& worker : workers) worker.get();

  for (size_t i = 0; i < cases.size(); ++i) {
    const auto& [name, disturbance, reasons] = cases[i];
    const auto& seen = endings[i];
    SCOPED_TRACE(text(name, ", ", seen.statuses, " ", seen.after.count(), " s later\n", seen.job.output));
    EXPECT_TRUE(seen.disturbed) << "nothing was changed";
    if (reasons.empty()) {
      EXPECT_EQ(seen.statuses, "statuses 0 0");
      EXPECT_NE(seen.job.output.find(kSecret), std::string::npos);
      EXPECT_TRUE(seen.weights == undisturbed.weights);
      continue;
    }
    EXPECT_TRUE(seen.statuses == "statuses 1 75" || seen.statuses == "statuses 75 1" ||
                seen.statuses == "statuses 1 1" || seen.statuses == "statuses 75 75");
    EXPECT_TRUE(std::any_of(reasons.begin(), reasons.end(),
                            [&](const auto& words) { return seen.job.output.find(words) != std::string::npos; }));
    EXPECT_LT(seen.after.count(), 10);
    for (const auto& [file, content] : seen.weights) {
      const auto expected = undisturbed.weights.find(file);
      EXPECT_TRUE(expected != undisturbed.weights.end() && expected->second == content) << file;
    }
  }
}

}  // namespace
}  // namespace shade::comm
