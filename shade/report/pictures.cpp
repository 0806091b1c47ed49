#include "shade/report/pictures.h"

namespace shade::report {
namespace {

std::vector<PictureRow> rows() {
  std::vector<PictureRow> out;
  for (const auto table : {method_pictures(), tradeoff_pictures(), part_pictures(), timeline_pictures(),
                           step_pictures(), front_pictures(), sweep_pictures()})
    out.insert(out.end(), table.begin(), table.end());
  return out;
}

}  // namespace

std::vector<Picture> pictures_of(const Results& results) {
  std::vector<Picture> out;
  const auto advice = front_pictures();
  for (const auto& row : results.rows.empty() ? std::vector(advice.begin(), advice.end()) : rows()) {
    auto picture = row.draw(results);
    picture.name = row.name;
    if (!picture.script.empty()) out.push_back(std::move(picture));
  }
  return out;
}

std::vector<std::string> picture_names() {
  std::vector<std::string> out;
  for (const auto& row : rows()) out.emplace_back(row.name);
  return out;
}

}  // namespace shade::report
