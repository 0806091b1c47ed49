// Texts continued token by token. Keys and values are kept, so each token costs one position.
//
//   cost of n tokens after a prompt of p: one forward pass over p positions, then n over one each;
//   memory beside the weights: (p + n) x layers x key heads x head size x 2 numbers per text
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "shade/data/tokenizer/tokenizer.h"
#include "shade/models/model.h"
#include "shade/serve/opened_model.h"
#include "shade/serve/sampling.h"

namespace shade::serve {

struct GenerateOptions {
  int64_t max_new_tokens = 64;
  std::vector<data::TokenId> ends;  // a text ends with any of these
  SamplingOptions sampling;
};

// How a model's generation_config.json says it is to be generated with, as transformers reads it: the tokens that end a
// text and, if do_sample is set, temperature, top_k and top_p; otherwise greedy.
GenerateOptions generation_defaults(const OpenedModel& model);

struct Generated {
  std::vector<data::TokenId> tokens;  // without the one that ended it
  bool ended = false;                 // by a token of GenerateOptions::ends
};

// What generated tokens stand for. A model may have more tokens than its tokenizer, to a round number; such a token
// stands for nothing, as in transformers.
std::string words_of(const data::Tokenizer& tokenizer, const std::vector<data::TokenId>& tokens);

// Called with each token of a text as it is made, not with one that ends it.
using OnToken = std::function<void(size_t text, data::TokenId token)>;

// Continues all prompts, which must have the same number of tokens, together; nothing is padded. Tokens are drawn by
// `sampler`, which several calls may share. Throws UsageError: an empty prompt, or more positions than the model has.
std::vector<Generated> generate(models::Model& model, const std::vector<std::vector<data::TokenId>>& prompts,
                                const GenerateOptions& options, Sampler& sampler, const OnToken& on_token = {});

// The same with draws from the beginning of options.sampling.
std::vector<Generated> generate(models::Model& model, const std::vector<std::vector<data::TokenId>>& prompts,
                                const GenerateOptions& options, const OnToken& on_token = {});

}  // namespace shade::serve
