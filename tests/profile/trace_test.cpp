// A trace is written by the real profiler and read back as JSON.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "shade/base/json.h"
#include "shade/profile/trace.h"
#include "tests/support/process.h"

namespace shade::profile {
namespace {

TEST(Trace, HoldsTheOperatorsBetweenBeginAndSave) {
  const auto path = (std::filesystem::temp_directory_path() / "shade_trace_test.pt.trace.json").string();
  at::erfinv(at::rand({4}));
  Trace trace;
  at::mm(at::rand({8, 8}), at::rand({8, 8}));
  trace.save(path);
  at::rand({4}).lgamma();
  std::set<std::string> names;
  const auto written = read_json(path);
  for (const auto& event : written.at("traceEvents"))
    if (event.value("cat", "") == "cpu_op") names.insert(event.at("name").get<std::string>());
  EXPECT_TRUE(names.contains("aten::mm"));
  EXPECT_FALSE(names.contains("aten::erfinv")) << "before the trace";
  EXPECT_FALSE(names.contains("aten::lgamma")) << "after the trace";
  EXPECT_ANY_THROW(trace.save(path)) << "a trace is saved once";
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace shade::profile
