// The records that a recipe names.
#pragma once

#include "shade/data/dataset.h"
#include "shade/models/model.h"
#include "shade/train/recipe.h"

namespace shade::train {

// A folder of texts or, for a denoiser, of images; or what the model makes up for itself. Checks that they fit the
// model. Collective: a sample corpus is written by rank 0. The model must outlive it.
std::unique_ptr<const data::Dataset> open_records(const Recipe& recipe, const models::Model& model,
                                                  const comm::Group& group);

// Those of test_folder; null if none is set. `trained_on` must have the same classes.
std::unique_ptr<const data::Dataset> open_test_records(const Recipe& recipe, const models::Model& model,
                                                       const data::Dataset& trained_on, const comm::Group& group);

// The model's config.json with what its readers need to know of the data: the classes' names, the special tokens.
Json config_with(const models::Model& model, const data::Dataset& trained_on);

}  // namespace shade::train
