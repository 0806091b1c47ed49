#include "shade/checkpoint/store.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <system_error>
#include <utility>

#include "shade/base/error.h"
#include "shade/base/log.h"
#include "shade/base/new_file.h"
#include "shade/base/private_file.h"
#include "shade/base/span.h"
#include "shade/checkpoint/agreement.h"
#include "shade/checkpoint/load.h"
#include "shade/comm/errors.h"
#include "shade/io/mapped_file.h"
#include "shade/io/safetensors_writer.h"
#include "shade/nn/device.h"

namespace shade::checkpoint {
namespace {

std::span<const std::byte> bytes_of(const at::Tensor& dense) {
  return {static_cast<const std::byte*>(dense.const_data_ptr()), dense.nbytes()};
}

std::vector<SavedFile> gather(const comm::Group& group, const SavedFile& mine) {
  static_assert(std::is_trivially_copyable_v<SavedFile>);
  constexpr auto kSize = static_cast<int64_t>(sizeof(SavedFile));
  auto here = at::empty({kSize}, at::kByte), all = at::empty({kSize * group.size()}, at::kByte);
  std::memcpy(here.mutable_data_ptr(), &mine, sizeof mine);
  group.all_gather(all, here, {.label = "checkpoint files"}).wait();
  std::vector<SavedFile> out(static_cast<size_t>(group.size()));
  std::memcpy(out.data(), all.const_data_ptr(), out.size() * sizeof(SavedFile));
  return out;
}

SavedFile write_file(const std::filesystem::path& path, const std::vector<Owned>& pieces) {
  const Span span("save_file");
  std::vector<io::TensorSpec> specs;
  io::Metadata digests;
  std::vector<at::Tensor> values;
  for (const auto& piece : pieces) {
    values.push_back(piece.values.cpu().contiguous());
    specs.push_back(io::spec_of(piece.name(), values.back()));
    digests.emplace(piece.name(), io::to_hex(io::digest_of(bytes_of(values.back()))));
  }
  io::SafetensorsWriter writer(path, specs, digests);
  for (size_t i = 0; i < values.size(); ++i) writer.put(specs[i].name, values[i]);
  writer.commit();
  const auto map = io::MappedFile::open(path);
  const auto header = io::parse_safetensors_header(map->bytes());
  return {.bytes = map->bytes().size(), .header = io::digest_of(map->bytes().first(header.data_begin))};
}

}  // namespace

Store::Store(comm::Group group, Options options)
    : group_(std::move(group)), options_(std::move(options)), folder_(options_.folder) {
  from_rank0(group_, text("opening ", options_.folder), [&] {
    SHADE_REQUIRE(options_.keep >= 1, "at least one checkpoint must be kept, not ", options_.keep);
    make_folder(options_.folder, Readers::by_umask);
    lock_.emplace(options_.folder / ".lock", "a folder of checkpoints");
    folder_.remove_leftovers();
    return std::string();
  });
}

Store::~Store() {
  try {
    wait();
  } catch (const std::exception& fault) {
    log::error(fault.what());
  }
}

std::optional<Store::Found> Store::latest() const {
  const auto found = folder_.latest();
  if (!found) return std::nullopt;
  return Found{folder_.place(found->entry), found->manifest};
}

std::vector<std::filesystem::path> Store::list() const {
  std::vector<std::filesystem::path> out;
  for (const auto& entry : folder_.list()) out.push_back(folder_.place(entry));
  return out;
}

void Store::wait() {
  if (writer_.joinable()) writer_.join();
  if (fault_) std::rethrow_exception(std::exchange(fault_, nullptr));
}

Manifest Store::load(const Found& found, shard::Runtime& runtime, optim::Optimizer& optimizer) {
  wait();
  frozen_.reset();
  return checkpoint::load(found.folder, runtime, optimizer, group_, found.manifest);
}

void Store::remove_first(const std::filesystem::path& folder) {
  for (const auto& entry : folder_.list())
    if (folder_.place(entry) == folder) first_to_go_.push_back(entry);
}

void Store::save(shard::Runtime& runtime, optim::Optimizer& optimizer, const Json& caller) {
  write(begin(runtime, optimizer, caller, /*copy=*/false));
}

void Store::save_async(shard::Runtime& runtime, optim::Optimizer& optimizer, const Json& caller) {
  auto job = begin(runtime, optimizer, caller, /*copy=*/true);
  const auto device = runtime.device();
  writer_ = std::thread([this, device, job = std::move(job), copies = nn::Issued(device)]() mutable {
    try {
      nn::use_device(device);
      copies.wait();
      write(std::move(job));
    } catch (...) {
      fault_ = std::current_exception();
    }
  });
}

Store::Job Store::begin(shard::Runtime& runtime, optim::Optimizer& optimizer, const Json& caller, bool copy) {
  wait();
  const Span span("save_copy");
  const auto& policy = runtime.policy();
  SHADE_CHECK(policy.replicate * policy.shard == group_.size(), "a checkpoint is written by all ranks of the world");
  const auto what = text("starting to save in ", options_.folder);
  Job job;
  job.manifest = {.caller = caller,
                  .steps = optimizer.steps(),
                  .states = optimizer.state_names(),
                  .replicate = policy.replicate,
                  .shard = policy.shard,
                  .weights = weights_of(runtime),
                  .files = std::vector<SavedFile>(static_cast<size_t>(group_.size()), SavedFile{.bytes = 1})};
  const auto& weights = job.manifest.weights;
  if (std::any_of(weights.begin(), weights.end(), [](const auto& weight) { return !weight.trainable; }))
    job.manifest.frozen = job.manifest.files;
  const auto number = from_rank0(group_, what, [&] {
    print_manifest(job.manifest);  // what the caller gave can be written: better known now than in the writer's thread
    const auto entry = folder_.next(optimizer.steps());
    make_folder(options_.folder / entry.temporary(), Readers::by_umask);
    return text(entry.save);
  });
  job.entry = {std::stoll(number), optimizer.steps()};
  together(group_, what, [&] {
    for (auto& piece : owned_by(runtime, optimizer)) {
      SHADE_REQUIRE(!piece.values.is_meta(), "weight '", piece.weight, "' is on the meta device and has no values");
      (piece.trainable ? job.pieces : job.frozen).push_back(std::move(piece));
    }
    for (auto* kind : {&job.pieces, &job.frozen})
      *kind = dealt(std::move(*kind), policy.replicate, runtime.groups().replicate.rank());
    if (copy) job.pieces = copied(job.pieces, copy_);
  });
  return job;
}

// Called by the run (save) or by the writer's thread (save_async), never by both at a time.
void Store::write(Job job) {
  const auto what = text("saving ", folder_.place(job.entry));
  SavedFile mine, frozen;
  try {
    together(group_, what, [&] {
      mine = write_file(options_.folder / job.entry.temporary() / file_name(rank()), job.pieces);
      if (!job.manifest.frozen.empty()) frozen = write_frozen(job);
    });
    job.pieces.clear();
    job.manifest.files = gather(group_, mine);
    if (!job.manifest.frozen.empty()) job.manifest.frozen = gather(group_, frozen);
    from_rank0(group_, what, [&] {
      finish(job);
      return std::string();
    });
    frozen_ = {job.entry, frozen};
  } catch (const comm::CommError&) {
    throw;  // others may still be writing; what is left is removed when the folder is opened again
  } catch (...) {
    std::error_code ignored;
    if (group_.rank() == 0) std::filesystem::remove_all(options_.folder / job.entry.temporary(), ignored);
    throw;
  }
  if (group_.rank() != 0) return;
  const Span span("save_prune");
  try {
    folder_.keep_last(options_.keep, first_to_go_);
  } catch (const std::exception& fault) {
    log::warning("an old checkpoint could not be removed: ", fault.what());
  }
}

SavedFile Store::write_frozen(const Job& job) const {
  const auto name = frozen_name(rank());
  const auto path = options_.folder / job.entry.temporary() / name;
  std::error_code fault = std::make_error_code(std::errc::no_such_file_or_directory);
  if (frozen_) std::filesystem::create_hard_link(folder_.place(frozen_->entry) / name, path, fault);
  return fault ? write_file(path, job.frozen) : frozen_->file;  // not every file system has links
}

void Store::finish(const Job& job) {
  const auto words = print_manifest(job.manifest);
  {
    const Span span("save_manifest");
    NewFile file(options_.folder / job.entry.temporary() / kManifestFile);
    file.write_at(0, std::as_bytes(std::span(words)));
    file.commit();
  }
  folder_.commit(job.entry, io::digest_of(words));
}

}  // namespace shade::checkpoint
