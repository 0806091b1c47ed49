// A data set of one's own, from a CSV file, whose records belong to users; a classifier that reads fields of its own
// from the batch; and a run that protects whole users and continues where it was killed.
//
//   own_data flowers.csv
//
// The run draws, deals and reads ahead; a data set only turns record numbers into a batch.
#include <shade/hash/content_hash.h>
#include <shade/hash/digest.h>
#include <shade/shade.h>

#include <fstream>
#include <sstream>

using namespace shade;

constexpr int64_t kNumbers = 4;
const std::vector<std::string> kKinds{"bellflower", "cornflower", "marigold"};  // public: not read off the records

// Lines "n,n,n,n,kind,garden": each is a record, and a garden with all its flowers is what privacy protects. A few
// public facts scale the numbers; a mean of the file would be a statistic of private records.
class Flowers : public Dataset {
 public:
  explicit Flowers(const std::string& path) {
    std::ifstream file(path);
    SHADE_REQUIRE(file, "can't read ", path);
    for (std::string line; std::getline(file, line); lines_.push_back(line)) {
      std::istringstream words(line);
      std::string word;
      for (int64_t i = 0; i < kNumbers && std::getline(words, word, ','); ++i) numbers_.push_back(std::stof(word));
      std::getline(words, word, ',');
      const auto kind = std::find(kKinds.begin(), kKinds.end(), word);
      SHADE_REQUIRE(kind != kKinds.end(), path, ':', lines_.size() + 1, ": '", word, "' is no kind of flower");
      kinds_.push_back(kind - kKinds.begin());
      std::getline(words, word);
      gardens_.push_back(data::user_id(word));
    }
    SHADE_REQUIRE(std::ssize(numbers_) == size() * kNumbers, path,
                  ": expected 4 numbers, a kind and a garden on every line");
  }
  int64_t size() const override { return std::ssize(lines_); }

  Batch batch(std::span<const int64_t> records) const override {
    auto numbers = at::empty({std::ssize(records), kNumbers}), kinds = at::empty({std::ssize(records)}, at::kLong);
    for (size_t i = 0; i < records.size(); ++i) {
      const auto row = static_cast<size_t>(records[i]);
      std::copy_n(numbers_.data() + row * kNumbers, kNumbers, numbers.data_ptr<float>() + i * kNumbers);
      kinds.data_ptr<int64_t>()[i] = kinds_[row];
    }
    Batch batch;
    batch.fields = {{"numbers", (numbers - 4) / 2}, {"kinds", kinds}};
    return batch;
  }
  std::string describe() const override { return text(size(), " flowers"); }

  // All that batches are made of. A step that is made again on other records would spend privacy twice.
  std::string fingerprint() const override {
    hash::Hasher hasher;
    for (const auto& line : lines_) hasher.add(line).add("\n");
    return hash::to_hex(hasher.digest());
  }
  // Which lines are held out from training follows from it.
  uint64_t content_of(int64_t record) const override {
    return hash::content_hash(std::as_bytes(std::span(lines_[static_cast<size_t>(record)])))[0];
  }
  std::optional<data::UserId> user_of(int64_t record) const override { return gardens_[static_cast<size_t>(record)]; }

 private:
  std::vector<std::string> lines_;
  std::vector<data::UserId> gardens_;
  std::vector<float> numbers_;
  std::vector<int64_t> kinds_;
};

struct Classifier : Module {
  nn::Linear linear = add<nn::Linear>("linear", {.in = kNumbers, .out = std::ssize(kKinds), .bias = true});

  at::Tensor loss(const Batch& batch) override {
    return nn::class_losses(linear(batch.field("numbers")), batch.field("kinds"));
  }
};

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: own_data FILE.csv RUN\n"), 2;
  return shade::main(argc, argv, [&](World& world) {
    const Flowers flowers(argv[1]);
    Classifier model;
    Run run(world, model, flowers,
            {.budget = {{.epsilon = 8, .delta = 1e-4}},
             .unit = PrivacyUnit::user,
             .max_records_per_user = 3,  // in one step
             .batch_size = 40,           // gardens
             .steps = 60,
             .optimizer = {.lr = 0.2},
             .folder = argv[2],  // started again with it, the run continues from its last checkpoint
             .save_every = 10});
    world.print("step ", run.steps(), " of 60 was made before");
    for (const auto& step : run)
      if (run.steps() % 5 == 1)
        world.print("step ", run.steps(), "  loss ", step.loss, "  of ", step.samples.samples, " gardens");
    world.print(run.privacy());
  });
}
