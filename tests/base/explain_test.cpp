#include "shade/base/explain.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>

#include "shade/base/json.h"

namespace shade {
namespace {

template <class Action>
std::string explained(const Action& action) {
  try {
    action();
  } catch (const std::exception& fault) {
    return explain(fault);
  }
  return "no error";
}

TEST(Explain, FilesAndReasonsWithoutTheNamesOfLibraries) {
  EXPECT_EQ(explained([] { (void)std::filesystem::file_size("/no/such/file"); }),
            "cannot use \"/no/such/file\": No such file or directory");
  EXPECT_EQ(explained([] { (void)std::filesystem::is_symlink(std::string(300, 'x')); }),
            "cannot use \"" + std::string(300, 'x') + "\": File name too long; choose a shorter name");
  EXPECT_EQ(explained([] { std::filesystem::rename("/no/such", "/none"); }),
            "cannot use \"/no/such\" and \"/none\": No such file or directory");
}

TEST(Explain, ThreadsNameTheLimitOfProcesses) {
  const auto words = explained([] { throw std::system_error(EAGAIN, std::generic_category()); });
  EXPECT_TRUE(words.starts_with("cannot start a thread: the limit of processes and threads of this user")) << words;
  EXPECT_NE(words.find("raise it (ulimit -u"), std::string::npos) << words;
  EXPECT_EQ(cannot_start("gnuplot", ENOMEM), "cannot start gnuplot: Cannot allocate memory");
}

TEST(Explain, JsonAndSizes) {
  EXPECT_TRUE(explained([] { (void)Json("\xff").dump(); }).starts_with("a name or text that is to be written is not"));
  EXPECT_TRUE(explained([] { (void)Json(1).get<std::string>(); }).starts_with("a JSON file doesn't have the expected"));
  EXPECT_EQ(explained([] { throw std::length_error("vector::reserve"); }),
            "a size is larger than any memory; choose smaller numbers");
  EXPECT_EQ(explained([] { throw std::runtime_error("as it is"); }), "as it is");
}

TEST(Explain, ReasonsHaveARemedy) {
  for (const auto& [fault, remedy] :
       {std::pair{ENOSPC, "free some space"}, {EFBIG, "ulimit -f"}, {EMFILE, "ulimit -n"}})
    EXPECT_NE(reason_of(fault).find(remedy), std::string::npos) << reason_of(fault);
}

}  // namespace
}  // namespace shade
