#include "shade/base/program_path.h"

#include <gtest/gtest.h>

#include <fstream>

#include "shade/base/error.h"
#include "shade/base/temporary_folder.h"

namespace shade {
namespace {

namespace fs = std::filesystem;

void make(const fs::path& file, fs::perms permissions) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << "#!/bin/sh\n";
  fs::permissions(file, permissions);
}

TEST(ProgramPath, TheFirstThatMayBeRun) {
  const TemporaryFolder folder("shade_test");
  make(folder / "first/tool", fs::perms::owner_read);
  make(folder / "second/tool", fs::perms::owner_all);
  make(folder / "third/tool", fs::perms::owner_all);
  const auto path = [&](const char* name) { return (folder / name).string(); };
  EXPECT_EQ(program_in(text(path("absent"), ":", path("first"), ":", path("second"), ":", path("third")), "tool"),
            folder / "second/tool");
  EXPECT_EQ(program_in(path("third"), "tool"), folder / "third/tool");
  EXPECT_EQ(program_in(path("second"), "other"), std::nullopt);
  EXPECT_EQ(program_in("", "tool"), std::nullopt);
}

TEST(ProgramPath, TheCurrentFolderOnlyIfItIsNamed) {
  const TemporaryFolder folder("shade_test");
  make(folder / "tool", fs::perms::owner_all);
  const auto before = fs::current_path();
  fs::current_path(folder.path());
  const auto unnamed = program_in("::", "tool"), named = program_in(".", "tool");
  fs::current_path(before);
  EXPECT_EQ(unnamed, std::nullopt);
  ASSERT_TRUE(named.has_value());
  EXPECT_TRUE(named->is_absolute()) << *named;
}

TEST(ProgramPath, IsThatOfTheEnvironment) { EXPECT_TRUE(program_in(search_path(), "sh").has_value()); }

}  // namespace
}  // namespace shade
