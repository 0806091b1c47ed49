#include "shade/checkpoint/folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <span>

#include "shade/base/error.h"
#include "shade/base/explain.h"
#include "shade/base/files.h"
#include "shade/base/log.h"
#include "shade/base/span.h"
#include "shade/base/stop_signals.h"
#include "shade/base/strings.h"
#include "shade/checkpoint/manifest.h"
#include "shade/io/errors.h"
#include "shade/io/input_file.h"
#include "shade/io/strict_json.h"

namespace shade::checkpoint {
namespace {

constexpr const char* kLatest = "LATEST";
constexpr std::string_view kTemporary = ".tmp-";
constexpr int64_t kMostSaves = 1'000'000'000'000;  // there is always a next number

// Exactly what Entry::name() writes.
std::optional<Entry> parse_entry(std::string_view name) {
  constexpr std::string_view kStep = "_step_";
  const auto middle = name.find(kStep);
  if (middle == name.npos) return std::nullopt;
  const auto save = parse_integer(name.substr(0, middle)), step = parse_integer(name.substr(middle + kStep.size()));
  if (!save || !step || *save < 0 || *save > kMostSaves || *step < 0) return std::nullopt;
  const Entry entry{*save, *step};
  return entry.name() == name ? std::optional(entry) : std::nullopt;
}

std::vector<Entry> entries(const std::filesystem::path& folder, std::string_view prefix) {
  std::vector<Entry> out;
  std::error_code fault;
  for (const auto& item : std::filesystem::directory_iterator(folder, fault)) {
    const auto name = item.path().filename().string();
    if (!name.starts_with(prefix)) continue;
    if (const auto entry = parse_entry(std::string_view(name).substr(prefix.size()))) out.push_back(*entry);
  }
  if (fault && fault != std::errc::no_such_file_or_directory)
    throw Error(text("cannot list ", folder, ": ", fault.message()));
  std::sort(out.begin(), out.end());
  return out;
}

void rename_folder(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0)
    throw Error(text("cannot rename ", from, " to ", to.filename(), ": ", reason_of(errno)));
}

}  // namespace

void flush_folder(const std::filesystem::path& folder) {
  const int handle = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const int fault = handle < 0 || uninterrupted([&] { return ::fsync(handle); }) != 0 ? errno : 0;
  if (handle >= 0) ::close(handle);
  if (fault != 0) throw Error(text("cannot flush the folder ", folder, ": ", reason_of(fault)));
}

std::string Entry::name() const {
  char words[64];
  std::snprintf(words, sizeof words, "%05lld_step_%lld", static_cast<long long>(save), static_cast<long long>(step));
  return words;
}

std::string Entry::temporary() const { return std::string(kTemporary) + name(); }

std::vector<Entry> Folder::list() const { return entries(path_, ""); }

Entry Folder::next(int64_t step) const {
  int64_t last = 0;
  for (const auto& prefix : {std::string_view(), kTemporary})
    for (const auto& entry : entries(path_, prefix)) last = std::max(last, entry.save);
  return {last + 1, step};
}

std::optional<Latest> Folder::latest() const {
  const auto file = path_ / kLatest;
  std::error_code unreadable;  // a link to itself, for one
  if (std::filesystem::symlink_status(file, unreadable).type() == std::filesystem::file_type::not_found)
    return std::nullopt;
  const auto map = io::MappedFile::open(file);
  const std::string_view words(reinterpret_cast<const char*>(map->bytes().data()), map->bytes().size());
  const auto space = words.find(' ');
  const auto entry = space == words.npos ? std::nullopt : parse_entry(words.substr(0, space));
  const auto digest = !entry || !words.ends_with('\n')
                          ? std::nullopt
                          : hash::digest_from_hex(words.substr(space + 1, words.size() - space - 2));
  if (!digest) throw io::FormatError(text(file, " is damaged: ", io::quote(words)));
  if (!std::filesystem::is_directory(place(*entry), unreadable))
    throw io::FormatError(text(file, " names ", entry->name(), ", which is not there"));
  return Latest{*entry, *digest};
}

void Folder::commit(const Entry& entry, const hash::Digest& manifest) const {
  {
    const Span span(SpanName::save_rename);
    flush_folder(path_ / entry.temporary());
    rename_folder(path_ / entry.temporary(), place(entry));
    flush_folder(path_);
  }
  const Span span(SpanName::save_latest);
  const auto line = text(entry.name(), " ", hash::to_hex(manifest), "\n");
  NewFile file(path_ / kLatest);
  file.write_at(0, std::as_bytes(std::span(line)));
  file.commit();
}

void Folder::remove(const Entry& entry) const {
  const auto gone = path_ / entry.temporary();
  // Renamed first: what is half removed must not look like a checkpoint.
  if (std::filesystem::exists(place(entry))) rename_folder(place(entry), gone);
  std::filesystem::remove_all(gone);
}

void Folder::remove_leftovers() const {
  for (const auto& entry : entries(path_, kTemporary)) {
    std::error_code fault;  // another user's, perhaps
    std::filesystem::remove_all(path_ / entry.temporary(), fault);
    if (fault) log::warning("cannot remove ", (path_ / entry.temporary()).string(), ": ", fault.message());
  }
  // LATEST and its like, half written.
  for (const auto& item : std::filesystem::directory_iterator(path_)) {
    const auto name = item.path().filename().string();
    std::error_code ignored;
    if (name.starts_with(text(kLatest, ".")) && name.ends_with(".tmp")) std::filesystem::remove(item.path(), ignored);
  }
}

// Those that are not whole go before any that may be.
void Folder::keep_last(int64_t count, const std::vector<Entry>& first) const {
  const auto current = latest();
  if (!current) return;
  auto all = list();
  all.erase(std::remove(all.begin(), all.end(), current->entry), all.end());
  std::stable_partition(all.begin(), all.end(), [&](const Entry& entry) {
    std::error_code unreadable;
    return !std::filesystem::exists(place(entry) / kManifestFile, unreadable) ||
           std::find(first.begin(), first.end(), entry) != first.end();
  });
  // The latest is one of those that are kept.
  const auto excess = static_cast<int64_t>(all.size()) - (count - 1);
  for (int64_t i = 0; i < excess; ++i) remove(all[static_cast<size_t>(i)]);
}

}  // namespace shade::checkpoint
