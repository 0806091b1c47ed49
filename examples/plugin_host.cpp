// A plain program that loads plugin.cpp's shared object and trains with it.
//
//   plugin_host ./libplugin.so
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: plugin_host FILE.so\n"), 2;
  void* const plugin = dlopen(argv[1], RTLD_NOW);
  if (plugin == nullptr) return std::fprintf(stderr, "plugin_host: %s\n", dlerror()), 1;
  using Train = int (*)(const float*, const int64_t*, int64_t, int64_t, double*);
  const auto train = reinterpret_cast<Train>(dlsym(plugin, "train_privately"));
  if (train == nullptr) return std::fprintf(stderr, "plugin_host: %s\n", dlerror()), 1;

  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(200 * 4);
  for (auto& number : numbers) number = normal(random);
  std::vector<int64_t> labels;
  for (size_t i = 0; i < numbers.size(); i += 4) labels.push_back(numbers[i] > 0 ? 1 : 0);
  double epsilon = 0;
  if (const int failed = train(numbers.data(), labels.data(), 200, 4, &epsilon)) return failed;
  std::printf("epsilon %.3f\n", epsilon);
}
