#include "shade/optim/adamw.h"

#include <ATen/ATen.h>

namespace shade::optim {
namespace {

// Reads master, gradient and two moments once and writes master and moments once: 28 bytes per element in fp32. The
// scale rides along as the kernel's grad_scale; then it also writes the gradient: 32 bytes.
class AdamW final : public Optimizer {
 public:
  explicit AdamW(const AdamWOptions& options)
      : Optimizer({"exp_avg", "exp_avg_sq"}, options.state_type, options.weight_decay > 0 && !options.decay_all),
        options_(options) {}

 private:
  void update(const at::Tensor& master, const at::Tensor& gradient, std::span<const at::Tensor> states,
              const Update& how) override {
    at::_fused_adamw_({master}, {gradient}, {states[0]}, {states[1]}, /*max_exp_avg_sqs=*/{}, {how.step},
                      how.learning_rate, options_.beta1, options_.beta2, how.decays ? options_.weight_decay : 0,
                      options_.eps, /*amsgrad=*/false,
                      /*maximize=*/false, how.divisor, /*found_inf=*/{});
  }

  AdamWOptions options_;
};

}  // namespace

std::unique_ptr<Optimizer> make_adamw(const AdamWOptions& options) { return std::make_unique<AdamW>(options); }

}  // namespace shade::optim
