// What is side by side in charts: the bars of one method under one strategy have their own word and colour, and stand
// together at each shape.
#pragma once

#include "shade/report/rows.h"

namespace shade::report {

struct Series {
  std::string method, shard;
  std::string word;   // "ghost_fsdp"; "zero2" where only strategies differ; else both
  std::string base;   // the colour of the method, or of the strategy where only those differ
  size_t shade = 0;   // of it, where both differ
  size_t shades = 1;  // all that are in use

  std::string colour(size_t line = 0) const;  // of its further lines: in shades not in use
};

class AllSeries {
 public:
  explicit AllSeries(const Results& results);  // failures included: their place in a chart is marked
  const Series& of(const ResultRow& row) const { return list_[number(row)]; }
  size_t number(const ResultRow& row) const;
  const std::vector<Series>& list() const { return list_; }  // in the order of the catalogue

 private:
  std::vector<Series> list_;
};

// Rows with equal words for all that differs but the strategy are side by side: "seq 128, batch 4".
std::string place_of(const ResultRow& row);

// One bar of a chart: a row, under the words that it shares with its neighbours.
struct Entry {
  const ResultRow* row;
  std::string heading;  // of the first row of a place; empty: none
  std::string label;
};
// By place, then by series. One series alone is labelled by its places, and has no headings.
std::vector<Entry> entries_of(const AllSeries& series, const std::vector<const ResultRow*>& rows);

// A line over batch sizes: all that is equal but the batch size.
struct BatchLine {
  std::string name, colour;
  std::vector<const ResultRow*> rows;
};
std::vector<BatchLine> batch_lines(const Results& results);

}  // namespace shade::report
