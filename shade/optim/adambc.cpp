#include "shade/optim/adambc.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "shade/base/error.h"

namespace shade::optim {
namespace {

// In blocks that stay in the cache. Every operation rounds once, so that an element's result doesn't depend on whether
// it was in a vector or in its tail (optim/optimizer.cpp).
class AdamBc final : public Optimizer {
 public:
  AdamBc(const AdamWOptions& options, double noise_floor)
      : Optimizer({"exp_avg", "exp_avg_sq"}, options.state_type, options.weight_decay > 0 && !options.decay_all),
        options_(options),
        noise_floor_(noise_floor) {}

  std::optional<double> noise_variance() const override { return variance_; }
  void set_noise_variance(double variance) override {
    SHADE_CHECK(variance >= 0 && std::isfinite(variance), "the noise has variance ", variance);
    variance_ = variance;
  }

 private:
  // The average over all steps by the weights that exp_avg_sq has after this one. Of steps that nothing is known of,
  // the noise is taken to be this one's.
  void expect_noise(double variance) override {
    const double before = variance_.value_or(variance);
    variance_ = before + (1 - options_.beta2) / (1 - power(options_.beta2)) * (variance - before);
  }

  void update(const at::Tensor& master, const at::Tensor& gradient, std::span<const at::Tensor> states,
              const Update& how) override {
    const int64_t block = master.is_cpu() ? 1 << 14 : 1 << 22;
    for (int64_t begin = 0; begin < master.numel(); begin += block) {
      const auto part = [&](const at::Tensor& t) { return t.narrow(0, begin, std::min(block, t.numel() - begin)); };
      update_block(part(master), part(gradient), part(states[0]), part(states[1]), how);
    }
  }

  void update_block(const at::Tensor& w, const at::Tensor& g, const at::Tensor& m, const at::Tensor& v,
                    const Update& how) const {
    const auto& [beta1, beta2, eps, weight_decay, decay_all, state_type] = options_;
    if (how.divisor) g.div_(*how.divisor);
    m.mul_(beta1).add_(g * (1 - beta1));
    v.mul_(beta2).add_(g.mul_(g).mul_(1 - beta2));
    const double least = std::max(noise_floor_ * *variance_, eps * eps);
    const auto root = (v * (1 / (1 - power(beta2)))).sub_(*variance_).clamp_min_(least).sqrt_();
    if (how.decays) w.mul_(1 - how.learning_rate * weight_decay);
    w.sub_((m / root).mul_(how.learning_rate / (1 - power(beta1))));
  }

  double power(double beta) const { return std::pow(beta, static_cast<double>(steps())); }

  AdamWOptions options_;
  double noise_floor_;
  std::optional<double> variance_;
};

}  // namespace

std::unique_ptr<Optimizer> make_adambc(const AdamWOptions& options, double noise_floor) {
  return std::make_unique<AdamBc>(options, noise_floor);
}

}  // namespace shade::optim
