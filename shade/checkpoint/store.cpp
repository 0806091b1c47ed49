#include "shade/checkpoint/store.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <system_error>
#include <utility>

#include "shade/base/error.h"
#include "shade/base/files.h"
#include "shade/base/log.h"
#include "shade/base/span.h"
#include "shade/base/strings.h"
#include "shade/checkpoint/agreement.h"
#include "shade/checkpoint/owned.h"
#include "shade/checkpoint/reader.h"
#include "shade/comm/errors.h"
#include "shade/io/dtype.h"
#include "shade/io/errors.h"
#include "shade/io/input_file.h"
#include "shade/io/safetensors_header.h"
#include "shade/io/safetensors_writer.h"
#include "shade/nn/device.h"

namespace shade::checkpoint {
namespace {

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
  const Span span(SpanName::save_file);
  std::vector<io::TensorSpec> specs;
  io::Metadata digests;
  std::vector<at::Tensor> values;
  for (const auto& piece : pieces) {
    values.push_back(piece.values.cpu().contiguous());
    specs.push_back(io::spec_of(piece.name(), values.back()));
    digests.emplace(piece.name(), hash::to_hex(hash::digest_of(io::bytes_of(values.back()))));
  }
  io::SafetensorsWriter writer(path, specs, digests);
  for (size_t i = 0; i < values.size(); ++i) writer.put(specs[i].name, values[i]);
  writer.commit();
  const auto map = io::MappedFile::open(path);
  const auto header = io::parse_safetensors_header(map->bytes());
  return {.bytes = map->bytes().size(), .header = hash::digest_of(map->bytes().first(header.data_begin))};
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
  const Span span(SpanName::save_copy);
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
  const Span span(SpanName::save_prune);
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
    const Span span(SpanName::save_manifest);
    NewFile file(options_.folder / job.entry.temporary() / kManifestFile);
    file.write_at(0, std::as_bytes(std::span(words)));
    file.commit();
  }
  folder_.commit(job.entry, hash::digest_of(words));
}

namespace {

Reader::Range range_of(const Owned& piece) { return {piece.part, piece.weight, piece.begin, piece.values.numel()}; }

std::string kind(const SavedWeight& weight) {
  return text(weight.trainable ? "trained " : "frozen ", io::print_shape(weight.shape));
}

void require_same_model(const Reader& reader, const shard::Runtime& runtime) {
  std::map<std::string, const SavedWeight*> saved;
  for (const auto& weight : reader.manifest().weights) saved.emplace(weight.name, &weight);
  for (const auto& weight : weights_of(runtime)) {
    const auto found = saved.find(weight.name);
    SHADE_REQUIRE(found != saved.end(), reader.path(), " has no weight '", weight.name,
                  "', which the model needs; make the model as it was when it was saved");
    SHADE_REQUIRE(*found->second == weight, reader.path(), ": weight '", weight.name, "' was ", kind(*found->second),
                  ", in this model it is ", kind(weight), "; make the model as it was when it was saved");
    saved.erase(found);
  }
  SHADE_REQUIRE(saved.empty(), reader.path(), " has the weight '", saved.empty() ? "" : saved.begin()->first,
                "', which this model doesn't; make the model as it was when it was saved");
}

void require_same_optimizer(const Reader& reader, const optim::Optimizer& optimizer) {
  const auto& saved = reader.manifest().states;
  SHADE_REQUIRE(saved == optimizer.state_names(), reader.path(), " was saved with an optimizer that keeps [",
                join(saved, ", "), "]; this one keeps [", join(optimizer.state_names(), ", "),
                "]; choose the same optimizer and average (--ema)");
}

void require_same_types(const Reader& reader, const std::vector<Owned>& owned) {
  for (const auto& piece : owned) {
    const auto saved = reader.dtype(piece.part, piece.weight), here = io::dtype_of(piece.values.scalar_type(), "");
    SHADE_REQUIRE(saved == here, reader.path(), ": ", piece.part, " of '", piece.weight, "' was saved as ",
                  to_string(saved), ", here it is ", to_string(here), "; choose the same types");
  }
}

}  // namespace

