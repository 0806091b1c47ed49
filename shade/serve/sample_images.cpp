#include "shade/serve/sample_images.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "shade/base/error.h"
#include "shade/nn/diffusion.h"

namespace shade::serve {
namespace {

std::vector<int64_t> timesteps_of(int64_t steps, int64_t all) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < steps; ++i) {
    const double left = steps == 1 ? 1 : 1 - static_cast<double>(i) / static_cast<double>(steps - 1);
    out.push_back(std::llrint(left * static_cast<double>(all - 1)));
  }
  return out;
}

class Denoiser {
 public:
  Denoiser(models::Model& model, const at::Tensor& classes_B, double guidance)
      : model_(&model),
        traits_(*model.image_traits()),
        type_(model.parameters().weights().front().value().scalar_type()),
        with_(guidance != 0),
        without_(guidance != 1),
        guidance_(guidance) {
    std::vector<at::Tensor> labels;
    if (with_) labels.push_back(classes_B);
    if (without_) labels.push_back(at::full_like(classes_B, traits_.classes));
    labels_ = at::cat(labels);
  }

  // The noise in x.
  at::Tensor operator()(const at::Tensor& x_BCHW, int64_t timestep) const {
    nn::Batch batch;
    batch.images_BCHW = (with_ && without_ ? at::cat({x_BCHW, x_BCHW}) : x_BCHW).to(type_);
    batch.timesteps_B = at::full({labels_.size(0)}, timestep, at::kLong);
    batch.labels = labels_;
    // A model of the variance has as many channels again.
    const auto noise = model_->outputs(batch).narrow(1, 0, traits_.channels).to(at::kFloat);
    if (!with_ || !without_) return noise;
    const auto parts = noise.chunk(2);
    return parts[1] + guidance_ * (parts[0] - parts[1]);
  }

 private:
  models::Model* model_;
  models::ImageTraits traits_;
  at::ScalarType type_;
  bool with_, without_;
  double guidance_;
  at::Tensor labels_;
};

}  // namespace

at::Tensor sample_images(models::Model& model, const at::Tensor& noise_BCHW, const at::Tensor& classes_B,
                         const ImageSampling& options, const std::function<void()>& after_step) {
  const at::NoGradGuard no_graph;
  const auto traits = model.image_traits();
  SHADE_REQUIRE(traits, model.describe(), " draws no images");
  const nn::DiffusionSchedule schedule;
  const auto all = std::ssize(schedule.kept);
  SHADE_REQUIRE(options.steps >= 1 && options.steps <= all, "images are drawn in ", options.steps,
                " steps; expected 1 to ", all);
  SHADE_REQUIRE(options.guidance == 1 || traits->label_dropout > 0, "guidance ", options.guidance,
                " needs a model that was also trained without classes, and class_dropout_prob of this one is 0; set it "
                "to 1 (--guidance-scale 1)");
  const Denoiser noise_in(model, classes_B, options.guidance);
  const auto times = timesteps_of(options.steps, all);
  const auto kept = [&](size_t i) { return i < times.size() ? schedule.kept[static_cast<size_t>(times[i])] : 1.0; };
  auto x = noise_BCHW.to(at::kFloat);
  for (size_t i = 0; i < times.size(); ++i) {
    const double a = kept(i), next = kept(i + 1);
    const auto image = ((x - std::sqrt(1 - a) * noise_in(x, times[i])) / std::sqrt(a)).clamp(-1, 1);
    const auto left = (x - std::sqrt(a) * image) / std::sqrt(1 - a);
    x = std::sqrt(next) * image + std::sqrt(1 - next) * left;
    if (after_step) after_step();
  }
  return x;
}

}  // namespace shade::serve
