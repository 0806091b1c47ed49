// What shade generate does with an image model: images of its classes, as a folder that shade train reads and a
// picture.
#pragma once

#include <string>
#include <vector>

#include "shade/base/config.h"
#include "shade/base/json.h"
#include "shade/serve/opened_model.h"

namespace shade::cli {

struct ImagesConfig {
  std::vector<std::string> class_labels;
  int64_t images_per_class = 8, num_inference_steps = 50;
  double guidance_scale = 1.5;
  std::string output_dir;

  void declare(Fields& f);
  // Draws them and writes OUTPUT/images/CLASS/N.png and OUTPUT/grid.png; says so. What a result file has beside the
  // model. The images of a class depend on the seed and the class alone. Throws UsageError.
  Json draw(const serve::OpenedModel& model, uint64_t seed) const;

 private:
  std::vector<int64_t> classes_of(const serve::OpenedModel& model) const;
};

}  // namespace shade::cli
