#include "shade/privacy/clip/choice.h"

#include <ATen/ATen.h>

#include "shade/privacy/norms/linear.h"

namespace shade::privacy {
namespace {

constexpr double kPass = 24;       // operations in the time of one element's way to memory and back
constexpr double kRoomier = 1.45;  // what is kept may take so many times the memory of books

}  // namespace

NormAlgorithm Chooser::timed(const nn::LinearGrad& grad) {
  const auto key = std::tuple{grad.g_BTP.size(0), grad.g_BTP.size(1), grad.g_BTP.size(2), grad.a_BTD.size(2)};
  const auto found = timings_.find(key);
  if (found != timings_.end()) return found->second;
  const auto time = [](const auto& work) {
    const auto begin = Clock::now();
    work();
    return Clock::now() - begin;
  };
  const auto gram = time([&] { (void)gram_squares(grad.a_BTD, grad.g_BTP, options_.tile_size); });
  const auto whole =
      time([&] { (void)instantiated_squares(grad.a_BTD, grad.g_BTP, norm_workspace(grad.g_BTP, options_.workspace)); });
  return timings_[key] = gram < whole ? NormAlgorithm::gram : NormAlgorithm::instantiate;
}

bool Chooser::shares_input(const at::Tensor& a_BTD) {
  const Input input{a_BTD.storage().getWeakStorageImpl(), a_BTD.storage_offset()};
  const auto last = std::exchange(input_, input);
  return last.storage && *last.storage == *input.storage && last.offset == input.offset;
}

LayerChoice Chooser::choose(const nn::LinearGrad& grad) {
  LayerChoice out{row_.keep, row_.norm};
  const auto costs = norm_costs(grad, options_.tile_size);
  if (out.norm == NormAlgorithm::automatic && out.keep != Keep::gradients)
    out.norm = options_.norm_timing ? timed(grad) : costs.cheaper();
  if (!row_.choose) return out;
  const auto t = grad.g_BTP.size(1), p = grad.g_BTP.size(2), d = grad.a_BTD.size(2);
  const auto samples = static_cast<double>(samples_ > 0 ? samples_ : grad.g_BTP.size(0));
  const auto size = static_cast<double>(p * d);
  const double books_cost = out.norm == NormAlgorithm::gram ? costs.gram : costs.instantiate;
  const auto element = static_cast<double>(grad.g_BTP.element_size());
  const bool shared = shares_input(grad.a_BTD);
  const double books = samples * element * static_cast<double>(t * (shared ? p : p + d));
  const double gradients = samples * element * size;
  books_ += books;
  const double after = kept_ + gradients;
  const bool fits = options_.memory.count == 0 || after <= static_cast<double>(options_.memory.count);
  const bool faster = 3 * kPass * size < books_cost;
  if (gradients <= books || (faster && fits && after <= kRoomier * books_)) out.keep = Keep::gradients;
  kept_ += out.keep == Keep::gradients ? gradients : books;
  return out;
}

void Chooser::keeps(const at::Tensor& gradients_B) {
  const auto samples = std::max<int64_t>(1, samples_ > 0 ? samples_ : gradients_B.size(0));
  const auto bytes = static_cast<double>(samples * c10::multiply_integers(gradients_B.sizes().slice(1))) *
                     static_cast<double>(gradients_B.element_size());
  books_ += bytes;
  kept_ += bytes;
}

}  // namespace shade::privacy
