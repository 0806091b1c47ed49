#include "shade/report/series.h"

#include <algorithm>
#include <map>
#include <set>

#include "shade/base/error.h"
#include "shade/catalog/strategies.h"
#include "shade/report/palette.h"

namespace shade::report {
namespace {

size_t place_of_strategy(const std::string& word) {
  const auto* row = catalog::find_row<catalog::StrategyInfo>(catalog::kStrategies, word);
  return row == nullptr ? std::size(catalog::kStrategies) : static_cast<size_t>(row - catalog::kStrategies);
}

std::vector<std::string> shards_of(const Results& results) {
  std::set<std::pair<size_t, std::string>> found;
  for (const auto* rows : {&results.rows, &results.failures})
    for (const auto& row : *rows) found.emplace(place_of_strategy(row.shard), row.shard);
  std::vector<std::string> out;
  for (const auto& [place, shard] : found) out.push_back(shard);
  return out;
}

}  // namespace

AllSeries::AllSeries(const Results& results) {
  auto all = results.rows;
  all.insert(all.end(), results.failures.begin(), results.failures.end());
  const auto methods = methods_of(all);
  const auto shards = shards_of(results);
  for (const auto& [method, word] : methods) {
    for (size_t s = 0; s < shards.size(); ++s) {
      const bool used = std::any_of(all.begin(), all.end(), [&, &name = method](const auto& row) {
        return row.method == name && row.shard == shards[s];
      });
      if (!used) continue;
      const bool by_shard = methods.size() == 1 && shards.size() > 1;
      list_.push_back({.method = method,
                       .shard = shards[s],
                       .word = by_shard            ? shards[s]
                               : shards.size() > 1 ? text(word, ", ", shards[s])
                                                   : word,
                       .base = by_shard ? colour_of_shard(shards[s]) : colour_of_method(method),
                       .shade = by_shard ? 0 : s,
                       .shades = by_shard ? 1 : shards.size()});
    }
  }
}

std::string Series::colour(size_t line) const { return shade_of(base, shade + line * shades); }

size_t AllSeries::number(const ResultRow& row) const {
  const auto found = std::find_if(list_.begin(), list_.end(), [&](const auto& series) {
    return series.method == row.method && series.shard == row.shard;
  });
  SHADE_CHECK(found != list_.end(), row.name, " is in no series");
  return static_cast<size_t>(found - list_.begin());
}

std::string place_of(const ResultRow& row) { return row.shape_without({"shard"}); }

std::vector<Entry> entries_of(const AllSeries& series, const std::vector<const ResultRow*>& rows) {
  std::vector<std::string> places;
  for (const auto* row : rows)
    if (const auto place = place_of(*row); std::find(places.begin(), places.end(), place) == places.end())
      places.push_back(place);
  std::set<size_t> used;
  for (const auto* row : rows) used.insert(series.number(*row));
  std::vector<Entry> out;
  for (const auto& place : places) {
    std::vector<const ResultRow*> here;
    for (const auto* row : rows)
      if (place_of(*row) == place) here.push_back(row);
    std::stable_sort(here.begin(), here.end(),
                     [&](const auto* a, const auto* b) { return series.number(*a) < series.number(*b); });
    for (const auto* row : here) {
      const bool alone = used.size() == 1 && !place.empty();
      const bool first = row == here.front() && !alone && places.size() > 1;
      out.push_back({.row = row,
                     .heading = !first          ? ""
                                : place.empty() ? "all others"
                                                : place,
                     .label = alone ? place : series.of(*row).word});
    }
  }
  return out;
}

std::vector<BatchLine> batch_lines(const Results& results) {
  const AllSeries series(results);
  std::vector<BatchLine> out;
  std::map<size_t, size_t> lines_of_series;  // further lines of a series have other shades
  for (const auto& row : results.rows) {
    const auto rest = row.shape_without({"shard", "batch_size"});
    const auto& own = series.of(row);
    const auto name = rest.empty() ? own.word : series.list().size() == 1 ? rest : text(own.word, ", ", rest);
    auto found = std::find_if(out.begin(), out.end(), [&](const auto& line) { return line.name == name; });
    if (found == out.end())
      found = out.insert(out.end(), {name, own.colour(lines_of_series[series.number(row)]++), {}});
    found->rows.push_back(&row);
  }
  return out;
}

}  // namespace shade::report
