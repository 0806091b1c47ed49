// One measured experiment: warm-up, measured steps, memory, traffic.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "shade/base/config.h"
#include "shade/base/effect.h"
#include "shade/base/files.h"
#include "shade/base/json.h"
#include "shade/catalog/figures.h"
#include "shade/catalog/parts.h"
#include "shade/data/config.h"
#include "shade/measure/rank_memory.h"
#include "shade/optim/config.h"
#include "shade/privacy/config.h"
#include "shade/shard/runtime.h"
#include "shade/train/spec/recipe.h"

namespace shade::measure {

// step: forward, backward, optimizer, sharded as told. forward_backward: the bare model in one process.
enum class Work { step, forward_backward };
inline std::span<const Name<Work>> names_of(Work) {
  static constexpr Name<Work> kNames[] = {{"step", Work::step}, {"forward_backward", Work::forward_backward}};
  return kNames;
}

// [bench], beside some of train::WorkConfig.
struct BenchConfig {
  Work work = Work::step;
  int64_t batch_size = 2, grad_accum = 1;  // samples that a rank computes at a time, and how often in a step
  int64_t num_iter = 3, warmup_iter = 1;
  bool peers = false;
  bool bare = false, use_profiler = false, enable_profiling = false;
  std::string trace, tensorboard;

  std::string trace_place() const { return trace.empty() && use_profiler ? "traces/" : trace; }  // empty: no trace
  void declare(Fields& f, train::WorkConfig& run) {
    run.declare_length(f);
    f.add("batch_size", batch_size,
          {.help = "samples per rank (in shade train --global-batch-size is of all ranks together)",
           .unit = "samples",
           .min = 1,
           .flags = {"--batch-size", "--batch-sizes"}});
    f.add("work", work, {.help = "part of a training step that is measured", .flags = {"--work"}});
    f.add("grad_accum", grad_accum,
          {.help = "number of micro-batches of batch_size per step",
           .min = 1,
           .flags = {"--grad-accum", "--grad-accum-steps", "--gradient-accumulation-steps"},
           .needs = {{"bench.work", {"step"}}}});
    f.add("num_iter", num_iter, {.help = "number of measured steps", .min = 1, .flags = {"--num-iter", "--num-steps"}});
    f.add("warmup_iter", warmup_iter,
          {.help = "number of steps before measuring", .min = 0, .flags = {"--warmup-iter"}});
    run.declare_shared(f);
    f.add("trace", trace,
          {.help = "file for a Chrome trace of the whole run, to open in Perfetto; a name that ends in / is a folder "
                   "for TensorBoard, with a subfolder for this configuration",
           .flags = {"--trace"}});
    f.add("use_profiler", use_profiler,
          {.help = "whether to write traces as --trace traces/ does; the name used by PyTorch's scripts",
           .flags = {"--use-profiler"}});
    f.add("tensorboard", tensorboard,
          {.help = "folder for TensorBoard scalars of each measured step (time, loss, memory, phases), with a "
                   "subfolder for this configuration",
           .flags = {"--tensorboard"}});
    f.add("bare", bare,
          {.help = "whether only times are measured, without memory, phases or a timeline; shows what measuring costs",
           .flags = {"--bare"}});
    f.add("enable_profiling", enable_profiling,
          {.help = "whether the norm time of every layer is printed too, as with OPACUS_PROFILE_FSDP=1; phases are "
                   "always timed, unless --bare",
           .flags = {"--enable-profiling"}});
    f.add("peers", peers,
          {.help = "whether PyTorch (with --dp: Opacus) is measured too, interleaved with ours (llama with head size "
                   "64 and ffn_dim 3 times hidden_dim, or dit)",
           .flags = {"--peers"}});
  }
};

// A run that is measured.
struct Experiment : train::RunSpec {
  BenchConfig bench;
  bool from_recipe = false;  // what follows from its fields is what follows in shade train
  std::string mode;          // the word for the method, as it was given (catalog::mode_of)
  Json options;              // all that were in effect: in result files, and what folders of traces are told apart by

