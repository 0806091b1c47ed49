#include "shade/train/feed/records.h"

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/checkpoint/agreement.h"
#include "shade/data/classes.h"
#include "shade/data/sample_corpus.h"
#include "shade/data/text_dataset.h"
#include "shade/data/witness.h"
#include "shade/models/weights.h"
#include "shade/train/budget/budget.h"
#include "shade/train/feed/made_up_data.h"
#include "shade/train/run/run_folder.h"

namespace shade::train {

data::HeadClasses head_of(const models::TextTraits& model) {
  return {.number = model.classes_stated ? model.classes : 0, .names = model.class_names};
}

std::unique_ptr<data::TextDataset> open_texts(const data::DataConfig& config, int64_t seq_length,
                                              const models::TextTraits& model, const data::Proof& proof,
                                              const std::optional<data::HeadClasses>& head) {
  auto texts = data::open_dataset(config, seq_length, model.classifier ? data::Task::classify : data::Task::lm, proof,
                                  head.value_or(head_of(model)));
  const int64_t words = texts->tokenizer().vocab();
  SHADE_REQUIRE(words <= model.vocabulary, "the tokenizer (", texts->tokenizer().describe(), ") has ", words,
                " tokens, the model ", model.vocabulary, "; set --vocab-size ", words, " or more");
  return texts;
}

namespace {

// 256 bytes, special tokens and what a size is rounded up to: no learned vocabulary is as small.
constexpr int64_t kByteVocabulary = 512;

void check_text_model(const Recipe& recipe, const models::TextTraits& model) {
  SHADE_REQUIRE(recipe.work.seq_length <= model.max_positions, "--seq-length ", recipe.work.seq_length,
                " is longer than the ", model.max_positions, " positions of the model (max_position_embeddings)");
  model.require_full_attention(recipe.work.seq_length);
  SHADE_REQUIRE(!recipe.data.tokenizer.empty() || recipe.data.data_folder.empty() || recipe.model.weights.empty() ||
                    model.vocabulary < kByteVocabulary,
                "no tokenizer is set, and neither the model nor its weights have a tokenizer.json: a pretrained model "
                "with a vocabulary of ",
                model.vocabulary, " would read bytes; set --tokenizer FILE, or --tokenizer bytes if that is meant");
}

// Numbered by the labels that occur, the classes would depend on every single record, and be published.
void check_classes(const Recipe& recipe) {
  SHADE_REQUIRE(!recipe.dp.is_private() || !recipe.data.classes.empty(),
                "a private run on labelled records must be given its classes, because the labels that occur are not "
                "public; set classes = [\"...\", \"...\"] in [data], --classes NAME,NAME or --classes @FILE with one "
                "per line (for texts, shade data --data-folder ",
                recipe.data.data_folder, " shows the labels)");
}

data::HeadClasses new_head(const models::TextTraits& model) {
  return {.number = model.classes_stated ? model.classes : 0, .is_new = true};
}

// A head that is read from the weights has the classes of their config.json, whatever the model's says. Weights of a
// language model have no head for classes, and no weights have none either.
data::HeadClasses head_of_weights(const Recipe& recipe, const models::TextTraits& model) {
  const auto& weights = recipe.model.weights;
  if (const auto folder = weights.empty() ? std::nullopt : models::config_folder(weights))
    if (const auto theirs = models::make_model(folder->string(), {}, {})->text_traits())
      return theirs->classifier ? head_of(*theirs) : new_head(model);
  return weights.empty() ? new_head(model) : head_of(model);
}

// Windows of a private run have no token in common, and each is trained on or held out by its own content alone:
// another rule would let one window move the others of its document.
data::PackOptions packing_of(const Recipe& recipe, const data::TextDataset& texts) {
  if (recipe.dp.is_private()) return {.held_out = {}, .share_tokens = false};
  if (const auto rate = recipe.train.eval_rate; rate > 0) {
    const auto each = texts.unpacked();
    const auto split = recipe.data.fields.user.empty() ? HeldOut::by_content(each, rate) : HeldOut::by_user(each, rate);
    return {.held_out = split.evaluation_records(), .share_tokens = true};
  }
  const auto records = texts.store().records(), wanted = recipe.train.eval_records;
  SHADE_REQUIRE(wanted * 2 <= records, "eval_records is ", wanted, " of ", records,
                " records, which packed texts are held out by; expected at most half of them. Choose smaller records "
                "(--text-unit paragraph or line), or evaluate on a --test-folder");
  return {.held_out = HeldOut::by_position(records, wanted).evaluation_records(), .share_tokens = true};
}

}  // namespace

std::vector<std::string> classes_of(const Recipe& recipe, const models::TextTraits& model) {
  if (!model.classifier || recipe.data.data_folder.empty()) return {};
  if (!recipe.data.classes.empty()) return data::read_classes(recipe.data.classes);
  // Runs up to 0.2 did not write down their classes: those were the labels, sorted.
  return open_texts(recipe.data, recipe.work.seq_length, model, {}, data::HeadClasses{})->classes();
}

void require_same_numbers(const Json& recipe, const data::Dataset& dataset) {
  const auto* texts = dynamic_cast<const data::TextDataset*>(&dataset);
  if (texts == nullptr || texts->options().task != data::Task::classify || !recipe.is_object()) return;
  const auto stated = data::read_classes(recipe.at("data").at("classes").get<std::vector<std::string>>());
  const auto& labels = texts->store().classes();
  const auto classes = stated.empty() ? labels : stated;  // of runs up to 0.2: the labels, sorted
  if (classes == texts->classes()) return;
  const auto same = std::ranges::equal(data::number_labels(labels, classes), texts->class_numbers());
  SHADE_REQUIRE(same, "the checkpoint's run numbered its classes ", join(classes, ", "), ", and now they are ",
                join(texts->classes(), ", "),
                ": its head would be trained for other classes than before; start a new run (--output)");
}

void require_data(const Recipe& recipe) {
  SHADE_REQUIRE(recipe.work.synthetic || !recipe.data.data_folder.empty(),
                "no data to train on; set --data-folder FOLDER, or ask for synthetic data with --synthetic");
}

std::string fit_vocabulary(models::SizeOverrides& sizes, const std::string& model, const data::DataConfig& data,
                           const models::ModelOptions& options) {
  constexpr int64_t kTokens = 260;  // 256 bytes, three special tokens, and an even number
  const bool bytes = data.tokenizer.empty() || data.tokenizer == "bytes";
  if (data.data_folder.empty() || !bytes || sizes.vocab_size > 0 || models::model_folder(model)) return {};
  const auto traits = models::make_model(model, sizes, options)->text_traits();
  if (!traits || traits->vocabulary >= kTokens) return {};
  sizes.vocab_size = kTokens;
  return text("the vocabulary of ", model, " has ", kTokens, " tokens instead of ", traits->vocabulary,
              ", for bytes and special tokens");
}

void require_batch(const Recipe& recipe, int64_t training_units) {
  SHADE_REQUIRE(recipe.work.batch_size <= training_units, "--batch-size ", recipe.work.batch_size,
                " is larger than the data, which has ", training_units, " ", to_string(unit_of(recipe)),
                "s for training; choose a smaller one");
}

std::unique_ptr<const data::Dataset> open_records(const Recipe& recipe, const models::Model& model,
                                                  const comm::Place& place, const comm::Group& group,
                                                  const std::optional<data::HeadClasses>& known) {
  const auto& [data, train, work] = std::tie(recipe.data, recipe.train, recipe.work);
  require_data(recipe);
  const auto of_text = model.text_traits();
  const auto of_images = model.image_traits();
  if (of_text) check_text_model(recipe, *of_text);
  if (data.data_folder.empty())
    return std::make_unique<MadeUpData>(model, work.records, work.seq_length, static_cast<uint64_t>(work.seed),
                                        scalar_type(recipe.model.dtype));
  if (!known && (of_images || (of_text && of_text->classifier))) check_classes(recipe);
  if (of_images)
    return data::open_images(data, {.image_size = of_images->image_size,
                                    .channels = of_images->channels,
                                    .classes = of_images->classes,
                                    .label_dropout = of_images->label_dropout,
                                    .seed = static_cast<uint64_t>(work.seed),
                                    .type = scalar_type(recipe.model.dtype)});
  SHADE_REQUIRE(of_text, "data_folder holds texts or images, and ", model.describe(),
                " learns from neither; drop it, or ask for synthetic data with --synthetic");
  if (train.sample_corpus.count > 0)
    checkpoint::from_rank0(group, "writing the sample corpus", [&] {
      if (!std::filesystem::exists(data.data_folder))
        data::write_sample_corpus(data.data_folder, train.sample_corpus, static_cast<uint64_t>(work.seed));
      return std::string();
    });
  const auto head = known ? *known : head_of_weights(recipe, *of_text);
  // Rank 0 makes or proves the token cache, then the first rank of each host that doesn't see the same one; the others
  // find it done.
  std::unique_ptr<data::TextDataset> texts;
  const auto open = [&](const data::Proof& proof) { texts = open_texts(data, work.seq_length, *of_text, proof, head); };
  std::optional<data::Witness> witness;  // rank 0's, until all ranks have opened the store
  const auto seen = checkpoint::from_rank0(group, "opening the data", [&] {
    open({});
    if (!place.single_host()) witness.emplace(texts->store().place());
    return witness ? witness->name() : std::string();
  });
  for (const bool first : {true, false})
    checkpoint::together(group, "opening the data", [&] {
      if (group.rank() != 0 && first == (place.local_rank == 0)) open({.on_this_host = !first, .witness = seen});
    });
  if (data.packing == data::Packing::packed) texts->pack(packing_of(recipe, *texts));
  return texts;
}

std::optional<int64_t> classes_for(const models::Model& model, const data::Dataset& dataset) {
  const auto of_text = model.text_traits();
  const int64_t classes = std::ssize(dataset.classes());
  if (!of_text || !of_text->classifier || of_text->classes_stated || classes == 0) return std::nullopt;
  return classes;
}

void require_set_share(const Recipe& recipe) {
  const auto [wanted, rate] = std::pair(recipe.train.eval_records, recipe.train.eval_rate);
  SHADE_REQUIRE(wanted == 0 || rate == 0, "--eval-records ", wanted, " and --eval-rate ", rate,
                " both say how many records are held out; drop one of them, or set it to 0");
  if (!recipe.dp.is_private() || wanted == 0) return;
  require_split_by_rate(recipe.train.output);
  throw UsageError(text("--eval-records ", wanted,
                        " in a private run: the share that is held out would follow from the number of ",
                        to_string(unit_of(recipe)),
                        "s, so one more could move others between training and evaluation; set the "
                        "share itself, e.g. --eval-rate 0.05"));
}

HeldOut split_of(const Recipe& recipe, const data::Dataset& dataset) {
  require_set_share(recipe);
  const auto [wanted, rate] = std::pair(recipe.train.eval_records, recipe.train.eval_rate);
  const auto* texts = dynamic_cast<const data::TextDataset*>(&dataset);
  const bool packed = texts != nullptr && texts->options().packing == data::Packing::packed;
  SHADE_REQUIRE(!packed || !recipe.dp.is_private() || !texts->windows_share_tokens(),
                "windows of a private run must not share a token; pack the texts with share_tokens = false");
  if (packed && !recipe.dp.is_private())
    return HeldOut::behind(texts->size(), texts->windows(data::Use::held_out),
                           text(" (windows; those held out are of ", texts->held_out(), " records of their own)"));
  if (!packed && !recipe.data.fields.user.empty())
    return wanted > 0 ? HeldOut::about_users(dataset, wanted) : HeldOut::by_user(dataset, rate);
  const bool by_content = recipe.dp.is_private() || rate > 0;
  return by_content ? HeldOut::by_content(dataset, rate) : HeldOut::by_position(dataset.size(), wanted);
}

std::unique_ptr<const data::Dataset> open_test_records(const Recipe& recipe, const models::Model& model,
                                                       const data::Dataset& trained_on, const comm::Place& place,
                                                       const comm::Group& group) {
  if (recipe.train.test_folder.empty()) return nullptr;
  auto other = recipe;
  other.data.data_folder = recipe.train.test_folder;
  other.data.max_records = 0;
  other.data.fields.user.clear();  // each record is evaluated by itself
  other.train.sample_corpus = Bytes{0};
  other.train.eval_records = 0;
  other.train.eval_rate = 0;
  if (const auto* texts = dynamic_cast<const data::TextDataset*>(&trained_on)) {
    const auto names = texts->classes();
    other.data.classes.clear();
    try {
      return open_records(other, model, place, group,
                          data::HeadClasses{.number = std::ssize(names), .names = names, .may_be_named = false});
    } catch (const UsageError& fault) {
      throw UsageError(text("--test-folder ", recipe.train.test_folder, ": ", fault.what()));
    }
  }
  auto found = open_records(other, model, place, group);
  SHADE_REQUIRE(found->classes() == trained_on.classes(), "test_folder ", recipe.train.test_folder, " has the classes ",
                join(found->classes(), ", "), "; data_folder has ", join(trained_on.classes(), ", "),
                ", and both must have the same");
  return found;
}

}  // namespace shade::train
