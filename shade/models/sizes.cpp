#include "shade/models/sizes.h"

#include "shade/base/error.h"

namespace shade::models {

void refuse_dit_choices(const SizeOverrides& s) {
  SHADE_REQUIRE(s.positions == nn::Positions::automatic && !s.learn_sigma,
                "--positions and --learn-sigma are for DiT models; drop them");
  SHADE_REQUIRE(s.in_channels == 0, "--in-channels is for DiT models; drop it");
}

void SizeOverrides::declare(Fields& fields) {
  const auto add = [&](const char* key, int64_t& value, const char* flag, const char* help) {
    fields.add(key, value, {.help = text(help, "; 0: the model's own"), .min = 0, .flags = {flag}});
  };
  add("hidden_dim", hidden_dim, "--hidden-dim", "width of the model");
  add("num_layers", num_layers, "--num-layers", "number of blocks");
  add("num_heads", num_heads, "--num-heads", "attention heads");
  add("num_kv_heads", num_kv_heads, "--num-kv-heads", "key-value heads");
  add("ffn_dim", ffn_dim, "--ffn-dim", "inner width of the feed-forward");
  add("vocab_size", vocab_size, "--vocab-size", "vocabulary");
  add("image_size", image_size, "--image-size", "side of the image in pixels");
  add("patch_size", patch_size, "--patch-size", "side of a patch in pixels");
  add("in_channels", in_channels, "--in-channels", "DiT: channels of the image");
  add("num_classes", num_classes, "--num-classes",
      "classes; of a text classifier only if neither --classes nor the data says");
  fields.add("positions", positions,
             {.help = "DiT: learned vectors, or fixed sines and cosines as in published checkpoints; auto: the model's "
                      "own, learned unless its config.json says otherwise",
              .flags = {"--positions"}});
  fields.add("learn_sigma", learn_sigma,
             {.help = "DiT: predict a variance too, trained by the variational bound, as in published checkpoints",
              .flags = {"--learn-sigma"}});
}

}  // namespace shade::models
