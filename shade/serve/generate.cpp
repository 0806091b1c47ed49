#include "shade/serve/generate.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "shade/base/error.h"
#include "shade/models/config_file.h"

namespace shade::serve {
namespace {

constexpr int64_t kTopK = 50;  // what transformers samples from where top_k isn't said

void require_room(const models::Model& model, int64_t prompt, int64_t tokens) {
  const auto traits = model.text_traits();
  SHADE_REQUIRE(traits && !traits->classifier, model.describe(), " generates no text; expected a language model");
  SHADE_REQUIRE(prompt > 0, "the prompt has no token; expected at least one");
  const auto most = traits->window > 0 ? std::min(traits->window, traits->max_positions) : traits->max_positions;
  SHADE_REQUIRE(prompt < most, "the prompt has ", prompt, " tokens, and the model ", most,
                " positions for prompt and continuation together; shorten the prompt to at most ", most - 1, " tokens");
  SHADE_REQUIRE(prompt + tokens <= most, "a prompt of ", prompt, " tokens and ", tokens, " more make ", prompt + tokens,
                ", and the model has ", most, " positions; shorten the prompt or set --max-new-tokens ", most - prompt,
                " or less");
}

at::Tensor ids_of(const std::vector<std::vector<data::TokenId>>& prompts) {
  const auto rows = std::ssize(prompts), length = std::ssize(prompts.front());
  auto ids_BT = at::empty({rows, length}, at::kLong);
  for (int64_t row = 0; row < rows; ++row) {
    const auto& prompt = prompts[static_cast<size_t>(row)];
    SHADE_REQUIRE(std::ssize(prompt) == length, "prompts of ", length, " and ", prompt.size(),
                  " tokens; those that are continued together must have the same number");
    std::copy(prompt.begin(), prompt.end(), ids_BT[row].data_ptr<int64_t>());
  }
  return ids_BT;
}

// One id, or a list of them.
std::vector<data::TokenId> ends_in(const Json& generation) {
  const auto found = generation.find("eos_token_id");
  if (found == generation.end() || found->is_null()) return {};
  std::vector<data::TokenId> out;
  for (const auto& id : found->is_array() ? *found : Json::array({*found})) {
    SHADE_REQUIRE(id.is_number_integer(), "eos_token_id is ", found->dump(),
                  " in generation_config.json; expected a token's number, or a list of them");
    out.push_back(id.get<data::TokenId>());
  }
  return out;
}

}  // namespace

GenerateOptions generation_defaults(const OpenedModel& model) {
  const models::ConfigFile file(model.generation, "generation_config.json");
  GenerateOptions out;
  out.ends = ends_in(model.generation);
  if (out.ends.empty()) out.ends = {model.tokenizer->eos()};
  if (!file.get("do_sample", false)) return out;
  out.sampling = {
      .temperature = file.get("temperature", 1.0), .top_k = file.get("top_k", kTopK), .top_p = file.get("top_p", 1.0)};
  return out;
}

std::string decoded(const data::Tokenizer& tokenizer, const std::vector<data::TokenId>& tokens) {
  auto known = tokens;
  std::erase_if(known, [&](data::TokenId token) { return token >= tokenizer.vocab(); });
  return tokenizer.decode(known);
}

std::vector<Generated> generate(models::Model& model, const std::vector<std::vector<data::TokenId>>& prompts,
                                const GenerateOptions& options, const OnToken& on_token) {
  Sampler sampler(options.sampling);
  return generate(model, prompts, options, sampler, on_token);
}

std::vector<Generated> generate(models::Model& model, const std::vector<std::vector<data::TokenId>>& prompts,
                                const GenerateOptions& options, Sampler& sampler, const OnToken& on_token) {
  std::vector<Generated> out(prompts.size());
  if (prompts.empty()) return out;
  require_room(model, std::ssize(prompts.front()), options.max_new_tokens);
  auto ids_BT = ids_of(prompts);
  nn::KvCache past(ids_BT.size(1) + options.max_new_tokens);
  const auto is_end = [&](data::TokenId token) {
    return std::find(options.ends.begin(), options.ends.end(), token) != options.ends.end();
  };
  for (int64_t made = 0; made < options.max_new_tokens; ++made) {
    const auto next_B = sampler(model.next_logits(ids_BT, past));
    bool goes_on = false;
    for (size_t row = 0; row < out.size(); ++row) {
      if (out[row].ended) continue;
      const auto token = static_cast<data::TokenId>(next_B[static_cast<int64_t>(row)].item<int64_t>());
      out[row].ended = is_end(token);
      if (out[row].ended) continue;
      goes_on = true;
      out[row].tokens.push_back(token);
      if (on_token) on_token(row, token);
    }
    if (!goes_on) break;
    ids_BT = next_B.unsqueeze(1);
  }
  return out;
}

at::Tensor Sampler::operator()(const at::Tensor& logits_BV) {
  const auto wide_BV = logits_BV.to(at::kDouble);
  if (options_.temperature == 0) return wide_BV.argmax(-1);
  auto [sorted, ids] = wide_BV.div(options_.temperature).sort(/*stable=*/true, -1, /*descending=*/true);
  if (options_.top_k > 0) {
    const auto kept = std::min(options_.top_k, sorted.size(1));
    sorted = sorted.narrow(1, 0, kept);
    ids = ids.narrow(1, 0, kept);
  }
  auto chances = at::softmax(sorted, -1);
  // A token is drawn if those before it have less than top_p together; the first always is.
  const auto before = chances.cumsum(-1) - chances;
  chances = chances.masked_fill((before >= options_.top_p).logical_and(before > 0), 0);
  const auto steps = chances.cumsum(-1);
  auto drawn = at::empty({steps.size(0), 1}, steps.options());
  for (int64_t row = 0; row < drawn.size(0); ++row)
    drawn[row][0] = std::uniform_real_distribution<double>()(random_) * steps[row][-1].item<double>();
  const auto places = at::searchsorted(steps, drawn, /*out_int32=*/false, /*right=*/true);
  return ids.gather(1, places.clamp_max(steps.size(1) - 1)).squeeze(1);
}

}  // namespace shade::serve
