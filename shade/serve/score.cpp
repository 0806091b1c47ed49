#include "shade/serve/score.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "shade/base/strings.h"
#include "shade/base/terminal.h"
#include "shade/serve/valid_text.h"

namespace shade::serve {
namespace {

constexpr int64_t kPositions = 4096;  // of a batch, padding with them
constexpr size_t kPrompts = 32;       // continued together

using Tokens = std::vector<data::TokenId>;

struct Question {
  int64_t record = 0;
  Tokens prompt, completion;
};

// The last tokens of row `i` that count in the loss, and what precedes them; none if that is at most `bos`.
std::optional<Question> question_of(int64_t record, const nn::Batch& batch, int64_t i,
                                    std::optional<data::TokenId> bos) {
  const auto ids = batch.ids_BT[i], labels = batch.labels[i];
  const auto counts = [&, label = labels.data_ptr<int64_t>()](int64_t t) { return label[t] != data::kIgnored; };
  auto end = labels.size(0);
  while (end > 0 && !counts(end - 1)) --end;
  auto begin = end;
  while (begin > 0 && counts(begin - 1)) --begin;
  const auto* id = ids.data_ptr<int64_t>();
  if (begin == 0 || (begin == 1 && bos == id[0])) return std::nullopt;
  return Question{record, Tokens(id, id + begin), Tokens(id + begin, id + end)};
}

// act(numbers of records, batch) with batches of at most kPositions positions, the shortest records first.
template <class Act>
void for_batches(const data::TextDataset& records, const Act& act) {
  std::vector<int64_t> order(static_cast<size_t>(records.size()));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return records.length_of(a) < records.length_of(b); });
  for (size_t begin = 0; begin < order.size();) {
    auto end = begin + 1;  // lengths grow, so the last one is the longest
    while (end < order.size() && static_cast<int64_t>(end + 1 - begin) * records.length_of(order[end]) <= kPositions)
      ++end;
    const auto some = std::span(order).subspan(begin, end - begin);
    act(some, records.padded_batch(some, records.length_of(order[end - 1])));
    begin = end;
  }
}

using Questions = std::map<size_t, std::vector<Question>>;  // by the length of the prompt

ExactMatch answer(OpenedModel& model, const Questions& questions, std::vector<Prediction>& predictions) {
  ExactMatch out;
  for (const auto& [length, same] : questions) out.prompts += std::ssize(same);
  const auto& tokens = *model.tokenizer;
  const auto shown = [&](const Tokens& ids) { return std::string(trim(valid_text(decoded(tokens, ids)))); };
  GenerateOptions options{.ends = generation_defaults(model).ends};
  if (std::find(options.ends.begin(), options.ends.end(), tokens.eos()) == options.ends.end())
    options.ends.push_back(tokens.eos());
  const auto without_end = [&](Tokens ids) {
    const auto is_end = [&](data::TokenId id) {
      return std::find(options.ends.begin(), options.ends.end(), id) != options.ends.end();
    };
    ids.erase(std::find_if(ids.begin(), ids.end(), is_end), ids.end());
    return ids;
  };
  Progress progress("generating", out.prompts);
  for (const auto& [length, same] : questions)
    for (size_t begin = 0; begin < same.size(); begin += kPrompts) {
      const auto some = std::span(same).subspan(begin, std::min(kPrompts, same.size() - begin));
      std::vector<Tokens> prompts;
      options.max_new_tokens = 0;
      for (const auto& question : some) {
        prompts.push_back(question.prompt);
        options.max_new_tokens = std::max(options.max_new_tokens, std::ssize(question.completion) + 1);  // and its end
      }
      const auto made = generate(*model.model, prompts, options);
      for (size_t i = 0; i < some.size(); ++i) {
        Prediction::Answer found{shown(without_end(some[i].completion)), shown(made[i].tokens)};
        found.match = made[i].ended && found.generated == found.expected;
        out.matches += found.match ? 1 : 0;
        predictions[static_cast<size_t>(some[i].record)].answer = std::move(found);
        progress.advance();
      }
    }
  return out;
}

void add_predictions(std::span<const int64_t> numbers, const train::Tally::Given& given, const models::Model& model,
                     const nn::Batch& batch, std::vector<Prediction>& out) {
  auto losses_B = given.losses_B.to(at::kDouble);
  if (const auto tokens_B = model.loss_tokens(batch); tokens_B.defined() && model.sums_tokens())
    losses_B = losses_B / tokens_B.clamp_min(1);
  std::optional<std::tuple<at::Tensor, at::Tensor>> best;  // probability, class
  if (given.logits_BC.defined()) best = given.logits_BC.to(at::kDouble).softmax(-1).max(-1);
  for (int64_t i = 0; i < std::ssize(numbers); ++i) {
    auto& prediction = out[static_cast<size_t>(numbers[static_cast<size_t>(i)])];
    prediction.loss = losses_B[i].item<double>();
    if (best)
      prediction.of_classes = {batch.labels[i].item<int64_t>(), std::get<1>(*best)[i].item<int64_t>(),
                               std::get<0>(*best)[i].item<double>()};
  }
}

}  // namespace

Scores score(OpenedModel& model, const data::TextDataset& records, bool exact_match) {
  train::Tally tally(at::kCPU);
  Scores out{.predictions = std::vector<Prediction>(static_cast<size_t>(records.size()))};
  for (size_t i = 0; i < out.predictions.size(); ++i) out.predictions[i].record = static_cast<int64_t>(i);
  Questions questions;
  const bool asks =
      exact_match && records.options().task == data::Task::lm && records.options().packing == data::Packing::records;
  {
    Progress progress("evaluating", records.size());
    int64_t done = 0;
    for_batches(records, [&](std::span<const int64_t> numbers, const nn::Batch& batch) {
      add_predictions(numbers, tally.add(*model.model, batch), *model.model, batch, out.predictions);
      progress.advance_to(done += batch.samples());
      for (int64_t i = 0; asks && i < batch.samples(); ++i)
        if (auto found = question_of(numbers[static_cast<size_t>(i)], batch, i, model.tokenizer->bos()))
          questions[found->prompt.size()].push_back(std::move(*found));
    });
  }
  out.evaluation = train::Tally::evaluation(tally.sums());
  if (!questions.empty()) out.exact_match = answer(model, questions, out.predictions);
  return out;
}

}  // namespace shade::serve
