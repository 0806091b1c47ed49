"""Written by tools/python_options from `shade VERB --describe-options`. Not edited by hand."""
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypedDict

Text = str | int | os.PathLike[str]

class Verb(NamedTuple):
    usual: Mapping[str, str]
    sections: Mapping[str, str]

def described(verb: str) -> Verb: ...
def usual(verb: str, options: Mapping[str, Any]) -> dict[str, Any]: ...

class TrainOptions(TypedDict, total=False):
    ranks: int  # number of ranks to start on this host
    nproc_per_node: int  # as ranks
    model_folder: Text  # folder with a copy of the model, used in place of the Hugging Face cache
    weights: Text  # folder or .safetensors file with the initial weights
    from_scratch: bool  # whether to start from random weights, initialised by --seed
    task: Literal["auto", "classify", "lm", "denoise", "regress"]  # training task
    loss_mean: Literal["auto", "token", "record"]  # items that a language model's loss is averaged over
    attention: Literal["flash", "standard"]  # attention kernel
    checkpointing: Literal["none", "block"]  # activation checkpointing
    dtype: Literal["fp32", "bf16"]  # data type of computation
    lora_rank: int  # rank of the LoRA adapters, which are trained while all other weights are frozen
    lora_r: int  # as lora_rank
    lora_alpha: float  # scale of the LoRA adapters, divided by their rank
    lora_targets: str | Sequence[str]  # names of linear layers that get a LoRA adapter
    hidden_dim: int  # width of the hidden states
    num_layers: int  # number of transformer blocks or layers
    num_heads: int  # number of attention heads
    num_kv_heads: int  # number of key-value heads
    ffn_dim: int  # inner width of the feed-forward layers
    vocab_size: int  # size of the vocabulary in tokens
    image_size: int  # side length of the image in pixels
    patch_size: int  # side length of a patch in pixels
    in_channels: int  # number of image channels of a DiT
    num_classes: int  # number of classes
    positions: Literal["auto", "learned", "sincos"]  # position embeddings of a DiT
    learn_sigma: bool  # whether a DiT also predicts a variance, trained by the variational bound, as in published checkpoints
    packing: Literal["records", "packed"]  # way samples are formed
    chat_template: Text  # name of the chat template that formats messages as text, one of chatml, qwen1.5, qwen2, qwen2.5, qwen3, smollm2, llama3, llama3.1, mistral-v0.1, mistral-v0.2, mistral-v1, mistral-v3, mistral-v3-tekken, gemma, gemma3
    loss_on: Literal["completion", "all"]  # tokens that a language model learns to predict
    text_unit: Literal["file", "paragraph", "line"]  # unit of a .txt file that forms a record
    text_field: Text  # name of the field that holds a record's text
    prompt_field: Text  # name of the field that holds a record's prompt, which is read but not trained on
    completion_field: Text  # name of the field that holds the text after the prompt, which is trained on
    messages_field: Text  # name of the field that holds a conversation, a list of messages with role and content, formatted by the model's chat template
    label_field: Text  # name of the field that holds a record's class, required in every record
    user_field: Text  # name of the field that identifies a record's user, a string or a whole number, required in every record
    classes: str | Sequence[str]  # names of the classes in order, comma-separated, or @FILE with one per line
    flip: bool  # whether to mirror each training image horizontally with probability 0.5
    max_records: int  # number of records to read from the start of the data
    cache_folder: Text  # folder of the token cache, which is a copy of the data
    shard: Literal["none", "ddp", "zero2", "zero3", "hsdp", "SHARD_GRAD_OP", "fsdp", "FULL_SHARD"]  # sharding strategy
    data_parallel: Literal["none", "ddp", "zero2", "zero3", "hsdp", "SHARD_GRAD_OP", "fsdp", "FULL_SHARD"]  # as shard
    replicate: int  # number of replicas of the model under hsdp
    wrap: Literal["module", "size", "none", "module_wrap", "size_based"]  # granularity of the units that are gathered together
    auto_wrap_policy: Literal["module", "size", "none", "module_wrap", "size_based"]  # as wrap
    min_num_params: int  # smallest number of parameters per unit with --wrap size
    segment_bytes: int | str  # size of the segments in which larger units are communicated
    forward_prefetch: bool  # whether the next unit is gathered while the current one computes its forward pass
    backward_prefetch: Literal["pre", "post", "none", "BACKWARD_PRE", "BACKWARD_POST", "NONE"]  # time at which the backward pass gathers the next unit
    in_flight: int | str  # largest total size of gradients in transit
    reduce_once: bool  # whether whole gradients are kept over micro-steps and reduced once per update
    reduce_dtype: Literal["fp32", "bf16", "fp64"]  # data type of gradients during reduction
    offload: bool  # whether shards and optimizer state are kept in a mapped file
    cpu_offload: bool  # as offload
    offload_folder: Text  # folder of that mapped file
    optimizer: Literal["adamw", "adambc", "sgd"]  # optimization algorithm
    lr: float  # learning rate
    learning_rate: float  # as lr
    weight_decay: float  # weight decay factor, not applied to norms and biases
    decay_all: bool  # whether weight decay also applies to norms and biases
    beta1: float  # decay rate of the first moment of adamw and adambc
    beta2: float  # decay rate of the second moment of adamw and adambc
    eps: float  # term added to adamw's denominator for numerical stability
    noise_floor: float  # smallest second moment of adambc after the noise variance is subtracted, as a fraction of that variance
    momentum: float  # momentum of sgd
    nesterov: bool  # whether sgd uses Nesterov momentum
    schedule: Literal["constant", "cosine", "linear"]  # learning-rate schedule after the warm-up
    warmup_steps: int  # length of the linear warm-up of the learning rate
    total_steps: int  # update at which the cosine and linear schedules reach 0
    grad_clip: float  # largest norm of the whole gradient in runs that are not private, where --max-grad-norm means the same
    optimizer_state_dtype: Literal["fp32", "bf16"]  # data type of the optimizer's state
    ema: float  # decay rate of an exponential moving average of the weights
    dp: Literal["none", "materialize", "ghost", "flash", "bookkeeping", "flash_bookkeeping", "streaming", "auto", "no_dp", "vanilla", "ghost_fsdp", "flash_clip", "flash_fsdp", "flash_clip_bookkeeping"]  # method of per-sample gradient clipping
    mode: Literal["none", "materialize", "ghost", "flash", "bookkeeping", "flash_bookkeeping", "streaming", "auto", "no_dp", "vanilla", "ghost_fsdp", "flash_clip", "flash_fsdp", "flash_clip_bookkeeping"]  # as dp
    experiment: Literal["none", "materialize", "ghost", "flash", "bookkeeping", "flash_bookkeeping", "streaming", "auto", "no_dp", "vanilla", "ghost_fsdp", "flash_clip", "flash_fsdp", "flash_clip_bookkeeping"]  # as dp
    clip_style: Literal["flat", "per_layer", "group", "automatic", "adaptive"]  # scope of the clipped norm
    norm_algorithm: Literal["auto", "input_length", "width"]  # norm algorithm of linear layers
    tile_size: int  # tile size for Gram matrices
    dp__norm_workspace: int | str  # largest block of a gradient that is computed for its norm
    dp_memory: int | str  # memory that --dp auto may keep for the private step before it chooses leaner forms
    norm_timing: bool  # whether both norm algorithms are timed on a shape's first use and the faster is kept
    sigma: float  # noise multiplier
    noise_multiplier: float  # as sigma
    max_grad_norm: float  # clipping threshold C of each sample's gradient norm
    dp__gamma: float  # stability constant of --clip-style automatic, added to the norm
    dp__clip_quantile: float  # fraction of samples whose norm stays below the threshold under --clip-style adaptive
    dp__clip_rate: float  # learning rate of the threshold under --clip-style adaptive
    dp__count_sigma: float  # standard deviation of the noise on the number of samples below the threshold, under --clip-style adaptive
    noise_seed: int  # seed of the noise in place of a secret key
    sampler: Literal["poisson", "truncated_poisson", "shuffled"]  # sampler that draws the batches
    sample_rate: float  # probability that a record is in a batch, or a user with --privacy-unit user
    max_batch: int  # largest batch of the truncated_poisson sampler
    population: int  # upper bound on the number of records or users, for the truncated_poisson sampler
    target_epsilon: float  # epsilon to spend over all steps, from which sigma is computed
    epsilon: float  # as target_epsilon
    max_epsilon: float  # largest epsilon
    delta: float  # probability that the epsilon guarantee fails
    target_delta: float  # as delta
    privacy_unit: Literal["record", "window", "user"]  # unit that epsilon protects
    max_records_per_user: int  # largest number of a user's records in one step, drawn again in each step
    accountant: Literal["prv", "rdp", "gdp"]  # accountant that enforces the budget
    data_ledger: Text  # file that counts what all private runs on these data spend and stops them at its cap
    steps: int  # number of optimizer updates
    num_steps: int  # as steps
    global_batch_size: int  # samples per update over all ranks together
    batch_size: int  # as global_batch_size
    seq_length: int  # sequence length of a sample
    seq: int  # as seq_length
    seq_lengths: int  # as seq_length
    max_length: int  # as seq_length
    micro_batch: Text  # number of samples of seq_length that a rank computes at a time
    max_physical_batch_size: Text  # as micro_batch
    padding: Literal["longest", "max_length"]  # length that texts are padded to
    grad_accum: int  # micro-batches per rank and update
    grad_accum_steps: int  # as grad_accum
    gradient_accumulation_steps: int  # as grad_accum
    memory_limit: int | str  # memory limit for tensors per rank
    synthetic: bool  # whether to train on synthetic records generated for the model
    records: int  # number of synthetic records
    sample_corpus: int | str  # size of a synthetic text corpus to write into data_folder if that folder does not exist
    eval_records: int  # number of records held out for evaluation in a run that is not private, spread evenly over the data
    eval_rate: float  # share of records held out for evaluation, each chosen by the hash of its content, so their number is approximate
    eval_every: int  # interval between evaluations on the held-out records
    log_every: int  # interval between progress lines
    save_every: int  # interval between checkpoints
    save_interval: float | str  # time between checkpoints if save_every is 0
    keep: int  # number of checkpoints to keep
    resume_from: Text  # checkpoint to go back to, by its folder or its name in this run
    resume_from_checkpoint: Text  # as resume_from
    restart: bool  # whether to begin at the first step although the ledger has steps of this run and no checkpoint is left
    export: Text  # folder to write the final model to, in the format of transformers, with LoRA adapters merged into the weights
    export_adapter: Text  # folder to write the final LoRA adapters to, in the format of PEFT
    export_dtype: Literal["auto", "fp32", "bf16", "fp16"]  # data type of the exported model
    keep_key: bool  # whether to keep the noise key of a private run after it has finished
    threads: int  # compute threads per rank
    seed: int  # seed of the random weights, and of the batches in runs that are not private
    peak_gflops: float  # stated peak performance of the hardware per rank, the reference of mfu
    comm__backend: Literal["auto", "gloo", "nccl"]  # communication backend between ranks
    comm__peer_timeout: float | str  # time after which a stopped or dead rank ends the job
    comm__rendezvous_timeout: float | str  # time that ranks wait for each other at the start
    comm__stall_timeout: float | str  # time after which the job ends if all ranks are alive and wait for each other
    comm__interface: Text  # network interface between hosts
    comm__seal: Literal["auto", "on", "off"]  # encryption and authentication of messages between ranks
    comm__segment: int | str  # size of the segments in which a reduction is received while the previous segment is added
    use_profiler: bool  # write traces of the first 10 steps to traces/ in the run directory, to open in Perfetto or TensorBoard
    help_all: bool  # print all options by section and exit

