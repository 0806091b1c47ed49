// What a person sees: tables with aligned columns, colour and progress only where there is a terminal.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "shade/base/units.h"

namespace shade {

bool is_terminal(std::FILE* stream);

enum class Colour { red, green, yellow, bold };
// The text itself where `stream` is no terminal or NO_COLOR is set.
std::string coloured(std::string_view words, Colour colour, std::FILE* stream = stdout);

// Numbers align right, words left, by the column's first row.
class Table {
 public:
  explicit Table(std::vector<std::string> header) : header_(std::move(header)) {}
  void add(std::vector<std::string> row);
  std::string str() const;

 private:
  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
};

// One line that moves on a terminal; in a log a line after two seconds, then ever fewer: the longer it takes, the
// longer between two of them.
class Progress {
 public:
  Progress(std::string what, int64_t total, bool shown = true);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void advance(std::string_view doing = {}) { advance_to(done_ + 1, doing); }
  void advance_to(int64_t done, std::string_view doing = {});

 private:
  void draw(std::string_view doing);
  void wipe();

  std::string what_;
  int64_t total_;
  int64_t done_ = 0;
  bool shown_;
  bool terminal_;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point drawn_ = begin_;
};

}  // namespace shade
