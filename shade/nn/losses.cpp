#include "shade/nn/losses.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "shade/nn/autograd.h"
#include "shade/nn/launches.h"
#include "shade/nn/row_product.h"

namespace shade::nn {
namespace {

// Rows [row, row + count) of the logits of all N = B T positions.
struct Slices {
  Slices(const Weight& w, int64_t positions, int64_t slice_bytes)
      : weight(w),
        rows(w.shape()[0]),
        step(std::min(rows, std::max<int64_t>(64, slice_bytes / (4 * std::max<int64_t>(1, positions)) / 64 * 64))) {}

  int64_t size(int64_t row) const { return std::min(step, rows - row); }
  at::Tensor of_weight(int64_t row) const { return weight.value().narrow(0, row, size(row)); }
  at::Tensor logits(const at::Tensor& h_ND, int64_t row) const {
    const auto w_VD = of_weight(row);
    return treats_rows_differently(h_ND, w_VD.size(0)) ? row_product(h_ND, w_VD) : at::mm(h_ND, w_VD.t());
  }
  // For each position: is its label in this slice, and at which column (any if not)?
  std::pair<at::Tensor, at::Tensor> targets(const at::Tensor& labels_N, int64_t row) const {
    const auto inside = (labels_N >= row) & (labels_N < row + size(row));
    return {inside, (labels_N - row).clamp_(0, size(row) - 1).unsqueeze(1)};
  }

  const Weight& weight;
  int64_t rows, step;
};

// What each position's loss counts for in its sample's: 0 if ignored, 1 or 1 / count.
at::Tensor position_weights(const at::Tensor& labels_BT, const LmLossOptions& options, at::ScalarType type) {
  auto counts = (labels_BT != options.ignore_index).to(type);
  if (options.mean) counts.div_(counts.sum(1, true).clamp_min_(1));
  return counts;
}

// Positions whose slice of logits is widened together: on a CPU as many as stay in its cache while they are passed over
// several times.
struct Block {
  int64_t begin = 0, size = 0;
  bool counts = true;  // false: no position of it does (padding, a prompt), and nothing of it is computed

  at::Tensor of(const at::Tensor& x_N) const { return x_N.narrow(0, begin, size); }
};
std::vector<Block> blocks_of(const at::Tensor& weights_BT, const Slices& slices) {
  constexpr int64_t kCached = 1 << 20;  // bytes
  const auto positions = weights_BT.numel();
  const auto wide_bytes = slices.step * static_cast<int64_t>(weights_BT.element_size());
  const auto most =
      few_launches(weights_BT) ? std::max<int64_t>(1, positions) : std::max<int64_t>(2, kCached / wide_bytes);
  const bool read = weights_BT.is_cpu() && !few_launches(weights_BT);
  const auto counted_N = read ? weights_BT.reshape({-1}).ne(0) : at::Tensor();
  std::vector<Block> out;
  for (int64_t begin = 0; begin < positions; begin += out.back().size) {
    Block block{begin, std::min(most, positions - begin)};
    // Several threads add up a row that is alone in another order than one among others: a record's place would change
    // how it is rounded.
    if (begin + block.size == positions - 1) ++block.size;
    if (read) block.counts = block.of(counted_N).any().item<bool>();
    out.push_back(block);
  }
  return out;
}

// e^(x - shift) of each row of x [N, R], in place. A power below the normal numbers takes MKL 30 to 80 times as long as
// another one. It is nothing beside the largest of its row, which is near 1, so it becomes the least that is quick.
at::Tensor exp_shifted(at::Tensor x, const at::Tensor& shift_N) {
  x.sub_(shift_N.unsqueeze(1));
  if (!few_launches(x)) x.clamp_min_(x.scalar_type() == at::kDouble ? -700 : -80);
  return x.exp_();
}

// sum e^(x - peak) over the columns so far, and x's; `peak` becomes the largest of all. Of each row, x is lost.
void add_exponentials(const at::Tensor& sum_N, const at::Tensor& peak_N, const at::Tensor& x_NR) {
  const auto higher = at::maximum(peak_N, x_NR.amax(1));
  sum_N.mul_((peak_N - higher).exp_()).add_(exp_shifted(x_NR, higher).sum(1));
  peak_N.copy_(higher);
}

struct LmLoss : torch::autograd::Function<LmLoss> {
  static at::Tensor forward(Context* context, const at::Tensor& h, const Weight* weight, const Wiring* wiring,
                            const at::Tensor& labels, const LmLossOptions* options) {
    const auto h_ND = h.reshape({-1, h.size(-1)});
    const auto labels_N = labels.reshape({-1});
    const auto slice_bytes =
        few_launches(h) ? std::max(options->slice_bytes, largest_block(h).count) : options->slice_bytes;
    const Slices slices(*weight, h_ND.size(0), slice_bytes);
    const auto type = wide(h.scalar_type());
    const auto weights_BT = position_weights(labels, *options, type);
    const auto blocks = blocks_of(weights_BT, slices);
    const auto peak = at::full({h_ND.size(0)}, -std::numeric_limits<double>::infinity(), h.options().dtype(type));
    const auto sum = at::zeros_like(peak), target = at::zeros_like(peak);
    for (int64_t row = 0; row < slices.rows; row += slices.step) {
      const auto logits_NR = slices.logits(h_ND, row);
      const auto [inside, column] = slices.targets(labels_N, row);
      target.add_(logits_NR.gather(1, column).squeeze(1) * inside);
      for (const auto& block : blocks)
        if (block.counts) add_exponentials(block.of(sum), block.of(peak), block.of(logits_NR).to(type));
    }
    const auto lse = sum.log_().add_(peak);
    for (const auto& block : blocks)
      if (!block.counts) block.of(lse).zero_();
    remember(context, weight);
    context->saved_data["wiring"] = reinterpret_cast<int64_t>(wiring);
    context->saved_data["slice"] = slice_bytes;
    context->save_for_backward({h, labels, lse, weights_BT, options->looked_up_BT});
    return ((lse - target).view(labels.sizes()) * weights_BT).sum(1);
  }

