#include "shade/nn/parameters.h"

#include <ATen/ATen.h>
#include <ATen/core/PhiloxRNGEngine.h>

#include <cmath>
#include <numbers>
#include <span>

#include "shade/base/error.h"
#include "shade/base/parallel.h"
#include "shade/nn/positions.h"

namespace shade::nn {

UnitId Parameters::begin_unit(std::string name) {
  units_.push_back({static_cast<UnitId>(units_.size()), std::move(name), {}});
  return units_.back().id;
}

void Parameters::only_looked_up(UnitId unit) { units_.at(static_cast<size_t>(unit)).read_in_backward = false; }

Weight& Parameters::add(std::string name, std::vector<int64_t> shape, Init init) {
  SHADE_CHECK(!units_.empty(), "weight ", name, " is declared outside of a unit");
  SHADE_CHECK(find(name) == nullptr, "weight ", name, " is declared twice");
  auto& weight = weights_.emplace_back(static_cast<WeightId>(weights_.size()), units_.back().id, std::move(name),
                                       std::move(shape), init);
  units_.back().weights.push_back(&weight);
  by_name_.emplace(weight.name(), &weight);
  return weight;
}

Weight* Parameters::find(std::string_view name) {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

int64_t Parameters::count() const {
  int64_t total = 0;
  for (const auto& weight : weights_) total += weight.numel();
  return total;
}

int64_t Parameters::count_trainable() const {
  int64_t total = 0;
  for (const auto& weight : weights_) total += weight.trainable() ? weight.numel() : 0;
  return total;
}

namespace {

// FNV-1a: a weight's stream depends on its name, not on where it stands.
uint64_t hash(std::string_view name) {
  uint64_t value = 14695981039346656037ull;
  for (const char c : name) value = (value ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return value;
}

// Elements 4k .. 4k+3 of a weight come from Philox block k: two Box-Muller pairs.
void normal_block(uint64_t key, uint64_t block, float* four) {
  at::Philox4_32 engine(key, block, 0);
  for (int pair = 0; pair < 2; ++pair) {
    const double u1 = (static_cast<double>(engine()) + 0.5) * 0x1p-32;
    const double u2 = (static_cast<double>(engine()) + 0.5) * 0x1p-32;
    const double radius = std::sqrt(-2 * std::log(u1));
    four[2 * pair] = static_cast<float>(radius * std::cos(2 * std::numbers::pi * u2));
    four[2 * pair + 1] = static_cast<float>(radius * std::sin(2 * std::numbers::pi * u2));
  }
}

// The same block as numbers from -1 to 1.
void uniform_block(uint64_t key, uint64_t block, float* four) {
  at::Philox4_32 engine(key, block, 0);
  for (int i = 0; i < 4; ++i) four[i] = static_cast<float>((static_cast<double>(engine()) + 0.5) * 0x1p-31 - 1);
}

void fill_drawn(std::span<float> out, const Weight& weight, uint64_t seed, int64_t begin) {
  const auto key = seed ^ hash(weight.name());
  const auto scale = static_cast<float>(weight.init().value);
  const auto draw = weight.init().kind == Init::Kind::uniform ? uniform_block : normal_block;
  const int64_t end = begin + std::ssize(out);
  parallel_for(begin / 4, (end + 3) / 4, 4096, [&](int64_t from, int64_t to) {
    for (int64_t block = from; block < to; ++block) {
      float four[4];
      draw(key, static_cast<uint64_t>(block), four);
      for (int64_t i = std::max(begin, 4 * block); i < std::min(end, 4 * block + 4); ++i)
        out[static_cast<size_t>(i - begin)] = scale * four[i - 4 * block];
    }
  });
}

void fill_waves(std::span<float> out, const Weight& weight, int64_t begin) {
  const auto& shape = weight.shape();
  const auto grid = std::llround(std::sqrt(static_cast<double>(shape.at(1))));
  SHADE_CHECK(grid * grid == shape[1] && shape.at(2) % 4 == 0, weight.name(), ": expected a shape [1, grid^2, 4 n]");
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<float>(sincos_position(begin + static_cast<int64_t>(i), grid, shape[2]));
}

}  // namespace

void initialise(at::Tensor flat, const Weight& weight, uint64_t seed, int64_t begin) {
  const auto& init = weight.init();
  if (init.kind == Init::Kind::constant) {
    flat.fill_(init.value);
    return;
  }
  auto made =
      at::empty({flat.numel()}, flat.is_meta() ? flat.options().dtype(at::kFloat) : at::TensorOptions(at::kFloat));
  if (flat.is_meta()) return;
  const std::span out(made.data_ptr<float>(), static_cast<size_t>(made.numel()));
  if (init.kind == Init::Kind::sincos)
    fill_waves(out, weight, begin);
  else
    fill_drawn(out, weight, seed, begin);
  flat.copy_(made.view(flat.sizes()));
}

void bind_all(Parameters& parameters, const at::TensorOptions& options, uint64_t seed) {
  for (auto& weight : parameters.weights()) {
    auto value = at::empty(weight.shape(), options);
    initialise(value.view(-1), weight, seed);
    weight.bind(std::move(value));
  }
}

}  // namespace shade::nn
