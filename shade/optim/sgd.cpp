#include "shade/optim/sgd.h"

#include <ATen/ATen.h>

namespace shade::optim {
namespace {

class Sgd final : public Optimizer {
 public:
  explicit Sgd(const SgdOptions& options)
      : Optimizer(options.momentum == 0 ? std::vector<std::string>{} : std::vector<std::string>{"momentum"},
                  options.state_type, options.weight_decay > 0 && !options.decay_all),
        options_(options) {}

 private:
  void update(const at::Tensor& master, const at::Tensor& gradient, std::span<const at::Tensor> states,
              const Update& how) override {
    // The momentum starts at zero, so the first step is none apart.
    at::_fused_sgd_({master}, {gradient}, at::TensorList(states.data(), states.size()),
                    how.decays ? options_.weight_decay : 0, options_.momentum, how.learning_rate,
                    /*dampening=*/0, options_.nesterov, /*maximize=*/false, /*is_first_step=*/false, how.divisor,
                    /*found_inf=*/{});
  }

  SgdOptions options_;
};

}  // namespace

std::unique_ptr<Optimizer> make_sgd(const SgdOptions& options) { return std::make_unique<Sgd>(options); }

}  // namespace shade::optim
