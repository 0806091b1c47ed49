#include "shade/models/sizes.h"

#include "shade/base/effect.h"
#include "shade/base/error.h"
#include "shade/base/strings.h"

namespace shade::models {

void refuse_dit_choices(const SizeOverrides& s) {
  SHADE_REQUIRE(s.positions == nn::Positions::automatic && !s.learn_sigma,
                "--positions and --learn-sigma are for DiT models; drop them");
  SHADE_REQUIRE(s.in_channels == 0, "--in-channels is for DiT models; drop it");
}

void SizeOverrides::declare(Fields& fields) {
  using Needs = std::vector<Condition>;
  const auto add = [&](const char* key, int64_t& value, const char* flag, const char* help, Needs needs = {}) {
    needs.insert(needs.begin(), Condition{"model.model"});  // shade verify may have none
    fields.add(key, value,
               {.help = text(help, "; 0: the model's own"), .min = 0, .flags = {flag}, .needs = std::move(needs)});
  };
  const Needs attention{needs_attention()}, texts{needs_texts()}, images{needs_images()};
  add("hidden_dim", hidden_dim, "--hidden-dim", "width of the hidden states");
  add("num_layers", num_layers, "--num-layers", "number of transformer blocks or layers");
  add("num_heads", num_heads, "--num-heads", "number of attention heads", attention);
  add("num_kv_heads", num_kv_heads, "--num-kv-heads", "number of key-value heads", texts);
  add("ffn_dim", ffn_dim, "--ffn-dim", "inner width of the feed-forward layers", texts);
  add("vocab_size", vocab_size, "--vocab-size", "size of the vocabulary in tokens", texts);
  add("image_size", image_size, "--image-size", "side length of the image in pixels", images);
  add("patch_size", patch_size, "--patch-size", "side length of a patch in pixels", images);
  add("in_channels", in_channels, "--in-channels", "number of image channels of a DiT", images);
  add("num_classes", num_classes, "--num-classes",
      "number of classes; of a text classifier only where neither --classes nor the data states it",
      {{kModelKind, {kTextClassifier, kImageModel}}});
  fields.add("positions", positions,
             {.help = "position embeddings of a DiT; learned: trained vectors; sincos: fixed sines and cosines, as in "
                      "published checkpoints; auto: those of the model's config.json, otherwise learned",
              .flags = {"--positions"},
              .needs = {Condition{"model.model"}, needs_images()}});
  fields.add(
      "learn_sigma", learn_sigma,
      {.help = "whether a DiT also predicts a variance, trained by the variational bound, as in published checkpoints",
       .flags = {"--learn-sigma"},
       .needs = {Condition{"model.model"}, needs_images()}});
}

}  // namespace shade::models
