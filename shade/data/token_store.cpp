#include "shade/data/token_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>

#include "shade/base/error.h"
#include "shade/base/explain.h"
#include "shade/base/files.h"
#include "shade/base/log.h"
#include "shade/base/strings.h"
#include "shade/base/terminal.h"
#include "shade/data/token_store_writer.h"
#include "shade/data/witness.h"

namespace shade::data {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kStride = 1024;  // records between two of begins_

// Held while a store is looked for and made. The kernel lets go of it when its process ends, however it ends.
class FolderLock {
 public:
  explicit FolderLock(const fs::path& path) : descriptor_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    if (descriptor_ >= 0)
      while (::flock(descriptor_, LOCK_EX) != 0 && errno == EINTR) continue;
    SHADE_REQUIRE(descriptor_ >= 0, "cannot write to the token cache: ", path, ": ", reason_of(errno),
                  "; choose a folder that can be written with --cache-folder");
  }
  ~FolderLock() { ::close(descriptor_); }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_;
};

int64_t megabytes(uint64_t bytes) { return static_cast<int64_t>(bytes / 1'000'000); }

std::string store_key(const StoreRequest& request, const Tokenizer& tokenizer, const std::vector<TextFile>& files) {
  hash::Hasher hasher;
  const auto& [unit, fields, chat_template] = request.records;
  hasher.add(text(kStoreVersion, '\n', tokenizer.fingerprint(), '\n', to_string(unit), '\n', fields.key(), '\n',
                  chat_template == nullptr ? "" : chat_template->fingerprint(), '\n', request.max_records, '\n',
                  fs::weakly_canonical(request.folder).string(), '\n'));
  for (const auto& file : files) hasher.add(text(file.name, '\0', file.size, ' ', file.modified, '\n'));
  return hash::to_hex(hasher.digest());
}

fs::path cache_of(const StoreRequest& request) {
  if (!request.cache.empty()) return request.cache;
  return (fs::is_directory(request.folder) ? request.folder : request.folder.parent_path()) / ".shade";
}

// The cache may hold what no other user may read: only its owner may look into a new one. A folder that is there may
// hold other things and stays as it is: the stores in it are closed.
void make_cache(const fs::path& cache) {
  if (fs::is_directory(cache)) return;
  try {
    make_folder(cache, Readers::owner);
  } catch (const Error& fault) {
    throw UsageError(text("cannot make the token cache: ", fault.what(),
                          "; choose a folder that can be written with --cache-folder"));
  }
}

// One that an earlier version or another hand left open.
void close_store(const fs::path& place) {
  for (const auto* name : {"", "manifest", "tokens", "records", "counted", "users"})
    if (fs::exists(place / name)) close_to_others(place / name);
}

void make_store(const fs::path& place, const std::string& key, const StoreRequest& request, const Tokenizer& tokenizer,
                const std::vector<TextFile>& files) {
  std::error_code ignored;
  fs::remove_all(place, ignored);
  TokenStoreWriter writer(place, tokenizer, /*users=*/!request.records.fields.user.empty());
  uint64_t size = 0, done = 0;
  for (const auto& file : files) size += file.size;
  Progress progress(text("reading ", request.folder.string(), ", MB"), megabytes(size));
  Records records(request.records);
  for (const auto& file : files) {
    const bool more = records.read(file, [&](Record&& record, uint64_t read) {
      writer.add(record, file);
      progress.advance_to(megabytes(done + read));
      return request.max_records == 0 || writer.records() < request.max_records;
    });
    if (!more) break;
    done += file.size;
  }
  SHADE_REQUIRE(writer.records() > 0, request.folder, " has no record with text: ", files.size(), " files, ",
                writer.empty(), " empty records");
  SHADE_REQUIRE(find_text_files(request.folder) == files, "the files of ", request.folder,
                " changed while they were read; start again when no other process writes to them");
  writer.commit(key, records.fields()->describe());
}

// Whole numbers by value, before everything else; words by their bytes.
bool class_before(const std::string& a, const std::string& b) {
  const auto number = [](const std::string& name) {
    return !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
  };
  if (number(a) != number(b)) return number(a);
  if (number(a) && a.size() != b.size()) return a.size() < b.size();
  return a < b;
}

