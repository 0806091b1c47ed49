#include "shade/nn/attention.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "shade/base/error.h"
#include "shade/nn/attention_kernels.h"
#include "shade/nn/autograd.h"
#include "shade/nn/row_product.h"

namespace shade::nn {
namespace {

// [B, T, H, d] <-> [B, H, T, d]
at::Tensor heads_first(const at::Tensor& x) { return x.transpose(1, 2); }

// What queries may not see: by the kernel's own causal flag, or added to their scores, [B or 1, 1, T, S] of 0 and -inf.
struct Hidden {
  at::Tensor mask;  // undefined: none
  bool causal = false;
};

// `flag`: the kernel has a causal flag. Queries are the last T of the S positions of the keys; a single one sees all.
Hidden hidden_from(const at::Tensor& q, const at::Tensor& k, const at::Tensor& visible, bool causal, bool flag) {
  const auto t = q.size(2), s = k.size(2);
  const bool ahead = causal && t > 1;
  if (!visible.defined() && (!ahead || (flag && t == s))) return {{}, ahead};
  const auto hidden = -std::numeric_limits<double>::infinity();
  auto mask = at::zeros({1, 1, t, s}, q.options());
  if (ahead) mask.masked_fill_(at::ones({t, s}, q.options().dtype(at::kBool)).triu(1 + s - t), hidden);
  if (visible.defined()) mask = mask.masked_fill(visible.eq(0).view({-1, 1, 1, s}), hidden);
  return {mask, false};
}

FlashInput flash_input(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& visible,
                       bool causal) {
  const auto query = heads_first(q), key = heads_first(k);
  const auto hidden = hidden_from(query, key, visible, causal, /*flag=*/true);
  return {query, key, heads_first(v), hidden.mask, hidden.causal};
}

struct Flash : torch::autograd::Function<Flash> {
  static at::Tensor forward(Context* context, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const std::optional<at::Tensor>& seen, bool causal) {
    const auto visible = seen.value_or(at::Tensor());
    auto [out, lse] = flash_forward(flash_input(q, k, v, visible, causal));
    context->save_for_backward({q, k, v, visible, out, lse});
    context->saved_data["causal"] = causal;
    return heads_first(out);
  }
  static Tensors backward(Context* context, Tensors grads) {
    const auto saved = context->get_saved_variables();
    const bool causal = context->saved_data["causal"].toBool();
    auto [dq, dk, dv] = flash_backward(flash_input(saved[0], saved[1], saved[2], saved[3], causal),
                                       heads_first(grads[0]), saved[4], saved[5]);
    return {heads_first(dq), heads_first(dk), heads_first(dv), {}, {}};
  }
};

struct Standard : torch::autograd::Function<Standard> {
  static at::Tensor forward(Context* context, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const std::optional<at::Tensor>& visible, bool causal) {
    const auto query = heads_first(q), key = heads_first(k);
    const double scale = 1 / std::sqrt(static_cast<double>(q.size(3)));
    auto scores = batch_product(query, repeated_heads(key, q.size(2)).transpose(-1, -2)).mul_(scale);
    const auto mask = hidden_from(query, key, visible.value_or(at::Tensor()), causal, /*flag=*/false).mask;
    if (mask.defined()) scores.add_(mask);
    const auto share = at::softmax(scores, -1);
    context->save_for_backward({q, k, v, share});
    return heads_first(batch_product(share, repeated_heads(heads_first(v), q.size(2))));
  }
  static Tensors backward(Context* context, Tensors grads) {
    const auto saved = context->get_saved_variables();
    const auto query = heads_first(saved[0]);
    const auto heads = query.size(1);
    const auto kv_heads = saved[1].size(2);
    const double scale = 1 / std::sqrt(static_cast<double>(query.size(3)));
    const auto g = heads_first(grads[0]);
    const auto& share = saved[3];
    const auto dv = batch_product(share.transpose(-1, -2), g);
    auto dshare = batch_product(g, repeated_heads(heads_first(saved[2]), heads).transpose(-1, -2));
    const auto dscores = at::_softmax_backward_data(dshare, share, -1, share.scalar_type()).mul_(scale);
    const auto dq = batch_product(dscores, repeated_heads(heads_first(saved[1]), heads));
    const auto dk = batch_product(dscores.transpose(-1, -2), query);
    return {heads_first(dq), heads_first(folded_heads(dk, kv_heads)), heads_first(folded_heads(dv, kv_heads)), {}, {}};
  }
};

at::Tensor plain_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& visible,
                           bool causal) {
  const auto query = heads_first(q), key = heads_first(k);
  const auto scores =
      at::matmul(query, repeated_heads(key, q.size(2)).transpose(-1, -2)) / std::sqrt(static_cast<double>(q.size(3)));
  const auto mask = hidden_from(query, key, visible, causal, /*flag=*/false).mask;
  const auto share = at::softmax(mask.defined() ? scores + mask : scores, -1);
  return heads_first(at::matmul(share, repeated_heads(heads_first(v), q.size(2))));
}

at::Tensor attention_by_run(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const AttentionOptions& options) {
  SHADE_CHECK(!options.visible_BT.defined(), "attention over runs that hides keys, too");
  const auto cut = [&](const at::Tensor& x) { return x.reshape({1, -1, x.size(2), x.size(3)}).split(options.runs, 1); };
  const auto queries = cut(q), keys = cut(k), values = cut(v);
  std::vector<at::Tensor> out;
  for (size_t i = 0; i < queries.size(); ++i)
    out.push_back(attention(queries[i], keys[i], values[i], {.causal = options.causal, .kernel = options.kernel}));
  return at::cat(out, 1).view(q.sizes());
}

}  // namespace

