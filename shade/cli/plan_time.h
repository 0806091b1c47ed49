// The part of shade plan about time: which device, and what a recorded step takes there.
#pragma once

#include <CLI/App.hpp>

#include <optional>
#include <string>
#include <vector>

#include "shade/plan/cost.h"

namespace shade::cli {

class PlanTime {
 public:
  void add_to(CLI::App& app);  // must outlive its parse
  void read();                 // the profile that was named; throws UsageError

  const std::optional<plan::DeviceProfile>& device() const { return device_; }
  const plan::TimeOptions& options() const { return options_; }
  // For plan::DryRunOptions: none where no accelerator was named.
  std::optional<Bytes> accelerator() const;

  struct Row {
    std::string name;
    double tokens_per_second = 0;  // of all ranks
    double mfu = 0;                // 0: not known
    bool fits = true;              // what is reserved at most within the device's memory
    plan::TimePrediction time;

    Json json() const;
  };
  Row predict(const std::string& name, const plan::StepRecord& record) const;  // of a device that was named
  std::string table(const std::vector<Row>& rows) const;

 private:
  std::string profile_;
  plan::TimeOptions options_;
  std::optional<plan::DeviceProfile> device_;
};

}  // namespace shade::cli
