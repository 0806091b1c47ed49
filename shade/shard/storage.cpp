#include "shade/shard/storage.h"

#include <ATen/ATen.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "shade/base/error.h"
#include "shade/base/temporary_folder.h"

namespace shade::shard {
namespace {

class DeviceStorage : public Storage {
 public:
  explicit DeviceStorage(at::Device device, bool pinned) : options_(device), pinned_(pinned) {}
  at::Tensor zeros(int64_t elements, at::ScalarType type, MemoryKind kind) override {
    const MemoryScope scope(kind);
    return at::zeros({elements}, options_.dtype(type).pinned_memory(pinned_));
  }

 private:
  at::TensorOptions options_;
  bool pinned_;
};

class MappedStorage : public Storage {
 public:
  explicit MappedStorage(std::string folder) : folder_(std::move(folder)) {
    if (folder_.empty()) folder_ = temporary_root().string();
    file_ = open(folder_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    SHADE_REQUIRE(file_ >= 0, "cannot make a file for offloading in ", folder_, ": ", std::strerror(errno),
                  "; choose another folder with --offload-folder");
  }
  ~MappedStorage() override { close(file_); }  // mappings keep the file

  at::Tensor zeros(int64_t elements, at::ScalarType type, MemoryKind) override {
    const auto bytes = static_cast<size_t>(elements) * c10::elementSize(type);
    if (bytes == 0) return at::zeros({0}, type);
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const auto length = (bytes + page - 1) / page * page;
    const int full = posix_fallocate(file_, end_, static_cast<off_t>(length));
    SHADE_REQUIRE(full == 0, "no room for ", to_string(Bytes{static_cast<int64_t>(length)}), " of offloaded state in ",
                  folder_, ": ", std::strerror(full), "; choose another folder with --offload-folder");
    void* address = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, file_, end_);
    SHADE_CHECK(address != MAP_FAILED, "cannot map offloaded state: ", std::strerror(errno));
    end_ += static_cast<off_t>(length);
    return at::from_blob(address, {elements}, [length](void* start) { munmap(start, length); }, type);
  }

 private:
  std::string folder_;
  int file_ = -1;
  off_t end_ = 0;
};

// A plan's: what is offloaded has a shape, and takes no memory of the device.
class PlannedStorage : public Storage {
 public:
  at::Tensor zeros(int64_t elements, at::ScalarType type, MemoryKind) override {
    const auto bytes = static_cast<size_t>(elements) * c10::elementSize(type);
    c10::Storage elsewhere(c10::Storage::use_byte_size_t{}, bytes, c10::DataPtr(nullptr, at::kMeta),
                           /*allocator=*/nullptr, /*resizable=*/false);
    auto out = at::detail::make_tensor<c10::TensorImpl>(
        std::move(elsewhere), c10::DispatchKeySet(c10::DispatchKey::Meta), c10::scalarTypeToTypeMeta(type));
    out.unsafeGetTensorImpl()->set_sizes_contiguous({elements});
    return out;
  }
};

}  // namespace

std::unique_ptr<Storage> make_storage(const ShardConfig& config, at::Device device) {
  if (!config.offload) return std::make_unique<DeviceStorage>(device, false);
  if (device.is_meta()) return std::make_unique<PlannedStorage>();
  if (device.is_cpu()) return std::make_unique<MappedStorage>(config.offload_folder);
  return std::make_unique<DeviceStorage>(at::kCPU, true);
}

}  // namespace shade::shard
