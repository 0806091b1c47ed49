#include "shade/proof/norm_details.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "shade/base/strings.h"
#include "shade/comm/job/sealed_words.h"

namespace shade::proof {

void add_lines(std::vector<std::string>& to, const nn::Parameters& parameters, const NormDetails& details) {
  const auto sample = text("rank ", details.rank, " sample ", details.sample, " ");
  double before = 0, wanted = 0;
  for (const auto& weight : parameters.weights()) {
    if (!weight.trainable()) continue;
    const double mine = details.recorded.by_weight.at(weight.id())[details.in_batch].item<double>();
    const double truth = details.wanted.at(weight.id())[details.sample];
    before += mine;
    wanted += truth;
    to.push_back(text(sample, weight.name(), " norm ", std::sqrt(mine), " expected ", std::sqrt(truth)));
  }
  const double after = details.recorded.squares_B[details.in_batch].item<double>();
  to.push_back(text(sample, "total norm ", std::sqrt(before), " before reduction, ", std::sqrt(after),
                    " after reduction, expected ", std::sqrt(wanted)));
}

std::vector<std::string> gathered_lines(const comm::Group& group, const std::vector<std::string>& mine) {
  const auto words = join(mine, "\n");
  auto sizes = at::empty({group.size()}, at::kLong);
  group.all_gather(sizes, at::tensor({static_cast<int64_t>(words.size())}, at::kLong), {.label = "size of details"})
      .wait();
  std::vector<std::string> out;
  const auto most = static_cast<size_t>(sizes.max().item<int64_t>());
  if (most == 0) return out;
  for (const auto& rank : comm::gather_words(group, words, most, "details")) {
    if (rank.empty()) continue;
    const auto lines = split(rank, '\n');
    out.insert(out.end(), lines.begin(), lines.end());
  }
  return out;
}

}  // namespace shade::proof
