#include "shade/base/key_bytes.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <vector>

#include "shade/base/error.h"

namespace shade {
namespace {

// Places for keys in whole pages: locks are per page and are not counted, so a page with one key left must stay locked
// when another key on it ends. Pages are never given back.
class Pages {
 public:
  KeyBytes::Bytes* take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) add_page();
    auto* const place = free_.back();
    free_.pop_back();
    return place;
  }
  void give_back(KeyBytes::Bytes* place) {
    ::explicit_bzero(place, sizeof *place);
    const std::lock_guard lock(mutex_);
    free_.push_back(place);
  }

 private:
  void add_page() {
    const auto size = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    void* const page = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    SHADE_CHECK(page != MAP_FAILED, "no memory for a key: ", ::strerror(errno));
    (void)::mlock(page, size);  // refused where the limit on locked memory is 0
    (void)::madvise(page, size, MADV_DONTDUMP);
    const auto count = size / sizeof(KeyBytes::Bytes);
    free_.reserve(capacity_ += count);  // so that giving back can't fail
    for (size_t i = count; i-- > 0;) free_.push_back(static_cast<KeyBytes::Bytes*>(page) + i);
  }

  std::mutex mutex_;
  std::vector<KeyBytes::Bytes*> free_;
  size_t capacity_ = 0;
};

Pages& pages() {
  static auto* const all = new Pages;  // not destroyed: keys in static objects may end later
  return *all;
}

}  // namespace

void forbid_memory_dumps() {
  ::prctl(PR_SET_DUMPABLE, 0);  // also for a core_pattern that is a program, which the limit does not stop
  rlimit limit{};
  if (::getrlimit(RLIMIT_CORE, &limit) != 0) return;
  limit.rlim_cur = 0;
  (void)::setrlimit(RLIMIT_CORE, &limit);
}

KeyBytes::KeyBytes() : bytes_(pages().take()) {}
KeyBytes::KeyBytes(const Bytes& bytes) : KeyBytes() { *bytes_ = bytes; }
KeyBytes::KeyBytes(const KeyBytes& other) : KeyBytes(*other.bytes_) {}
KeyBytes& KeyBytes::operator=(const KeyBytes& other) {
  *bytes_ = *other.bytes_;
  return *this;
}
KeyBytes::~KeyBytes() { pages().give_back(bytes_); }

}  // namespace shade