class EvalOptions(TypedDict, total=False):
    ranks: int  # number of ranks to start on this host
    nproc_per_node: int  # as ranks
    base: Text  # folder of the base model of LoRA adapters
    dtype: Literal["fp32", "bf16"]  # data type of weights and computation
    threads: int  # number of compute threads
    seq_length: int  # length that records are truncated to
    seq: int  # as seq_length
    max_length: int  # as seq_length
    exact_match: bool  # whether to generate greedily after the prompt of each record that has one, and compare with its completion
    csv: Text  # CSV file that the figures are also written to
    predictions: Text  # JSON Lines file with a line for each record
    tokenizer: Text  # Hugging Face tokenizer.json
    packing: Literal["records", "packed"]  # way samples are formed
    chat_template: Text  # name of the chat template that formats messages as text, one of chatml, qwen1.5, qwen2, qwen2.5, qwen3, smollm2, llama3, llama3.1, mistral-v0.1, mistral-v0.2, mistral-v1, mistral-v3, mistral-v3-tekken, gemma, gemma3
    loss_on: Literal["completion", "all"]  # tokens that a language model learns to predict
    text_unit: Literal["file", "paragraph", "line"]  # unit of a .txt file that forms a record
    text_field: Text  # name of the field that holds a record's text
    prompt_field: Text  # name of the field that holds a record's prompt, which is read but not trained on
    completion_field: Text  # name of the field that holds the text after the prompt, which is trained on
    messages_field: Text  # name of the field that holds a conversation, a list of messages with role and content, formatted by the model's chat template
    label_field: Text  # name of the field that holds a record's class, required in every record
    user_field: Text  # name of the field that identifies a record's user, a string or a whole number, required in every record
    classes: str | Sequence[str]  # names of the classes in order, comma-separated, or @FILE with one per line
    flip: bool  # whether to mirror each training image horizontally with probability 0.5
    max_records: int  # number of records to read from the start of the data
    cache_folder: Text  # folder of the token cache, which is a copy of the data

