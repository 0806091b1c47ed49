// Fields of a language model's config.json that are not implemented here.
#pragma once

#include <string>
#include <vector>

#include "shade/models/config_file.h"

namespace shade::models {

// Throws UsageError for what changes the function that the weights compute, whatever the sequence.
void refuse_unsupported(const ConfigFile& file);

// sliding_window, or 4096 if it is not there; 0 if it is null.
int64_t stated_window(const ConfigFile& file);

// The shortest sliding window of `layers` layers: longer sequences are not supported. 0: there is none.
int64_t sliding_window(const ConfigFile& file, int64_t layers);

// What transformers would do in training alone, and is not done here: "attention_dropout 0.1".
std::vector<std::string> not_trained_with(const ConfigFile& file);

}  // namespace shade::models