Manifest load(const std::filesystem::path& folder, shard::Runtime& runtime, optim::Optimizer& optimizer,
              const comm::Group& group, const std::optional<hash::Digest>& expected) {
  std::optional<Reader> reader;
  std::vector<Owned> owned;
  const auto what = text("loading ", folder);
  together(group, what, [&] { reader.emplace(folder, expected); });
  const auto first = from_rank0(group, what, [&] { return hash::to_hex(reader->digest()); });
  together(group, what, [&] {
    SHADE_REQUIRE(hash::to_hex(reader->digest()) == first, folder,
                  " is not the checkpoint that rank 0 loads; all ranks must", " see the same folder");
    require_same_model(*reader, runtime);
    require_same_optimizer(*reader, optimizer);
    owned = owned_by(runtime, optimizer);
    require_same_types(*reader, owned);
    for (const auto& piece : owned) reader->check(range_of(piece));
  });
  const at::NoGradGuard no_graph;
  for (const auto& piece : owned) reader->read(range_of(piece), piece.values);
  optimizer.set_steps(reader->manifest().steps);
  runtime.updated();
  return reader->manifest();
}

namespace {

// Damaged ones belong too: who would know?
bool is_wanted(const std::filesystem::path& folder, const Belongs& belongs) {
  if (!belongs) return true;
  try {
    return belongs(folder, read_manifest(folder).caller);
  } catch (const io::FormatError&) {
    return true;
  }
}

// {"places": [name, ...], "others": [name, ...], "faults": [...]}, the first place to be tried first.
Json order_of(Store& store, const Belongs& belongs) {
  Json out{{"places", Json::array()}, {"others", Json::array()}, {"faults", Json::array()}};
  const auto all = store.list();
  std::filesystem::path latest;
  try {
    if (const auto found = store.latest()) {
      const auto manifest = io::MappedFile::open(found->folder / kManifestFile);
      if (!is_wanted(found->folder, belongs)) {
        out["faults"].push_back(text("LATEST names ", found->folder.filename(), ", which is of another branch"));
      } else if (hash::digest_of(manifest->bytes()) == *found->manifest) {
        latest = found->folder;
        out["places"].push_back(latest.filename().string());
      } else {  // one of the two is damaged: LATEST has no say, and checkpoints are believed by their own digests
        out["faults"].push_back(text("LATEST has another digest than the manifest of ", found->folder.filename()));
      }
    } else if (!all.empty()) {
      out["faults"].push_back("LATEST is missing");
    }
  } catch (const io::FormatError& fault) {
    out["faults"].push_back(fault.what());
  }
  for (auto at = all.rbegin(); at != all.rend(); ++at) {
    if (*at == latest) continue;
    const bool wanted = is_wanted(*at, belongs);
    out[wanted ? "places" : "others"].push_back(at->filename().string());
    if (!wanted) store.remove_first(*at);
  }
  return out;
}

}  // namespace

std::optional<Newest> load_newest(Store& store, const comm::Group& group, shard::Runtime& runtime,
                                  optim::Optimizer& optimizer, const Belongs& belongs) {
  const auto order =
      Json::parse(from_rank0(group, "looking for a checkpoint", [&] { return order_of(store, belongs).dump(); }));
  Newest out{.folder = {}, .manifest = {}, .faults = order.at("faults")};
  for (const auto& place : order.at("places")) {
    out.folder = store.folder() / place.get<std::string>();
    try {
      out.manifest = store.load({out.folder, {}}, runtime, optimizer);
      return out;
    } catch (const io::FormatError& fault) {  // all else says nothing of the checkpoint, which may be whole
      store.remove_first(out.folder);
      out.faults.push_back(text(place.get<std::string>(), " is not whole: ", fault.what()));
    }
  }
  if (out.faults.empty()) return std::nullopt;
  const std::vector<std::string> others = order.at("others");
  throw Error(text(
      "no checkpoint in ", store.folder(), " is whole: ", join(out.faults, "; "), "; restore one of them from a copy, ",
      others.empty() ? "or delete this folder to start again"
                     : text("or continue from another branch of this run (--resume-from ", others[0], ")")));
}

}  // namespace shade::checkpoint