class GenerateOptions(TypedDict, total=False):
    ranks: int  # number of ranks to start on this host
    nproc_per_node: int  # as ranks
    base: Text  # folder of the base model of LoRA adapters
    dtype: Literal["fp32", "bf16"]  # data type of weights and computation
    threads: int  # number of compute threads
    chat: bool  # whether prompts are a user's turns, formatted by the model's chat template
    system: Text  # system message before the prompts, with --chat
    chat_template: Text  # name of the chat template, in place of the model's own
    tokenizer: Text  # tokenizer.json or its folder, in place of the model's own
    max_new_tokens: int  # largest length of a continuation
    max_tokens: int  # as max_new_tokens
    temperature: float  # sampling temperature, the divisor of the logits
    top_p: float  # total probability of the most probable tokens that are drawn from
    top_k: int  # number of the most probable tokens that are drawn from
    seed: int  # seed of the random draws, which all prompts share in their order
    class_labels: str | Sequence[str]  # classes to draw, by name or number, comma-separated
    images_per_class: int  # number of images of each class
    num_inference_steps: int  # number of denoising steps
    guidance_scale: float  # weight of classifier-free guidance
    output_dir: Text  # folder that images/CLASS/N.png and grid.png are written to

class ReleaseOptions(TypedDict, total=False):
    ranks: int  # number of ranks to start on this host
    nproc_per_node: int  # as ranks
    part: Literal["auto", "model", "adapter", "both"]  # part of a run with LoRA adapters that is released
    export_dtype: Literal["auto", "fp32", "bf16", "fp16"]  # data type of the model
    without_privacy: bool  # whether to release a run without an epsilon
    check: Text  # released folder whose files are compared with the digests in its privacy.json, in place of RUN and FOLDER

