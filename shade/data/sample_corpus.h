// A synthetic corpus that a small model can learn from: for examples, tests and measurements without a download.
//
// Short reports about six topics from a probabilistic grammar. There is something to learn at every distance: spelling,
// number agreement within a sentence, pronouns that refer to the sentence before, and the words of a topic over a whole
// text. The same bytes for the same (size, seed) on every machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "shade/base/units.h"

namespace shade::data {

struct SampleText {
  std::string text;
  std::string topic;
};

// The n-th text for this seed: a function, not a stream.
SampleText sample_text(uint64_t seed, uint64_t n);
std::vector<std::string> sample_topics();

// About `size` bytes of text: 3/16 in labelled/*.json, 1/16 (at most 64 KiB) in plain/*.txt, the rest in
// labelled/*.jsonl; the label is the topic. The folder is made and must be empty.
void write_sample_corpus(const std::filesystem::path& folder, Bytes size, uint64_t seed);

}  // namespace shade::data
