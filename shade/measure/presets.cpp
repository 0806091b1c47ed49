#include "shade/measure/presets.h"

#include <sstream>

#include "shade/base/error.h"
#include "shade/base/strings.h"

namespace shade::measure {

const std::vector<Preset>& presets() {
  static const std::vector<Preset> all{
      {"llama3-fsdp", "memory and time of private, fully sharded Llama-3",
       "--task classify --ranks 2 --shard zero3 --dp no_dp,ghost_fsdp,flash_fsdp --batch-size 2 --num-iter 3 "
       "--warmup-iter 1 --sigma 1.0 --max-grad-norm 1.0 --lr 1e-5",
       "--model llama3-8b --hidden-dim 256 --num-layers 4 --num-heads 4 --num-kv-heads 2 --ffn-dim 768 --vocab-size "
       "4096 "
       "--seq-length 256,512,1024",
       "--model llama3.1-8b --seq-length 1024,2048,4096 --dtype bf16"},
      {"bottlenecks", "which phase of a private step grows how with the text's length",
       "--model llama3-8b --task classify --ranks 2 --shard zero3 --dp none,ghost,flash,flash_bookkeeping "
       "--num-iter 2",
       "--batch-size 1 --hidden-dim 256 --num-layers 2 --num-heads 4 --num-kv-heads 2 --ffn-dim 768 --vocab-size 4096 "
       "--seq-length 512,1024,2048,4096",
       "--batch-size 4 --seq-length 1024,2048,4096,8192,16384 --dtype bf16"},
      {"zero2-vs-zero3", "two ways to shard Qwen2-1.5B",
       "--model qwen2-1.5b --task lm --ranks 2 --shard SHARD_GRAD_OP,FULL_SHARD --dtype bf16 --grad-accum 1,2,4 "
       "--data-folder {corpus} --packing packed",
       "--hidden-dim 256 --num-layers 4 --num-heads 4 --num-kv-heads 2 --ffn-dim 768 --vocab-size 4096 --seq-length "
       "128 "
       "--batch-size 2,4,8 --num-iter 3",
       "--seq-length 2048 --batch-size 2,4,8,16 --num-iter 50"},
      {"linear", "FSDP by a linear example", "--model linear --ranks 2 --shard ddp,fsdp --optimizer sgd --num-iter 5",
       "--hidden-dim 1024 --num-layers 4 --batch-size 2048 --auto_wrap_policy module_wrap,size_based,none "
       "--min_num_params 2000000",
       "--hidden-dim 16384 --num-layers 8 --batch-size 8192 --auto_wrap_policy module_wrap,size_based,none "
       "--min_num_params 100000000"},
      {"dit", "where the memory of a private DiT goes",
       "--model dit-l --dp vanilla,ghost,flash_clip,bookkeeping,flash_clip_bookkeeping --batch-size 2 --num-iter 3",
       "--warmup-iter 1 --hidden-dim 256 --num-layers 4 --num-heads 4 --image-size 128 --patch-size 8 --dtype fp32",
       "--warmup-iter 0 --hidden-dim 1024 --num-layers 24 --num-heads 16 --image-size 256 --patch-size 8 "
       "--num-classes 1000 --dtype bf16"}};
  return all;
}

std::vector<std::string> preset_names() {
  std::vector<std::string> out;
  for (const auto& preset : presets()) out.emplace_back(preset.name);
  return out;
}

std::vector<std::string> preset_arguments(const std::string& name, Scale scale) {
  for (const auto& preset : presets()) {
    if (name != preset.name) continue;
    std::istringstream words(text(preset.shared, " ", scale == Scale::small ? preset.small_sizes : preset.full_sizes));
    std::vector<std::string> out;
    for (std::string word; words >> word;) out.push_back(word);
    return out;
  }
  const auto names = preset_names();
  throw UsageError(
      text("no preset is called '", name, "'", suggestion(name, names), "; there are ", join(names, ", ")));
}

}  // namespace shade::measure
