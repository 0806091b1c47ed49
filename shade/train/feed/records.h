// The records that a recipe names.
#pragma once

#include "shade/data/dataset.h"
#include "shade/models/registry.h"
#include "shade/train/feed/held_out.h"
#include "shade/train/spec/recipe.h"

namespace shade::train {

// The classes of a model's head; of a new one if neither config.json nor --num-classes states their number.
data::HeadClasses head_of(const models::TextTraits& model);

// The texts that a model learns from, if their tokens and classes fit it. `head` in place of head_of(model): of the
// weights that it starts from, or of a model that is evaluated.
std::unique_ptr<data::TextDataset> open_texts(const data::DataConfig& config, int64_t seq_length,
                                              const models::TextTraits& model, const data::Proof& proof = {},
                                              const std::optional<data::HeadClasses>& head = std::nullopt);

// The names of a classifier's classes by number, as a finished run on texts has them. Empty: the model is no
// classifier, or its records are synthetic.
std::vector<std::string> classes_of(const Recipe& recipe, const models::TextTraits& model);

// Throws UsageError if a checkpoint's run gave the labels other numbers: its head has learned those. `recipe`: of its
// settings (settings_of).
void require_same_numbers(const Json& recipe, const data::Dataset& dataset);

// Throws UsageError if the recipe names no data: synthetic data is used only when it is asked for.
void require_data(const Recipe& recipe);

// A named model without weights gets a vocabulary that holds the tokens of bytes, if those are what it reads and no
// size was stated: the smallest models have 256. Returns what was done, to be announced; empty: nothing.
std::string fit_vocabulary(models::SizeOverrides& sizes, const std::string& model, const data::DataConfig& data,
                           const models::ModelOptions& options);

// Throws UsageError if a batch is larger than the data.
void require_batch(const Recipe& recipe, int64_t training_units);

// A folder of texts or, for a denoiser, of images; or synthetic ones. Checks that they fit the model. Collective over
// `group`, all ranks: rank 0 writes a sample corpus, makes or proves the token cache, and the first rank of each host
// that has another cache does so there. The model must outlive it. `known`: a classifier's classes, in place of those
// of the model and its weights.
std::unique_ptr<const data::Dataset> open_records(const Recipe& recipe, const models::Model& model,
                                                  const comm::Place& place, const comm::Group& group,
                                                  const std::optional<data::HeadClasses>& known = std::nullopt);

// Throws UsageError if both a number and a share of records are to be held out, or if a private run names a number: the
// share would follow from how many records there are.
void require_set_share(const Recipe& recipe);

// What is trained on and what is held out of what open_records() gave. Packed texts are divided by document, before
// they are cut into windows: no window that is evaluated has a token of a document that is trained on. Windows of
// private runs are divided one by one, each by its own content. Where a field names the users, whole users are held
// out, in every run.
HeldOut split_of(const Recipe& recipe, const data::Dataset& dataset);

// How many classes a classifier of texts must have for these records, if no number was stated: the model is then to be
// made with it.
std::optional<int64_t> classes_for(const models::Model& model, const data::Dataset& dataset);

// Those of test_folder; null if none is set. Their labels have the numbers that `trained_on` gives them.
std::unique_ptr<const data::Dataset> open_test_records(const Recipe& recipe, const models::Model& model,
                                                       const data::Dataset& trained_on, const comm::Place& place,
                                                       const comm::Group& group);

}  // namespace shade::train
