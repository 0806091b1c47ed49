// Texts continued token by token. Keys and values are kept, so each token costs one position.
//
//   cost of n tokens after a prompt of p: one forward pass over p positions, then n over one each;
//   memory beside the weights: (p + n) x layers x key heads x head size x 2 numbers per text
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <vector>

#include "shade/data/tokenizer/tokenizer.h"
#include "shade/models/model.h"
#include "shade/serve/opened_model.h"

namespace shade::serve {

// The choice of a next token.

// In this order, as transformers has it: logits over temperature, the top_k largest of them, of these the fewest whose
// probabilities sum up to top_p.
struct SamplingOptions {
  double temperature = 0;  // 0: always the most probable token (greedy)
  int64_t top_k = 0;       // 0: all
  double top_p = 1;
  uint64_t seed = 0;  // the same seed draws the same tokens
};

class Sampler {
 public:
  explicit Sampler(const SamplingOptions& options) : options_(options), random_(options.seed) {}

  at::Tensor operator()(const at::Tensor& logits_BV);  // [B] int64; of equal logits the first

 private:
  SamplingOptions options_;
  std::mt19937_64 random_;
};

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
std::string decoded(const data::Tokenizer& tokenizer, const std::vector<data::TokenId>& tokens);

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
