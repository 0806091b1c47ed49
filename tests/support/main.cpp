// The main of every test binary.
#include <gtest/gtest.h>

#include <cstdio>

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const int status = RUN_ALL_TESTS();
  const auto& all = *testing::UnitTest::GetInstance();
  if (all.test_to_run_count() > 0 && all.skipped_test_count() == all.test_to_run_count())
    std::printf("every test was skipped\n");  // CTest then says so too
  return status;
}