template <class T>
void widen(std::span<const std::byte> from, std::span<int64_t> to) {
  for (size_t i = 0; i < to.size(); ++i) {
    T narrow;
    std::memcpy(&narrow, from.data() + i * sizeof(T), sizeof(T));
    to[i] = narrow;
  }
}

}  // namespace

std::shared_ptr<const TokenStore> TokenStore::open(const StoreRequest& request, const Tokenizer& tokenizer) {
  const auto files = find_text_files(request.folder);
  const auto key = store_key(request, tokenizer, files);
  const auto cache = cache_of(request);
  const auto place = cache / key;
  make_cache(cache);
  const FolderLock lock(cache / "lock");
  if (fs::exists(place / "manifest")) {
    const bool proven = request.proof.on_this_host || Witness::seen(place, request.proof.witness);
    try {
      close_store(place);
      return std::shared_ptr<const TokenStore>(new TokenStore(place, key, proven));
    } catch (const std::exception& fault) {
      log::warning("the token cache is rebuilt: ", fault.what());
    }
  }
  make_store(place, key, request, tokenizer, files);
  auto store = std::shared_ptr<TokenStore>(new TokenStore(place, key, /*proven=*/false));
  store->reused_ = false;
  return store;
}

TokenStore::TokenStore(fs::path place, const std::string& key, bool proven) : place_(std::move(place)) {
  const auto manifest = read_json(place_ / "manifest");
  const auto size = print_manifest(manifest).size();
  if (fs::file_size(place_ / "manifest") != size || manifest.at("version") != kStoreVersion ||
      manifest.at("key") != key || manifest.at("sum") != manifest_sum(manifest))
    throw Error(text(place_ / "manifest", " is not what was written"));
  records_ = manifest.at("records");
  tokens_ = manifest.at("tokens");
  empty_ = manifest.at("empty");
  width_ = manifest.at("width");
  first_unlabelled_ = manifest.at("first_unlabelled");
  fields_ = manifest.at("fields");
  classes_ = manifest.at("classes").get<std::vector<std::string>>();
  content_ = text(manifest.at("tokens_sum"), ' ', manifest.at("records_sum"), ' ', manifest.at("classes"));
  token_file_ = std::make_unique<io::InputFile>(place_ / "tokens");
  record_file_ = std::make_unique<io::InputFile>(place_ / "records");
  if (manifest.contains("counted_sum")) {
    content_ += text(" counted ", manifest.at("counted_sum"));
    counted_file_ = std::make_unique<io::InputFile>(place_ / "counted");
  }
  framed_ = manifest.value("framed", true);
  if (manifest.contains("users_sum")) {
    content_ += text(" users ", manifest.at("users_sum"));
    user_file_ = std::make_unique<io::InputFile>(place_ / "users");
  }
  for (const auto& [file, bytes] :
       {std::pair(token_file_.get(), tokens_ * width_),
        {record_file_.get(), records_ * static_cast<int64_t>(sizeof(StoredEntry))},
        {counted_file_.get(), static_cast<int64_t>(counted_bytes(static_cast<uint64_t>(tokens_)))},
        {user_file_.get(), records_ * static_cast<int64_t>(sizeof(UserId))}})
    if (file != nullptr && file->size() != static_cast<uint64_t>(bytes))
      throw Error(text(file->path(), " has ", file->size(), " bytes; expected ", bytes));
  if (!proven) check_sums([&](const char* name) { return manifest.at(name).get<std::string>(); });

  std::vector<size_t> sorted(classes_.size());
  std::iota(sorted.begin(), sorted.end(), 0);
  std::sort(sorted.begin(), sorted.end(), [&](size_t a, size_t b) { return class_before(classes_[a], classes_[b]); });
  class_order_.resize(classes_.size());
  for (size_t i = 0; i < sorted.size(); ++i) class_order_[sorted[i]] = static_cast<int64_t>(i);
  std::sort(classes_.begin(), classes_.end(), class_before);

  for (int64_t record = 0; record < records_; record += kStride) begins_.push_back(entry(record).begin);
}