std::vector<int64_t> runs_of(const at::Tensor& documents_BT) {
  const auto numbers = documents_BT.cpu().contiguous();
  const auto rows = numbers.accessor<int64_t, 2>();
  std::vector<int64_t> out;
  for (int64_t b = 0; b < rows.size(0); ++b)
    for (int64_t t = 0; t < rows.size(1); ++t) {
      if (t == 0 || rows[b][t] != rows[b][t - 1]) out.push_back(0);
      ++out.back();
    }
  return out;
}

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const AttentionOptions& options) {
  SHADE_CHECK(q.dim() == 4 && q.size(1) <= k.size(1) && q.size(2) % k.size(2) == 0 && k.sizes() == v.sizes(),
              "attention of q ", q.sizes(), ", k ", k.sizes(), ", v ", v.sizes());
  if (!options.runs.empty()) return attention_by_run(q, k, v, options);
  if (plain_operators()) return plain_attention(q, k, v, options.visible_BT, options.causal);
  const auto visible = options.visible_BT.defined() ? std::optional(options.visible_BT) : std::nullopt;
  if (options.kernel == AttentionKernel::flash) return Flash::apply(q, k, v, visible, options.causal);
  return Standard::apply(q, k, v, visible, options.causal);
}

std::pair<at::Tensor, at::Tensor> KvCache::extend(size_t layer, const at::Tensor& k, const at::Tensor& v) {
  const auto positions = k.size(1);
  SHADE_CHECK(length_ + positions <= capacity_, "a cache of ", capacity_, " positions has ", length_,
              " of them, and is given ", positions, " more");
  if (layer >= layers_.size()) layers_.resize(layer + 1);
  const auto append = [&](at::Tensor& all, const at::Tensor& next) {
    if (!all.defined()) all = at::empty({next.size(0), capacity_, next.size(2), next.size(3)}, next.options());
    all.narrow(1, length_, positions).copy_(next);
    return all.narrow(1, 0, length_ + positions);
  };
  return {append(layers_[layer].k, k), append(layers_[layer].v, v)};
}

}  // namespace shade::nn