class ReportOptions(TypedDict, total=False):
    ranks: int  # number of ranks to start on this host
    nproc_per_node: int  # as ranks
    output_dir: Text  # folder to write to
    output: Text  # as output_dir
    line: Text  # horizontal line at a loss to compare training runs with

class PlanOptions(TypedDict, total=False):
    device_profile: Text  # device that times are predicted for
    straggler_spread: Text  # relative standard deviation of the ranks' computing times
    advise: bool  # search of the fastest settings within a memory limit
    memory_limit: Text  # limit for the tensor memory of a rank with --advise, on a GPU for what its allocator reserves
    records: Text  # training records of a private run to be planned
    target_epsilon: Text  # epsilon that the run may spend
    epsilon: Text  # as target_epsilon
    delta: Text  # probability that epsilon doesn't hold, below 1 / records
    target_delta: Text  # as delta
    expected_batch: Text  # expected batch of all ranks together
    budget_steps: Text  # optimizer steps of the run
    budget_gpu_hours: Text  # compute budget of the run
    budget_flops: Text  # compute budget of the run in model FLOPs
    tokens: Text  # tokens of a whole run, for its days, failures, saves and price
    price_per_hour: Text  # price of one device for an hour, in any currency
    device_mtbf: Text  # mean time between failures of one device
    write_bandwidth: Text  # rate at which all ranks together write a checkpoint
    restart_time: Text  # time from a failure to the next step
    csv: Text  # file that the rows are also written to as CSV
    ranks: int  # number of ranks to start on this host
    nproc_per_node: int  # as ranks
    model_folder: Text  # folder with a copy of the model, used in place of the Hugging Face cache
    task: Literal["auto", "classify", "lm", "denoise", "regress"]  # training task
    loss_mean: Literal["auto", "token", "record"]  # items that a language model's loss is averaged over
    attention: Literal["flash", "standard"]  # attention kernel
    checkpointing: Literal["none", "block"]  # activation checkpointing
    lora_rank: int  # rank of the LoRA adapters, which are trained while all other weights are frozen
    lora_r: int  # as lora_rank
    lora_alpha: float  # scale of the LoRA adapters, divided by their rank
    lora_targets: str | Sequence[str]  # names of linear layers that get a LoRA adapter
    dtype: Literal["fp32", "bf16"]  # data type of weights and computation
    hidden_dim: int  # width of the hidden states
    num_layers: int  # number of transformer blocks or layers
    num_heads: int  # number of attention heads
    num_kv_heads: int  # number of key-value heads
    ffn_dim: int  # inner width of the feed-forward layers
    vocab_size: int  # size of the vocabulary in tokens
    image_size: int  # side length of the image in pixels
    patch_size: int  # side length of a patch in pixels
    in_channels: int  # number of image channels of a DiT
    num_classes: int  # number of classes
    positions: Literal["auto", "learned", "sincos"]  # position embeddings of a DiT
    learn_sigma: bool  # whether a DiT also predicts a variance, trained by the variational bound, as in published checkpoints
    seq_length: int  # sequence length of a sample
    seq: int  # as seq_length
    seq_lengths: int  # as seq_length
    max_length: int  # as seq_length
    batch_size: int  # samples per rank
    batch_sizes: int  # as batch_size
    work: Literal["step", "forward_backward"]  # part of a training step that is measured
    grad_accum: int  # number of micro-batches of batch_size per step
    grad_accum_steps: int  # as grad_accum
    gradient_accumulation_steps: int  # as grad_accum
    num_iter: int  # number of measured steps
    num_steps: int  # as num_iter
    warmup_iter: int  # number of steps before measuring
    threads: int  # compute threads per rank
    seed: int  # seed of the random weights, and of the batches in runs that are not private
    peak_gflops: float  # stated peak performance of the hardware per rank, the reference of mfu
    trace: Text  # file for a Chrome trace of the whole run, to open in Perfetto
    use_profiler: bool  # whether to write traces as --trace traces/ does
    tensorboard: Text  # folder for TensorBoard scalars of each measured step
    bare: bool  # whether only times are measured, without memory, phases or a timeline
    enable_profiling: bool  # whether the norm time of every layer is printed too, as with OPACUS_PROFILE_FSDP=1
    peers: bool  # whether PyTorch
    shard: Literal["none", "ddp", "zero2", "zero3", "hsdp", "SHARD_GRAD_OP", "fsdp", "FULL_SHARD"]  # sharding strategy
    data_parallel: Literal["none", "ddp", "zero2", "zero3", "hsdp", "SHARD_GRAD_OP", "fsdp", "FULL_SHARD"]  # as shard
    replicate: int  # number of replicas of the model under hsdp
    wrap: Literal["module", "size", "none", "module_wrap", "size_based"]  # granularity of the units that are gathered together
    auto_wrap_policy: Literal["module", "size", "none", "module_wrap", "size_based"]  # as wrap
    min_num_params: int  # smallest number of parameters per unit with --wrap size
    segment_bytes: int | str  # size of the segments in which larger units are communicated
    forward_prefetch: bool  # whether the next unit is gathered while the current one computes its forward pass
    backward_prefetch: Literal["pre", "post", "none", "BACKWARD_PRE", "BACKWARD_POST", "NONE"]  # time at which the backward pass gathers the next unit
    in_flight: int | str  # largest total size of gradients in transit
    reduce_once: bool  # whether whole gradients are kept over micro-steps and reduced once per update
    reduce_dtype: Literal["fp32", "bf16", "fp64"]  # data type of gradients during reduction
    offload: bool  # whether shards and optimizer state are kept in a mapped file
    cpu_offload: bool  # as offload
    offload_folder: Text  # folder of that mapped file
    optimizer: Literal["adamw", "adambc", "sgd"]  # optimization algorithm
    lr: float  # learning rate
    learning_rate: float  # as lr
    weight_decay: float  # weight decay factor, not applied to norms and biases
    decay_all: bool  # whether weight decay also applies to norms and biases
    beta1: float  # decay rate of the first moment of adamw and adambc
    beta2: float  # decay rate of the second moment of adamw and adambc
    eps: float  # term added to adamw's denominator for numerical stability
    noise_floor: float  # smallest second moment of adambc after the noise variance is subtracted, as a fraction of that variance
    momentum: float  # momentum of sgd
    nesterov: bool  # whether sgd uses Nesterov momentum
    schedule: Literal["constant", "cosine", "linear"]  # learning-rate schedule after the warm-up
    warmup_steps: int  # length of the linear warm-up of the learning rate
    total_steps: int  # update at which the cosine and linear schedules reach 0
    grad_clip: float  # largest norm of the whole gradient in runs that are not private, where --max-grad-norm means the same
    optimizer_state_dtype: Literal["fp32", "bf16"]  # data type of the optimizer's state
    ema: float  # decay rate of an exponential moving average of the weights
    dp: Literal["none", "materialize", "ghost", "flash", "bookkeeping", "flash_bookkeeping", "streaming", "auto", "no_dp", "vanilla", "ghost_fsdp", "flash_clip", "flash_fsdp", "flash_clip_bookkeeping"]  # method of per-sample gradient clipping
    mode: Literal["none", "materialize", "ghost", "flash", "bookkeeping", "flash_bookkeeping", "streaming", "auto", "no_dp", "vanilla", "ghost_fsdp", "flash_clip", "flash_fsdp", "flash_clip_bookkeeping"]  # as dp
    experiment: Literal["none", "materialize", "ghost", "flash", "bookkeeping", "flash_bookkeeping", "streaming", "auto", "no_dp", "vanilla", "ghost_fsdp", "flash_clip", "flash_fsdp", "flash_clip_bookkeeping"]  # as dp
    clip_style: Literal["flat", "per_layer", "group", "automatic", "adaptive"]  # scope of the clipped norm
    norm_algorithm: Literal["auto", "input_length", "width"]  # norm algorithm of linear layers
    tile_size: int  # tile size for Gram matrices
    dp__norm_workspace: int | str  # largest block of a gradient that is computed for its norm
    dp_memory: int | str  # memory that --dp auto may keep for the private step before it chooses leaner forms
    norm_timing: bool  # whether both norm algorithms are timed on a shape's first use and the faster is kept
    sigma: float  # noise multiplier
    noise_multiplier: float  # as sigma
    max_grad_norm: float  # clipping threshold C of each sample's gradient norm
    dp__gamma: float  # stability constant of --clip-style automatic, added to the norm
    dp__clip_quantile: float  # fraction of samples whose norm stays below the threshold under --clip-style adaptive
    dp__clip_rate: float  # learning rate of the threshold under --clip-style adaptive
    dp__count_sigma: float  # standard deviation of the noise on the number of samples below the threshold, under --clip-style adaptive
    noise_seed: int  # seed of the noise in place of a secret key
    data_folder: Text  # folder of .txt, .json, .jsonl, .csv, .parquet and .arrow files, or one such file
    tokenizer: Text  # Hugging Face tokenizer.json
    packing: Literal["records", "packed"]  # way samples are formed
    chat_template: Text  # name of the chat template that formats messages as text, one of chatml, qwen1.5, qwen2, qwen2.5, qwen3, smollm2, llama3, llama3.1, mistral-v0.1, mistral-v0.2, mistral-v1, mistral-v3, mistral-v3-tekken, gemma, gemma3
    loss_on: Literal["completion", "all"]  # tokens that a language model learns to predict
    text_unit: Literal["file", "paragraph", "line"]  # unit of a .txt file that forms a record
    text_field: Text  # name of the field that holds a record's text
    prompt_field: Text  # name of the field that holds a record's prompt, which is read but not trained on
    completion_field: Text  # name of the field that holds the text after the prompt, which is trained on
    messages_field: Text  # name of the field that holds a conversation, a list of messages with role and content, formatted by the model's chat template
    label_field: Text  # name of the field that holds a record's class, required in every record
    user_field: Text  # name of the field that identifies a record's user, a string or a whole number, required in every record
    classes: str | Sequence[str]  # names of the classes in order, comma-separated, or @FILE with one per line
    flip: bool  # whether to mirror each training image horizontally with probability 0.5
    max_records: int  # number of records to read from the start of the data
    cache_folder: Text  # folder of the token cache, which is a copy of the data
    comm__backend: Literal["auto", "gloo", "nccl"]  # communication backend between ranks
    comm__peer_timeout: float | str  # time after which a stopped or dead rank ends the job
    comm__rendezvous_timeout: float | str  # time that ranks wait for each other at the start
    comm__stall_timeout: float | str  # time after which the job ends if all ranks are alive and wait for each other
    comm__interface: Text  # network interface between hosts
    comm__seal: Literal["auto", "on", "off"]  # encryption and authentication of messages between ranks
    comm__segment: int | str  # size of the segments in which a reduction is received while the previous segment is added

class AccountOptions(TypedDict, total=False):
    ranks: int  # number of ranks to start on this host
    nproc_per_node: int  # as ranks
    sigma: float  # noise multiplier
    noise_multiplier: float  # as sigma
    target_epsilon: float  # epsilon to stay within, from which sigma is computed
    epsilon: float  # as target_epsilon
    sample_rate: float  # probability that a record is in a step's batch
    rate: float  # as sample_rate
    steps: int  # number of optimizer steps
    delta: float  # probability that the epsilon guarantee fails
    target_delta: float  # as delta
    accountant: Literal["prv", "rdp", "gdp"]  # accountant whose epsilon is the result
    sampler: Literal["poisson", "truncated_poisson", "shuffled"]  # sampler that draws the batches
    max_batch: int  # largest batch of the truncated_poisson sampler
    privacy_unit: Literal["record", "window", "user"]  # unit that batches are drawn from and epsilon protects
    population: int  # upper bound on the number of records, for the truncated_poisson sampler
    events: Text  # JSON file of mixed steps in place of one run
