// Gigabytes of JSONL and Parquet, read and drawn from in steady memory. SHADE_STREAM_MB says how many megabytes (2000).
#include <atomic>
#include <cstdio>
#include <random>
#include <thread>

#include "../support/process.h"
#include "folder.h"
#include "shade/base/units.h"
#include "shade/data/arrow/arrow_library.h"
#include "shade/data/sample_corpus.h"

namespace shade::data {
namespace {

double resident_mb() {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("VmRSS:")) return static_cast<double>(std::stoll(line.substr(6))) / 1024;
  return 0;
}

// Resident memory every 20 ms.
class Watch {
 public:
  Watch()
      : thread_([this] {
          while (!over_) {
            seen_.push_back(resident_mb());
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
          }
        }) {}

  // As a share of the mean, the first tenth left out: the growth over the whole time by a least-squares line, or from
  // there to the peak if that is more, so that what is given back at the end hides nothing.
  double growth(const char* what) {
    over_ = true;
    thread_.join();
    const auto skip = seen_.size() / 10;
    const auto n = static_cast<double>(seen_.size() - skip);
    double mean = 0, slope = 0, spread = 0, peak = 0;
    for (size_t i = skip; i < seen_.size(); ++i) mean += seen_[i] / n;
    for (size_t i = skip; i < seen_.size(); ++i) {
      const double x = static_cast<double>(i - skip) - (n - 1) / 2;
      slope += x * (seen_[i] - mean);
      spread += x * x;
      peak = std::max(peak, seen_[i]);
    }
    const double line = slope / spread * n / mean, rise = (peak - seen_[skip]) / mean;
    std::printf("%s: mean %.1f MB, peak %.1f MB, growth by a line %.3f %%, to the peak %.3f %%, %zu samples\n", what,
                mean, peak, 100 * line, 100 * rise, seen_.size());
    return std::max(line, rise);
  }

 private:
  std::vector<double> seen_;
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

int64_t megabytes() {
  const char* words = std::getenv("SHADE_STREAM_MB");
  return words == nullptr ? 2000 : std::stoll(words);
}

TEST(Stream, GigabytesInSteadyMemory) {
  const int64_t bytes = megabytes() * 1'000'000;
  const Folder folder;
  int64_t written = 0;
  uint64_t n = 0;
  for (int file = 0; written < bytes; ++file) {
    std::ofstream out(folder.path() / text("part_", file, ".jsonl"));
    for (int64_t size = 0; size < 100'000'000 && written < bytes;) {
      const auto line = text("{\"text\":\"", sample_text(1, n).text, "\",\"label\":", n % 6, "}\n");
      out << line;
      size += static_cast<int64_t>(line.size());
      written += static_cast<int64_t>(line.size());
      ++n;
    }
  }
  auto begin = Clock::now();
  const auto config = folder.config();
  Watch reading;
  const auto data = open_dataset(config, 256, Task::lm);
  const Seconds took = Clock::now() - begin;
  const auto read_growth = reading.growth("reading");
  std::printf("%s of JSONL, %ld records: %s\n", to_string(Bytes{written}).c_str(), static_cast<long>(data->size()),
              to_string_bandwidth({written}, took).c_str());
  EXPECT_EQ(data->size(), static_cast<int64_t>(n));
  EXPECT_LT(read_growth, 0.01);

  std::mt19937_64 dice(1);
  std::vector<int64_t> records(32);
  Watch drawing;
  begin = Clock::now();
  int64_t tokens = 0;
  while (Clock::now() - begin < std::chrono::seconds(10)) {
    for (auto& record : records) record = static_cast<int64_t>(dice() % n);
    tokens += data->batch(records).mask_BT.numel();
  }
  const Seconds drew = Clock::now() - begin;
  EXPECT_LT(drawing.growth("drawing"), 0.01);
  std::printf("batches of 32 x 256 at random: %.1f million tokens a second\n",
              static_cast<double>(tokens) / drew.count() / 1e6);
}

TEST(Stream, GigabytesOfParquetInSteadyMemory) {
  if (!arrow_library().loaded()) GTEST_SKIP() << arrow_library().why_not();
  const Folder folder;
  const auto file = folder.path() / "big.parquet";
  const auto made = test::run(
      {"python3", test::source_root() + "/tests/data/make_tables.py", "big", file.string(),
       std::to_string(megabytes())},
      {.environment = {{"PYTHONPATH", test::source_root() + "/.deps/arrow"}, {"PYTHONDONTWRITEBYTECODE", "1"}},
       .limit = Seconds(600)});
  ASSERT_EQ(made.status, 0) << made.output;
  const auto begin = Clock::now();
  Watch reading;
  const auto data = open_dataset(folder.config(), 256, Task::lm);
  const Seconds took = Clock::now() - begin;
  const auto growth = reading.growth("reading Parquet");
  const Bytes size{static_cast<int64_t>(std::filesystem::file_size(file))};
  std::printf("%s of Parquet, %ld records: %s\n", to_string(size).c_str(), static_cast<long>(data->size()),
              to_string_bandwidth(size, took).c_str());
  EXPECT_EQ(data->size() % 20'000, 0);
  EXPECT_LT(growth, 0.01);
}

}  // namespace
}  // namespace shade::data
