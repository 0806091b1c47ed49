#include "shade/base/visible_text.h"

#include <gtest/gtest.h>

namespace shade {
namespace {

TEST(WithoutFolders, OfAPathThatLeadsElsewhereTheLastNameStays) {
  for (const auto& [word, kept] : {std::pair<std::string, std::string>{"/home/ann/llama", ".../llama"},
                                   {"/home/ann/llama/", ".../llama"},
                                   {"/home/ann/llama/../qwen", ".../qwen"},
                                   {"/", ".../"},
                                   {"--model=/home/ann/llama", "--model=.../llama"},
                                   {"@/home/ann/classes", "@.../classes"},
                                   {"--classes=@/home/ann/classes", "--classes=@.../classes"},
                                   {"nano,/home/ann/llama,/home/ann/qwen", "nano,.../llama,.../qwen"},
                                   {"--model=nano,/home/ann/llama", "--model=nano,.../llama"},
                                   {"../../ann/llama", ".../llama"},
                                   {"runs/../../ann/llama/", ".../llama"},
                                   {"./../ann/llama", ".../llama"},
                                   {"--model=../ann/llama", "--model=.../llama"},
                                   {"nano,../ann/llama,/home/ann/qwen", "nano,.../llama,.../qwen"},
                                   {"../..", "../.."},
                                   {"runs/../llama", "runs/../llama"},
                                   {"..ann/llama", "..ann/llama"},
                                   {"runs/llama", "runs/llama"},
                                   {"Qwen/Qwen2-1.5B", "Qwen/Qwen2-1.5B"},
                                   {"--model", "--model"},
                                   {"--model=", "--model="},
                                   {"a=/b", "a=/b"},
                                   {"", ""}})
    EXPECT_EQ(without_folders(word), kept) << word;
}

TEST(WithoutFolders, FindsPathsInSentences) {
  EXPECT_EQ(
      without_folders_within("no data at \"/home/ann b/texts\"; looked in /home/ann, /srv/x: 3 / 4 of a/b failed"),
      "no data at \".../texts\"; looked in .../ann, .../x: 3 / 4 of a/b failed");
  EXPECT_EQ(without_folders_within("--data-folder=/home/ann/texts (/etc/passwd)"),
            "--data-folder=.../texts (.../passwd)");
  EXPECT_EQ(without_folders_within("no \"../ann b/texts\" and no ../../ann/x; 3../4"),
            "no \".../texts\" and no .../x; 3../4");
  EXPECT_EQ(without_folders_within(""), "");
}

TEST(WithoutFolders, ReachesEveryTextOfADocument) {
  const Json json{
      {"model", "/home/ann/llama"}, {"data", {{"classes", {"a", "/home/ann/b"}}, {"flip", true}}}, {"n", 3}};
  EXPECT_EQ(without_folders(json),
            (Json{{"model", ".../llama"}, {"data", {{"classes", {"a", ".../b"}}, {"flip", true}}}, {"n", 3}}));
}

}  // namespace
}  // namespace shade
