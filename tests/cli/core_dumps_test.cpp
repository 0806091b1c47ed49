// Programs that hold the noise key or a job secret leave no core dump of it.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>

#include "tests/io/scratch.h"
#include "tests/support/process.h"

namespace shade::cli {
namespace {

class CoreDumps : public testing::Test {
 protected:
  void SetUp() override {
    (void)test::run({"sh", "-c", text("cd ", here(), " && ulimit -c unlimited && kill -ABRT $$")});
    if (cores() == 0) GTEST_SKIP() << "this machine writes core dumps to another folder, or none";
    for (const auto& entry : std::filesystem::directory_iterator(scratch_.path()))
      std::filesystem::remove(entry.path());
  }

  std::string here() const { return scratch_.path().string(); }
  int cores() const {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(scratch_.path()))
      count += entry.path().filename().string().find("core") != std::string::npos;
    return count;
  }

  // Makes all processes of a training abort in the middle of its steps.
  void expect_none(size_t processes, const std::string& options) const {
    test::Running job({"sh", "-c",
                       text("cd ", here(), " && ulimit -c unlimited && exec ", test::shade_binary(),
                            " train --model llama-nano --from-scratch --synthetic --records 64 --batch-size 8",
                            " --seq-length 16 --threads 1 --steps 100000 --log-every 1 --output run ", options)},
                      {.environment = {{"SHADE_TEST_CASE", here()}}});
    ASSERT_TRUE(job.says("step 2/")) << job.output();
    const auto found = test::processes_with("SHADE_TEST_CASE", here());
    EXPECT_EQ(found.size(), processes) << job.output();
    for (const int pid : found) {
      rlimit limit{};
      const rlimit unlimited{.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
      // The limit is 0; and there is no core dump without it, as with a core_pattern that is a program.
      EXPECT_EQ(::prlimit(pid, RLIMIT_CORE, &unlimited, &limit), 0);
      EXPECT_EQ(limit.rlim_cur, 0U) << "process " << pid;
    }
    for (const int pid : found) ::kill(pid, SIGABRT);
    EXPECT_EQ(job.finish().status, 128 + SIGABRT) << job.output();
    EXPECT_EQ(cores(), 0) << options;
  }

 private:
  io::Scratch scratch_;
};

TEST_F(CoreDumps, NoneOfAPrivateRunWithItsNoiseKey) {
  expect_none(1, "--dp ghost --noise-multiplier 1 --delta 1e-5");
  expect_none(1, "--dp ghost --noise-multiplier 1 --delta 1e-5");  // continues, with the key that it reads
}

TEST_F(CoreDumps, NoneOfRanksAndTheirLauncherWithTheirSecret) { expect_none(3, "--ranks 2"); }

}  // namespace
}  // namespace shade::cli
