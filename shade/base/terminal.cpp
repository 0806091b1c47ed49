#include "shade/base/terminal.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "shade/base/error.h"
#include "shade/base/visible_text.h"

namespace shade {
namespace {

bool looks_numeric(std::string_view cell) {
  return !cell.empty() && (std::isdigit(static_cast<unsigned char>(cell.front())) != 0 || cell.front() == '-');
}

// ", 3 min 20 s left"; nothing when all is done or none yet.
std::string time_left(Seconds spent, double share) {
  if (share <= 0 || share >= 1) return "";
  const Seconds left = spent * (1 / share - 1);
  return text(", ", left < Seconds(1) ? "less than 1 s" : to_string(left), " left");
}

}  // namespace

bool is_terminal(std::FILE* stream) { return ::isatty(::fileno(stream)) == 1; }

std::string coloured(std::string_view words, Colour colour, std::FILE* stream) {
  if (!is_terminal(stream) || std::getenv("NO_COLOR") != nullptr) return std::string(words);
  const char* code = "1";
  switch (colour) {
    case Colour::red: code = "31"; break;
    case Colour::green: code = "32"; break;
    case Colour::yellow: code = "33"; break;
    case Colour::bold: break;
  }
  return text("\033[", code, "m", words, "\033[0m");
}

void Table::add(std::vector<std::string> row) {
  SHADE_CHECK(row.size() == header_.size(), "a row of ", row.size(), " cells in a table of ", header_.size());
  for (auto& cell : row) cell = visible(cell);
  rows_.push_back(std::move(row));
}

std::string Table::str() const {
  std::vector<size_t> width(header_.size());
  for (size_t c = 0; c < header_.size(); ++c) {
    width[c] = header_[c].size();
    for (const auto& row : rows_) width[c] = std::max(width[c], row[c].size());
  }
  std::string out;
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string joined;
    for (size_t c = 0; c < cells.size(); ++c) {
      const std::string padding(width[c] - cells[c].size(), ' ');
      const bool right = !rows_.empty() && looks_numeric(rows_.front()[c]);
      if (c > 0) joined += "  ";
      joined += right ? padding + cells[c] : cells[c] + padding;
    }
    joined.erase(joined.find_last_not_of(' ') + 1);
    out += joined + '\n';
  };
  line(header_);
  for (const auto& row : rows_) line(row);
  return out;
}

Progress::Progress(std::string what, int64_t total, bool shown)
    : what_(visible(what)), total_(total), shown_(shown), terminal_(is_terminal(stderr)) {}

Progress::~Progress() { wipe(); }

void Progress::advance_to(int64_t done, std::string_view doing) {
  done_ = done;
  const auto now = Clock::now();
  const Seconds pause = terminal_ ? Seconds(0.1) : std::max(Seconds(2), Seconds(now - begin_) / 10);
  if (!shown_ || now - drawn_ < pause) return;
  drawn_ = now;
  draw(doing);
}

void Progress::draw(std::string_view doing) {
  const Seconds spent = Clock::now() - begin_;
  const double share = total_ > 0 ? static_cast<double>(done_) / static_cast<double>(total_) : 0;
  const auto left = time_left(spent, share);
  const auto now = visible(doing);
  if (!terminal_) {
    std::fprintf(stderr, "%s: %ld of %ld%s%s%s\n", what_.c_str(), static_cast<long>(done_), static_cast<long>(total_),
                 left.c_str(), now.empty() ? "" : ", ", now.c_str());
    return;
  }
  constexpr int kCells = 30;
  const auto full = static_cast<size_t>(std::clamp(share, 0.0, 1.0) * kCells);
  const std::string bar = std::string(full, '#') + std::string(kCells - full, '.');
  std::fprintf(stderr, "\r\033[K%s [%s] %ld/%ld%s %s", what_.c_str(), bar.c_str(), static_cast<long>(done_),
               static_cast<long>(total_), left.c_str(), now.c_str());
  std::fflush(stderr);
}

void Progress::wipe() {
  if (shown_ && terminal_) std::fprintf(stderr, "\r\033[K");
}

}  // namespace shade
