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

}  // namespace shade::train
