#include "shade/train/run/space.h"

#include <gtest/gtest.h>

#include "tests/io/scratch.h"
#include "tests/support/fault.h"

namespace shade::train {
namespace {

// One more than is kept until the oldest is removed; those that are there take no more; a run may save less often.
TEST(Space, CheckpointsThatWillBeThereAtOnce) {
  const CheckpointBytes each{.trained = KiB(100), .frozen = KiB(7)};
  const auto need = [&](int64_t keep, int64_t there, int64_t saves) {
    return checkpoint_need("run", each, keep, there, saves).bytes;
  };
  EXPECT_EQ(need(2, 0, 10), KiB(307));
  EXPECT_EQ(need(2, 0, 2), KiB(207));
  EXPECT_EQ(need(2, 2, 10), KiB(107));
  EXPECT_EQ(need(2, 9, 10), KiB(107)) << "written before an old one is removed";
  EXPECT_EQ(need(2, 0, 0), Bytes{0});
}

TEST(Space, NeedsOnOneDiskAddUpAndFoldersMayBeNew) {
  const io::Scratch here;
  const auto free = static_cast<int64_t>(std::filesystem::space(here.path()).available);
  const Need half{"a thing", here.path() / "new/a", Bytes{free * 6 / 10}, "choose another one"};
  require_space({half});
  const auto said =
      test::fault([&] { require_space({half, {"the model", here.path() / "b", half.bytes, "drop it"}}); });
  for (const auto& words :
       {text("a thing in ", half.folder.string(), " and the model in "), std::string(" is free there"),
        std::string("free some space, or choose another one, or drop it")})
    EXPECT_NE(said.find(words), std::string::npos) << said;
}

}  // namespace
}  // namespace shade::train