  Experiment() { work.seq_length = 1024; }
  void declare(Config& config);  // the sections of recipes that bench has a use for, and [bench]
  void state_options();          // what is in effect now, as `options`
  // Of its trace and its TensorBoard events.
  Readers readers() const { return dp.is_private() ? Readers::owner : Readers::by_umask; }
};

// What follows in an experiment, and of that `mode` and `options`; train::resolve() calls it. Throws UsageError.
train::Decisions decide(Experiment& experiment, const Given& given, int ranks);

// A name for a configuration, of folders and in result files: linear_zero3_ranks2_batch8192_fp32_module_pre_1c9f03ab.
// The digits at the end differ if any option does, except those that say where files go.
std::string log_key(const Experiment& experiment, int ranks);

// Where a rank's trace goes: the file that was asked for, or, if that ends in /, one in a folder of this configuration
// below it, named as TensorBoard's PyTorch plugin wants it. Makes the folder.
std::string trace_file(const Experiment& experiment, const std::string& log_key, int rank, int ranks);

// What one collective of a unit costs in a step.
struct TrafficSum {
  std::string collective, label;
  Bytes wire;
  double time_ms = 0, exposed_ms = 0;
};

// One measured step of this rank.
struct StepFigures {
  std::map<std::string, double> phases_ms;
  Bytes peak, allocated;  // tensors: the most so far; now
};

// Its figures are complete when complete() was called.
struct BenchResult : catalog::Figures {
  std::string description, model_name, log_key;  // of the model, whole and short; of the configuration
  int ranks = 1;
  int64_t vocabulary = 0;                        // 0: not a language model
  std::vector<double> times_ms, peer_times_ms;   // of the slowest rank
  Bytes peer_peak;                               // of the largest rank
  std::vector<RankMemory> memory;                // by rank
  std::map<std::string, double> phases_ms;       // of a step, this rank; they nest
  std::map<std::string, double> own_ms;          // the same without nested phases; and `other`: they add up
  std::map<std::string, double> waits_ms;        // for other ranks, by phase
  std::map<std::string, double> norms_ms;        // the phase `norm` by the weight's name
  std::vector<TrafficSum> traffic;               // of a step, by collective and unit
  std::optional<catalog::Timeline> timeline;     // of the last step
  std::optional<catalog::PeakOwner> peak_owner;  // of this rank's peak
  double product_flops = 0;                      // of this rank's best matrix product, per second
  int gpus = 0;
  std::string data;                     // what it computes with
  std::vector<double> losses;           // step by step, those to warm up included
  std::vector<StepFigures> steps;       // the measured ones
  int64_t clipped = 0, not_finite = 0;  // samples of the last step; not private
  double loss = 0;
  double flops_per_token = 0;  // of the model (models/flops.h)
  int64_t tokens = 0;          // of one step, without padding
  int64_t length = 0;          // tokens of one sample: of a text, or the patches of an image
  int64_t records = 0;         // of the data folder; 0: synthetic data, which has no epoch

  BenchResult();
  const RankMemory& largest() const;      // the rank that needed most
  profile::MemoryBreakdown most() const;  // each kind at its highest moment on any rank
  void describe(const Experiment& experiment, const models::Model& model, int world_size);
  void complete(const Experiment& experiment);  // what follows from times, tokens and the peak
  bool tells_of_records(const privacy::DpConfig& dp) const { return dp.is_private() && records > 0; }
  Json json(const Experiment& experiment) const;  // shared: what tells of single records of a private run is left out
  void write_events(const Experiment& experiment) const;  // to --tensorboard

 private:
  void write_memory(Json& out) const;
  void write_peer(Json& out, const Experiment& experiment) const;
};

// How PyTorch is told to do the same; it is built for one family of shapes, and says so.
std::vector<std::string> peer_words(const Experiment& experiment, const models::Model& model);

BenchResult measure_forward_backward(const Experiment& experiment);

// The memory of all ranks at a stage that was just reached.
using StageListener = std::function<void(const std::vector<MemoryLine>& by_rank, bool on_gpu)>;

// Every rank of the world calls it and gets the same times; rank 0 drives the peers and calls `stage_reached`.
BenchResult measure_training(comm::World& world, const Experiment& experiment,
                             const StageListener& stage_reached = nullptr);

}  // namespace shade::measure
