// The tensors of one micro-batch, whatever the model: a field that a model doesn't use stays undefined.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "shade/base/error.h"
#include "shade/nn/device.h"

namespace shade::nn {

// B rows (0 is allowed), T tokens, C x H x W images. A row is a sample, unless rows_per_sample says that several are.
struct Batch {
  at::Tensor ids_BT;   // int64
  at::Tensor mask_BT;  // int64, 1 where a token is real; undefined: all are. Padding is on the right.
  at::Tensor labels;   // [B] classes, or [B, T] tokens with ignore_index: the token at t, as Hugging Face has it
  // Packed samples: which document of its sample a position is part of, in ascending order; no position sees another
  // document. labels are then what each position must predict. Undefined: a sample is one document. Always on the host,
  // which reads from it how attention is cut.
  at::Tensor documents_BT;
  at::Tensor images_BCHW;  // noisy images
  at::Tensor noise_BCHW;   // what a denoiser must predict
  at::Tensor timesteps_B;  // int64, each image's step of the noise schedule, from 0
  at::Tensor x_BD;         // regression: inputs
  at::Tensor y_BD;         // regression: targets
  // Inputs of a custom model, by name; each has the row as its first dimension.
  std::map<std::string, at::Tensor> fields;

  // A sample is what one step clips. One of several rows (the records of a user) has them one after another, and its
  // loss is the mean over those that are present. A sample with fewer records ends with blank rows, which count
  // nowhere.
  int64_t rows_per_sample = 1;
  at::Tensor present_B;  // int64, 1 where a row is a record and 0 where it is blank; undefined: all are records
  // Which privacy unit each sample is; none of them may be in a step twice. Empty: not known.
  std::vector<int64_t> records;

  // The first that is defined: ids_BT, images_BCHW, x_BD, a field; undefined if none is.
  at::Tensor input() const {
    for (const auto* tensor : {&ids_BT, &images_BCHW, &x_BD})
      if (tensor->defined()) return *tensor;
    return fields.empty() ? at::Tensor() : fields.begin()->second;
  }
  // B; 0 if there is no input.
  int64_t row_count() const {
    const auto first = input();
    return first.defined() ? first.size(0) : 0;
  }
  // Number of samples, each of rows_per_sample rows.
  int64_t samples() const { return row_count() / rows_per_sample; }

  // Throws UsageError if the batch has no such field.
  const at::Tensor& field(const std::string& name) const {
    const auto found = fields.find(name);
    SHADE_REQUIRE(found != fields.end(), "the batch has no field '", name, "', which the model reads");
    return found->second;
  }

  // Samples [begin, begin + size), as views. Throws UsageError if a field has another number of samples than the batch.
  Batch rows(int64_t begin, int64_t size) const {
    for (const auto& [name, tensor] : fields)
      SHADE_REQUIRE(tensor.size(0) == row_count(), "field '", name, "' has ", tensor.size(0), " samples, its batch ",
                    row_count());
    auto out = each(
        [&](const at::Tensor& tensor) { return tensor.narrow(0, begin * rows_per_sample, size * rows_per_sample); });
    if (!records.empty()) out.records.assign(records.begin() + begin, records.begin() + begin + size);
    return out;
  }
  // From the host to another device: in pinned memory, without blocking (nn/device.h).
  Batch to(at::Device device) const {
    auto out = each([&](const at::Tensor& tensor) { return on_device(tensor, device); });
    out.documents_BT = documents_BT;
    return out;
  }

  // A batch of what `change` makes of every field that is defined.
  template <class Change>
  Batch each(const Change& change) const {
    Batch out = *this;
    for (auto* tensor : {&out.ids_BT, &out.mask_BT, &out.labels, &out.documents_BT, &out.images_BCHW, &out.noise_BCHW,
                         &out.timesteps_B, &out.x_BD, &out.y_BD, &out.present_B})
      if (tensor->defined()) *tensor = change(*tensor);
    for (auto& [name, tensor] : out.fields) tensor = change(tensor);
    return out;
  }
};

}  // namespace shade::nn
