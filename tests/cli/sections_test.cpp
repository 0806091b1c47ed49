// A real task from beginning to end, as docs/training.md tells it: a language model is trained on public descriptions
// of Debian packages; from it, adapters that name a package's section, with differential privacy.
#include <gtest/gtest.h>

#include "shade/base/json.h"
#include "tests/io/scratch.h"
#include "tests/support/process.h"

namespace shade::cli {
namespace {

TEST(Sections, PrivateAdaptersBeatTheMajorityClass) {
  const io::Scratch scratch;
  const auto place = [&](const char* name) { return (scratch.path() / name).string(); };
  const auto made = test::run({test::source_root() + "/tools/debian_sections", place("sections")});
  if (made.status != 0) GTEST_SKIP() << made.output;
  const auto train = [&](const std::string& name, std::vector<std::string> options) {
    std::vector<std::string> command{test::shade_binary(), "train", test::source_root() + "/recipes/" + name + ".toml",
                                     "--output", place(name.c_str())};
    command.insert(command.end(), options.begin(), options.end());
    const auto seen = test::run(command, {.limit = Seconds(3000)});
    EXPECT_EQ(seen.status, 0) << seen.output;
  };
  train("sections_base", {"--data-folder", place("sections/pretrain"), "--export", place("base")});
  train("sections_private", {"--data-folder", place("sections/classify"), "--test-folder", place("sections/test"),
                             "--weights", place("base"), "--export", place("model"), "--json", place("result.json")});
  const auto result = read_json(place("result.json"));
  EXPECT_LE(result["epsilon"], 3.0);
  EXPECT_EQ(result["config"]["dp"]["delta"], 1e-5);
  const auto& own = result["not_private"];
  EXPECT_GT(own["test_records"], 2000);
  EXPECT_GE(own["test_accuracy"], own["test_majority"].get<double>() + 0.10);
  std::printf("test accuracy %.4f, majority %.4f, epsilon %.4f\n", own["test_accuracy"].get<double>(),
              own["test_majority"].get<double>(), result["epsilon"].get<double>());
}

}  // namespace
}  // namespace shade::cli
