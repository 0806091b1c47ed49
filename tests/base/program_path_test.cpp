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

TEST(ProgramPath, NothingRelativeToTheCurrentFolder) {
  const TemporaryFolder folder("shade_test");
  make(folder / "tool", fs::perms::owner_all);
  make(folder / "bin/tool", fs::perms::owner_all);
  make(folder / "last/tool", fs::perms::owner_all);
  const auto before = fs::current_path();
  fs::current_path(folder.path());
  for (const auto* folders : {"", "::", ".", "./", "bin", "bin/../bin"})
    EXPECT_EQ(program_in(folders, "tool"), std::nullopt) << folders;
  EXPECT_EQ(program_in(text(":.:bin:", (folder / "last").string()), "tool"), folder / "last/tool");
  fs::current_path(before);
}

TEST(ProgramPath, IsThatOfTheEnvironment) { EXPECT_TRUE(program_in(search_path(), "sh").has_value()); }

}  // namespace
}  // namespace shade
