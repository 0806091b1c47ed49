// A small private run on texts of users, for tests of its statement and its release.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "shade/base/json.h"
#include "tests/io/scratch.h"
#include "tests/train/training.h"

namespace shade::train {

struct VisitsTest : testing::Test {
  VisitsTest() {
    std::string lines;
    for (int i = 0; i < 40; ++i)
      lines += Json{{"text", text("sea ", i)}, {"from", text("user ", i % 20)}}.dump() + "\n";
    std::filesystem::create_directories(place("visits"));
    scratch.write("visits/a.jsonl", lines);
  }
  std::string place(const std::string& name) const { return (scratch.path() / name).string(); }
  Words words(const Words& more = {}) const {
    Words out{{"model.model", "llama-nano"},
              {"model.vocab_size", "260"},
              {"model.task", "lm"},
              {"data.tokenizer", "bytes"},
              {"data.data_folder", place("visits")},
              {"data.cache_folder", place("cache")},
              {"train.steps", "2"},
              {"train.batch_size", "8"},
              {"train.micro_batch", "8"},
              {"train.seq_length", "12"},
              {"dp.dp", "auto"},
              {"dp.sigma", "1.5"}};
    return with(out, more);
  }
  void train(const std::string& run, const Words& more = {}) const { train_in(place(run), 1, words(more)); }

  io::Scratch scratch;
};

}  // namespace shade::train
