#include "shade/base/config.h"

#include <gtest/gtest.h>

namespace shade {
namespace {

enum class Mode { fast, exact, hidden };
std::span<const Name<Mode>> names_of(Mode) {
  static constexpr Name<Mode> kNames[] = {{"fast", Mode::fast}, {"exact", Mode::exact}, {"hidden", Mode::hidden}};
  return kNames;
}

struct Section {
  Mode plain = Mode::fast, limited = Mode::exact, derived = Mode::fast, untold = Mode::fast;
  bool offload = false;
  int64_t batch = 2;
  std::string name = "a|b";
  std::vector<std::string> names{"a", "b"};

  void declare(Fields& f) {
    f.add("plain", plain, {.help = "how: a|b"});
    f.add("limited", limited, {.help = "how", .not_offered = {"hidden"}});
    f.add("derived", derived, {.help = "how", .if_not_given = "as the model has it"});
    f.add("untold", untold, {.help = ""});
    f.add("offload", offload, {.help = "keep shards in a file"});
    f.add("batch", batch, {.help = "samples: a|b", .unit = "samples", .min = 1, .max = 9});
    f.add("name", name, {.help = "of the run: a|b"});
    f.add("names", names, {.help = "of classes"});
  }
};

TEST(FieldChoices, AreThoseThatCanBeSet) {
  using Words = std::vector<std::string>;
  Section section;
  Config config;
  config.add("s", section);
  const auto choices = [&](const std::string& key) {
    for (const auto& field : config.fields())
      if (field.key() == "s." + key) return choices_of(field);
    ADD_FAILURE() << key;
    return Words{};
  };
  const Words all{"fast", "exact", "hidden"};
  EXPECT_EQ(choices("plain"), all);
  EXPECT_EQ(choices("derived"), all);
  EXPECT_EQ(choices("untold"), all);
  EXPECT_EQ(choices("limited"), (Words{"fast", "exact"})) << "of those that are offered";
  EXPECT_EQ(choices("offload"), (Words{"true", "false"}));
  for (const auto* any : {"batch", "name", "names"}) EXPECT_EQ(choices(any), Words{}) << any;
  for (auto& field : config.fields())
    for (const auto& word : choices_of(field)) EXPECT_NO_THROW(field.set(word)) << field.key() << " " << word;
}

}  // namespace
}  // namespace shade
