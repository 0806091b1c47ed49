// A data set of one's own, from a CSV file, and a classifier that reads fields of its own from the batch.
//
//   own_data flowers.csv
//
// The job draws, deals and reads ahead; a data set only turns record numbers into a batch.
#include <ATen/ATen.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "shade/base/error.h"
#include "shade/comm/job/environment.h"
#include "shade/io/content_hash.h"
#include "shade/io/digest.h"
#include "shade/nn/linear.h"
#include "shade/nn/losses.h"
#include "shade/nn/unit.h"
#include "shade/privacy/accounting/calibrate.h"
#include "shade/train/step/job.h"

using namespace shade;

constexpr int64_t kNumbers = 4;
const std::vector<std::string> kKinds{"bellflower", "cornflower", "marigold"};  // public: not read off the records

// Lines "n,n,n,n,kind": each is a record, and so what privacy protects. A few public facts scale the numbers; a mean of
// the file would be a statistic of private records.
class Flowers : public data::Dataset {
 public:
  explicit Flowers(const std::string& path) {
    std::ifstream file(path);
    SHADE_REQUIRE(file, "can't read ", path);
    for (std::string line; std::getline(file, line); lines_.push_back(line)) {
      std::istringstream words(line);
      std::string word;
      for (int64_t i = 0; i < kNumbers && std::getline(words, word, ','); ++i) numbers_.push_back(std::stof(word));
      std::getline(words, word);
      const auto kind = std::find(kKinds.begin(), kKinds.end(), word);
      SHADE_REQUIRE(kind != kKinds.end(), path, ':', lines_.size() + 1, ": '", word, "' is no kind of flower");
      kinds_.push_back(kind - kKinds.begin());
    }
    SHADE_REQUIRE(std::ssize(numbers_) == size() * kNumbers, path, ": expected 4 numbers and a kind on every line");
  }
  int64_t size() const override { return std::ssize(lines_); }

  nn::Batch batch(std::span<const int64_t> records) const override {
    auto numbers = at::empty({std::ssize(records), kNumbers}), kinds = at::empty({std::ssize(records)}, at::kLong);
    for (size_t i = 0; i < records.size(); ++i) {
      const auto row = static_cast<size_t>(records[i]);
      std::copy_n(numbers_.data() + row * kNumbers, kNumbers, numbers.data_ptr<float>() + i * kNumbers);
      kinds.data_ptr<int64_t>()[i] = kinds_[row];
    }
    nn::Batch batch;
    batch.fields = {{"numbers", (numbers - 4) / 2}, {"kinds", kinds}};
    return batch;
  }
  std::string describe() const override { return text(size(), " flowers"); }

  // All that batches are made of. A step that is made again on other records would spend privacy twice.
  std::string fingerprint() const override {
    io::Hasher hasher;
    for (const auto& line : lines_) hasher.add(line).add("\n");
    return io::to_hex(hasher.digest());
  }
  uint64_t content_of(int64_t record) const override {
    return io::content_hash(std::as_bytes(std::span(lines_[static_cast<size_t>(record)])))[0];
  }

 private:
  std::vector<std::string> lines_;
  std::vector<float> numbers_;
  std::vector<int64_t> kinds_;
};

class Classifier : public models::Model {
 public:
  at::Tensor losses(const nn::Batch& batch) override {
    const auto logits = [this](const nn::Tensors& in) { return linear_(in[0]); };
    return nn::class_losses(nn::run_unit(parameters_.wiring, unit_, logits, {batch.field("numbers")}),
                            batch.field("kinds"));
  }

 private:
  nn::UnitId unit_ = parameters_.begin_unit("classifier");
  nn::Linear linear_{parameters_, "linear", {.in = kNumbers, .out = std::ssize(kKinds), .bias = true}};
};

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: own_data FILE.csv\n"), 2;
  auto world = comm::World::connect(comm::place_from_environment(), {});
  const Flowers flowers(argv[1]);
  Classifier model;
  privacy::PrivacyEvent event{.mechanism = {.sample_rate = 0.1}, .divisor = 60, .steps = 60, .delta = 1e-4};
  event.mechanism.noise_multiplier =
      privacy::calibrate(privacy::Accountant::prv, event.accounted(), /*target_epsilon=*/4, event.delta).sigma;

  train::JobOptions options{.model = &model, .data = &flowers, .step = {.privacy = event}, .batch_size = 60, .seed = 1};
  options.shard.shard = shard::Strategy::zero3;  // each rank holds a part of the weights; one rank holds them all
  options.optimizer.lr = 0.1;
  train::Job job(world, options);
  while (const auto record = job.step())
    if (world.rank() == 0 && job.steps() % 5 == 1)
      std::printf("step %2d  loss %.4f  of %d flowers\n", static_cast<int>(job.steps()), record->loss,
                  static_cast<int>(record->samples.samples));
  if (world.rank() == 0) std::printf("epsilon %.3f\n", job.spent()->epsilon);
  world.leave();
}