  static Tensors backward(Context* context, Tensors grads) {
    const auto saved = context->get_saved_variables();
    const auto& [h, labels, lse, weights] = std::tie(saved[0], saved[1], saved[2], saved[3]);
    const auto& weight = recall<Weight>(context);
    const auto& wiring = *reinterpret_cast<const Wiring*>(context->saved_data["wiring"].toInt());
    const auto h_ND = h.reshape({-1, h.size(-1)});
    const auto labels_N = labels.reshape({-1});
    const auto factor_N1 = (weights * grads[0].unsqueeze(1)).reshape({-1, 1});
    const Slices slices(weight, h_ND.size(0), context->saved_data["slice"].toInt());
    // Rounded once, after the last slice: rounded after each, bf16 would lose more with every slice.
    const auto dh_ND = at::zeros(h_ND.sizes(), h.options().dtype(wide(h.scalar_type())));
    const auto blocks = blocks_of(weights, slices);
    for (int64_t row = 0; row < slices.rows; row += slices.step) {
      const auto g = slices.logits(h_ND, row);  // and then their gradient
      const auto [inside, column] = slices.targets(labels_N, row);
      const auto wanted_N1 = inside.to(lse.scalar_type()).neg_().unsqueeze(1);
      for (const auto& block : blocks) {
        auto rows = block.of(g);
        if (!block.counts) {
          rows.zero_();
          continue;
        }
        auto share = exp_shifted(rows.to(lse.scalar_type()), block.of(lse));
        share.scatter_add_(1, block.of(column), block.of(wanted_N1)).mul_(block.of(factor_N1));
        if (!share.is_alias_of(rows)) rows.copy_(share);
      }
      add_wide_product(dh_ND, g, slices.of_weight(row));
      if (weight.trainable())
        wiring.take(LinearGrad{as_BTD(h), g.view({h.size(0), h.size(1), g.size(1)}), &weight, nullptr, row,
                               row + slices.step >= slices.rows, saved[4]});
    }
    return {dh_ND.to(h.scalar_type()).view(h.sizes()), {}, {}, {}, {}};
  }
};

// The textbook's: all logits at once.
at::Tensor plain_lm_losses(const at::Tensor& h_BTD, const Weight& weight, const at::Tensor& labels_BT,
                           const LmLossOptions& options) {
  const auto logits_NV = at::linear(h_BTD, weight.value()).to(wide(h_BTD.scalar_type())).flatten(0, 1);
  const auto losses_BT =
      at::cross_entropy_loss(logits_NV, labels_BT.flatten(), {}, at::Reduction::None, options.ignore_index)
          .view(labels_BT.sizes());
  const auto counted_B = labels_BT.ne(options.ignore_index).sum(1).clamp_min(1);
  return options.mean ? losses_BT.sum(1) / counted_B : losses_BT.sum(1);
}

}  // namespace

at::Tensor class_losses(const at::Tensor& logits_BC, const at::Tensor& labels_B) {
  return at::cross_entropy_loss(logits_BC.to(wide(logits_BC.scalar_type())), labels_B, {}, at::Reduction::None);
}

at::Tensor squared_losses(const at::Tensor& predicted, const at::Tensor& wanted) {
  const auto difference = (predicted - wanted).to(wide(predicted.scalar_type()));
  return difference.square().flatten(1).mean(1);
}

at::Tensor lm_losses(const at::Tensor& h_BTD, const Weight& weight, const Wiring& wiring, const at::Tensor& labels_BT,
                     const LmLossOptions& options) {
  if (plain_operators()) return plain_lm_losses(h_BTD, weight, labels_BT, options);
  return LmLoss::apply(h_BTD, &weight, &wiring, labels_BT, &options);
}

at::Tensor shifted_labels(const at::Tensor& labels_BT, int64_t ignore_index) {
  const auto last = at::full({labels_BT.size(0), 1}, ignore_index, labels_BT.options());
  return at::cat({labels_BT.narrow(1, 1, labels_BT.size(1) - 1), last}, 1);
}

at::Tensor counted_tokens(const at::Tensor& labels_BT, int64_t ignore_index) {
  return (labels_BT != ignore_index).sum(1);
}

at::Tensor last_position(const at::Tensor& h_BTD, const at::Tensor& mask_BT) {
  const auto positions = at::arange(mask_BT.size(1), mask_BT.options());
  const auto last = (mask_BT * positions).argmax(1);
  return h_BTD.gather(1, last.view({-1, 1, 1}).expand({-1, 1, h_BTD.size(2)})).squeeze(1);
}

}  // namespace shade::nn