void TokenStore::check_sums(const std::function<std::string(const char*)>& stated) const {
  Progress progress(text("checking ", place_.string(), ", MB"),
                    megabytes(token_file_->size() + record_file_->size() + (has_users() ? user_file_->size() : 0)));
  std::vector<std::byte> block(size_t{1} << 20);
  uint64_t done = 0;
  for (const auto& [file, sum] : {std::pair(token_file_.get(), "tokens_sum"),
                                  {record_file_.get(), "records_sum"},
                                  {counted_file_.get(), "counted_sum"},
                                  {user_file_.get(), "users_sum"}}) {
    if (file == nullptr) continue;
    hash::Hasher hasher;
    for (uint64_t at = 0; at < file->size(); at += block.size()) {
      const auto part = std::span(block).first(std::min<uint64_t>(block.size(), file->size() - at));
      file->read_at(at, part);
      hasher.add(part);
      progress.advance_to(megabytes(done += part.size()));
    }
    if (hash::to_hex(hasher.digest()) != stated(sum)) throw Error(text(file->path(), " is not what was written"));
  }
}

std::vector<TokenStore::Entry> TokenStore::entries(int64_t first, int64_t count) const {
  SHADE_CHECK(first >= 0 && count >= 0 && first + count <= records_, "records ", first, " to ", first + count, " of ",
              records_);
  const int64_t before = first > 0 ? 1 : 0;  // its end is the first one's begin
  std::vector<StoredEntry> stored(static_cast<size_t>(count + before));
  record_file_->read_at(static_cast<uint64_t>(first - before) * sizeof(StoredEntry),
                        std::as_writable_bytes(std::span(stored)));
  std::vector<Entry> out;
  uint64_t begin = before == 1 ? stored[0].end : 0;
  for (const auto& entry : std::span(stored).subspan(static_cast<size_t>(before))) {
    out.push_back({begin, entry.end, entry.label < 0 ? -1 : class_order_.at(static_cast<size_t>(entry.label))});
    begin = entry.end;
  }
  return out;
}

TokenStore::Entry TokenStore::entry(int64_t record) const { return entries(record, 1)[0]; }

UserId TokenStore::user_of(int64_t record) const {
  SHADE_CHECK(has_users() && record >= 0 && record < records_, "the user of record ", record, " of ", records_);
  UserId out;
  user_file_->read_at(static_cast<uint64_t>(record) * sizeof out, std::as_writable_bytes(std::span(out)));
  return out;
}

void TokenStore::read(uint64_t begin, std::span<int64_t> ids) const {
  std::vector<std::byte> stored(ids.size() * static_cast<size_t>(width_));
  token_file_->read_at(begin * static_cast<uint64_t>(width_), stored);
  if (width_ == 1) widen<uint8_t>(stored, ids);
  if (width_ == 2) widen<uint16_t>(stored, ids);
  if (width_ == 4) widen<uint32_t>(stored, ids);
}

void TokenStore::read_counted(uint64_t begin, std::span<uint8_t> counted) const {
  if (all_counted()) {
    std::ranges::fill(counted, 1);
  } else {
    data::read_counted(*counted_file_, begin, counted);
  }
}

TokenStore::Found TokenStore::find(uint64_t position, uint64_t extra) const {
  const auto begin_of = [extra](int64_t record, uint64_t begin) {
    return begin + static_cast<uint64_t>(record) * extra;
  };
  int64_t low = 0, high = static_cast<int64_t>(begins_.size());  // the last stride that begins at or before it
  while (high - low > 1) {
    const auto middle = (low + high) / 2;
    (begin_of(middle * kStride, begins_[static_cast<size_t>(middle)]) <= position ? low : high) = middle;
  }
  const auto first = low * kStride;
  const auto near = entries(first, std::min(kStride, records_ - first));
  auto found = std::partition_point(near.begin(), near.end(), [&](const Entry& entry) {
    return begin_of(first + (&entry - near.data()) + 1, entry.end) <= position;
  });
  SHADE_CHECK(found != near.end(), "position ", position, " is behind the last record");
  const auto record = first + (found - near.begin());
  return {record, begin_of(record, found->begin)};
}

}  // namespace shade::data
