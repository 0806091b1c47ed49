// Figures through a result file: all that is written is read, and what is wrong is named.
#include "shade/catalog/figures.h"

#include <gtest/gtest.h>

#include <set>

#include "shade/base/error.h"

namespace shade::catalog {
namespace {

// Every figure another number.
Figures numbered() {
  Figures out;
  double next = 1;
  for (const auto& row : kFigures) std::visit([&](auto member) { out.*member = next++; }, row.member);
  return out;
}

TEST(Figures, AreReadAsTheyWereWritten) {
  const auto figures = numbered();
  Json json;
  write_figures(json, figures);
  Figures again;
  read_figures(again, json);
  std::set<std::string_view> keys;
  std::set<double> values;
  for (const auto& row : kFigures) {
    EXPECT_TRUE(keys.insert(row.key).second) << row.key;
    EXPECT_TRUE(values.insert(*row.of(figures)).second) << row.key << " has the member of another row";
    if (row.in_files) EXPECT_EQ(row.of(again), row.of(figures)) << row.key;
  }
  EXPECT_TRUE(json["communication"]["bytes"].is_number_integer());
  EXPECT_FALSE(json.contains("min_time_ms")) << "it follows from times_ms";
  write_figures(json, figures, true);
  EXPECT_TRUE(json.contains("min_time_ms"));
}

TEST(Figures, KeysOfResultFilesStay) {
  Json json;
  write_figures(json, numbered());
  for (const auto* key :
       {"peak_memory_mb", "average_memory_mb", "avg_time_ms", "tokens_per_second", "utilisation", "cpu_overhead_ms",
        "peak_resident_mb", "gflops_per_second", "stated_gflops_per_second", "mfu", "gemm_gflops_per_second",
        "gemm_share", "time_per_epoch_s", "parameters", "trainable_parameters"})
    EXPECT_TRUE(json.contains(key)) << key;
  for (const auto* key : {"bytes", "time_ms", "exposed_ms", "overlapped_ms"})
    EXPECT_TRUE(json["communication"].contains(key)) << key;
}

TEST(Figures, WhatIsUnknownIsNotWritten) {
  Json json;
  write_figures(json, {});
  EXPECT_FALSE(json.contains("mfu"));
  EXPECT_FALSE(json.contains("communication"));
  Figures again;
  read_figures(again, {{"peak_memory_mb", 1}, {"avg_time_ms", 2}, {"mfu", nullptr}, {"communication", "none"}});
  EXPECT_FALSE(again.mfu);
  EXPECT_FALSE(again.sent_bytes);
}

TEST(Figures, FaultsAreNamed) {
  Figures figures;
  const auto fault = [&](const Json& json) -> std::string {
    try {
      read_figures(figures, json);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(fault({{"peak_memory_mb", 1}}), "'avg_time_ms' is missing; expected a number");
  EXPECT_EQ(fault({{"peak_memory_mb", "much"}}), "'peak_memory_mb' is \"much\"; expected a number");
  EXPECT_EQ(fault({{"peak_memory_mb", 1}, {"avg_time_ms", 2}, {"communication", {{"bytes", true}}}}),
            "'bytes' is true; expected a number");
  Json huge;
  write_figures(huge, {.sent_bytes = 1e300});
  EXPECT_EQ(huge["communication"]["bytes"], 1e300) << "no integer has room for it";
}

}  // namespace
}  // namespace shade::catalog
