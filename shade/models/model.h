// A model: single-device code built from layers. Sharding and privacy come from outside, through its Parameters.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shade/nn/attention.h"
#include "shade/nn/batch.h"
#include "shade/nn/parameters.h"
#include "shade/nn/projection.h"

namespace shade::models {

// What a model learns. automatic: what its architecture or its config.json says.
enum class Task { automatic, classify, lm, denoise, regress };
inline std::span<const Name<Task>> names_of(Task) {
  static constexpr Name<Task> kNames[] = {{"auto", Task::automatic},
                                          {"classify", Task::classify},
                                          {"lm", Task::lm},
                                          {"denoise", Task::denoise},
                                          {"regress", Task::regress}};
  return kNames;
}

// Activation checkpointing. block: of each block its inputs alone are kept, and backward computes the rest again.
enum class Checkpointing { none, block };
inline std::span<const Name<Checkpointing>> names_of(Checkpointing) {
  static constexpr Name<Checkpointing> kNames[] = {{"none", Checkpointing::none}, {"block", Checkpointing::block}};
  return kNames;
}

// What the loss of a language model is a mean of. token: all counted tokens of a batch; a sample's loss is then a sum,
// and the caller with the whole batch divides. record: each sample's loss is the mean over its tokens.
enum class LossMean { automatic, token, record };
inline std::span<const Name<LossMean>> names_of(LossMean) {
  static constexpr Name<LossMean> kNames[] = {
      {"auto", LossMean::automatic}, {"token", LossMean::token}, {"record", LossMean::record}};
  return kNames;
}

// What is independent of the architecture.
struct ModelOptions {
  Task task = Task::automatic;  // one that the architecture can't learn throws UsageError
  nn::AttentionKernel attention = nn::AttentionKernel::flash;  // of every attention layer
  Checkpointing checkpointing = Checkpointing::none;           // of every block
  std::optional<nn::LoraOptions> lora;                         // adapters on the chosen linears, everything else frozen
  std::vector<std::string> lora_targets{"q_proj", "v_proj"};   // names of linear layers that get an adapter
  LossMean loss_mean = LossMean::record;                       // lm
};

// All options by name, as JSON; those of LoRA only if there are adapters.
std::string to_json(const ModelOptions& options);

// Sizes of a synthetic batch.
struct BatchShape {
  int64_t samples = 2;       // rows of the batch
  int64_t seq_length = 128;  // tokens per sample; models of images and of vectors ignore it
  bool training = true;      // false: as it is evaluated, without dropped labels
};

// What a model that learns from texts says of itself.
struct TextTraits {
  int64_t vocabulary = 0;                  // token ids are below it
  int64_t max_positions = 0;               // of a sample
  int64_t window = 0;                      // a sample of more tokens would be attended to through a window; 0: never
  bool classifier = false;                 // one label per text; otherwise the next token is predicted
  int64_t classes = 0;                     // of a classifier
  bool classes_stated = false;             // false: the data may decide their number
  std::vector<std::string> class_names{};  // by number, as config.json names them; empty: it doesn't

  // Throws UsageError if samples of so many tokens would be computed with another attention.
  void require_full_attention(int64_t tokens) const;
};

// What a model that learns from images of classes says of itself.
struct ImageTraits {
  int64_t image_size = 0;                  // pixels per side of a square image
  int64_t channels = 0;                    // per pixel; a folder of images needs 1 or 3
  int64_t classes = 0;                     // labels are below it; the label "no class" is equal to it
  double label_dropout = 0;                // how often a training label is replaced by "no class"
  std::vector<std::string> class_names{};  // by number, as config.json names them; empty: it doesn't
};

// A custom model declares weights in its constructor, unit by unit (parameters_.begin_unit), and says its losses. The
// rest has defaults: what needs more than those say is refused by name.
class Model {
 public:
  virtual ~Model() = default;

  // One loss per row of the batch: [B], not averaged. No row's loss may depend on another row.
  virtual at::Tensor losses(const nn::Batch& batch) = 0;
  // How many tokens each row's loss counts: [B] int64; undefined if it is no language model's.
  virtual at::Tensor loss_tokens(const nn::Batch& /*batch*/) const { return {}; }
  // losses() are sums over tokens, and a batch's mean is over its tokens; otherwise over its samples.
  virtual bool sums_tokens() const { return false; }
  // A part of the loss is taken as a constant (detach), so that what is trained by is not the slope of losses().
  virtual bool stops_gradients() const { return false; }

  // Logits [B, T, V] or [B, C], or the predicted noise: for tests and evaluation, without a graph.
  virtual at::Tensor outputs(const nn::Batch& batch);
  // Of a language model: the logits [B, V] of the token after ids [B, T], which follow what `past` has read and are
  // added to it. Without a graph.
  virtual at::Tensor next_logits(const at::Tensor& ids_BT, nn::KvCache& past);

  // Random data of the right shapes, the same for the same seed.
  virtual nn::Batch synthetic(const BatchShape& shape, uint64_t seed, at::ScalarType type) const;

  // Folders of texts and of images are opened for models that have the trait.
  virtual std::optional<TextTraits> text_traits() const { return std::nullopt; }
  // The same for models that learn from images.
  virtual std::optional<ImageTraits> image_traits() const { return std::nullopt; }

  // What model FLOPs are made of (models/flops.h): at how many positions of a sample a weight is a factor of a matrix
  // product (0: a table, a gain, a bias), and the products of activations with each other in one sample's forward.
  // Default: every matrix at every token, and no products of activations.
  virtual int64_t positions(const nn::Weight& weight, const BatchShape& shape) const;
  // FLOPs of those products of activations.
  virtual double attention_flops(const BatchShape& /*shape*/) const { return 0; }
  virtual int64_t tokens(const BatchShape& shape) const;  // per sample: text positions or image patches; default 1
  // One line for logs and messages; default: the numbers of parameters and units.
  virtual std::string describe() const;

  // JSON: what a run is recognised by when it is continued. Of a model of the registry it is the config.json of its
  // folder, from which make_model() makes it again; by default it names the weights and their shapes.
  virtual std::string config_json() const;
  // JSON: how it computes what that describes, as far as it decides the bits of a step: kernels, recomputation, means.
  virtual std::string settings() const { return "{}"; }

  nn::Parameters& parameters() { return parameters_; }              // every weight of the model
  const nn::Parameters& parameters() const { return parameters_; }  // the same, to read

 protected:
  nn::Parameters parameters_;  // filled by the constructor of the model
};

}  // namespace shade::models
