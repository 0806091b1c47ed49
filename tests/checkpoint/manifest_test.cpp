// What is printed is read; everything else is refused, by name.
#include "shade/checkpoint/manifest.h"

#include <gtest/gtest.h>

#include "shade/io/errors.h"
#include "tests/io/scratch.h"

namespace shade::checkpoint {
namespace {

Manifest sample() {
  return {.caller = {{"step", 3}, {"lr", 0.25}, {"name", "Zoë"}, {"list", {1, -2, nullptr}}},
          .steps = 3,
          .states = {"exp_avg", "exp_avg_sq"},
          .replicate = 2,
          .shard = 1,
          .weights = {{"a.weight", {4, 2}, true}, {"b/c@d", {}, false}},
          .files = {{.bytes = 100, .header = hash::digest_of("one")}, {.bytes = 200, .header = hash::digest_of("two")}},
          .frozen = {{.bytes = 300, .header = hash::digest_of("three")},
                     {.bytes = 400, .header = hash::digest_of("four")}}};
}

// As an attacker would: any text, with its right checksum.
std::string sealed(std::string body) {
  return text(body, ",\n\"checksum\": \"", hash::to_hex(hash::digest_of(body)), "\"}\n");
}

std::string body() {
  const auto words = print_manifest(sample());
  return words.substr(0, words.rfind(",\n\"checksum\""));
}

std::string with(const std::string& from, const std::string& to) {
  auto words = body();
  const auto at = words.find(from);
  EXPECT_NE(at, std::string::npos) << from << " in " << words;
  return sealed(words.replace(at, from.size(), to));
}

std::string fault(const std::string& words) {
  return io::message_of<io::FormatError>([&] { parse_manifest(words); });
}

TEST(Manifest, ReadsWhatItPrints) {
  EXPECT_EQ(parse_manifest(print_manifest(sample())), sample());
  EXPECT_EQ(sealed(body()), print_manifest(sample()));
  EXPECT_EQ(Json::parse(print_manifest(sample()))["steps"], 3) << "for people and other programs it is plain JSON";
}

TEST(Manifest, FrozenFilesAreAsManyAsRanksOrNone) {
  auto manifest = sample();
  manifest.frozen.clear();
  EXPECT_EQ(parse_manifest(print_manifest(manifest)), manifest);
  manifest.frozen.push_back({.bytes = 1});
  const auto message = io::message_of<UsageError>([&] { print_manifest(manifest); });
  EXPECT_NE(message.find("there are 1 files of frozen weights for 2 ranks"), std::string::npos) << message;
}

TEST(Manifest, EveryFlippedBitShows) {
  const auto words = print_manifest(sample());
  for (size_t at = 0; at < words.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      auto broken = words;
      broken[at] = static_cast<char>(broken[at] ^ (1 << bit));
      EXPECT_THROW(parse_manifest(broken), io::FormatError) << at << " bit " << bit;
    }
  for (size_t size = 0; size < words.size(); ++size)
    EXPECT_THROW(parse_manifest(words.substr(0, size)), io::FormatError) << size;
  EXPECT_THROW(parse_manifest(words + "\n"), io::FormatError);
  EXPECT_THROW(parse_manifest(words + words), io::FormatError);
}

struct Hostile {
  const char *from, *to, *message;
};

TEST(Manifest, RefusesHostileOnes) {
  const std::vector<Hostile> cases{
      {"\"shade checkpoint\"", "\"zip\"", "another format"},
      {"\"version\": 2", "\"version\": 1", "version 1; this program reads version 2"},
      {"\"version\": 2", "\"version\": \"2\"", "of version ?"},
      {"\"version\": 2", "\"version\": -2", "of version -2"},
      {"rank_00000.safetensors", "../../etc/passwd", "expected rank_00000.safetensors"},
      {"rank_00000.safetensors", "/etc/passwd", "expected rank_00000.safetensors"},
      {"rank_00000.safetensors", "rank_00001.safetensors", "expected rank_00000.safetensors"},
      {"rank_00000.safetensors", "rank_00000.safetensors\\u0000", "expected rank_00000.safetensors"},
      {"frozen_00000.safetensors", "rank_00000.safetensors", "expected frozen_00000.safetensors"},
      {"\"frozen\": [", "\"frozen\": [], \"x\": [", "unknown key 'x'"},
      {"\"bytes\": 100", "\"bytes\": 18446744073709551615", "'bytes' must be a whole number"},
      {"\"bytes\": 100", "\"bytes\": 1e30", "'bytes' must be a whole number"},
      {"\"bytes\": 100", "\"bytes\": -100", "'bytes' must be a whole number"},
      {"\"bytes\": 100", "\"bytes\": 0", "'bytes' must be a whole number"},
      {"\"bytes\": 100", "\"bytes\": \"100\"", "'bytes' must be a whole number"},
      {"\"bytes\": 100,", "", "a file has no 'bytes'"},
      {"\"bytes\": 100", "\"bytes\": 100, \"bytes\": 100", "twice"},
      {"\"bytes\": 100", "\"bytes\": 100, \"x\": 1", "unknown key 'x'"},
      {"\"steps\": 3", "\"steps\": 9007199254740993", "'steps' must be"},
      {"\"steps\": 3", "\"steps\": 3.5", "'steps' must be"},
      {"\"steps\": 3", "\"steps\": true", "'steps' must be"},
      {"\"replicate\": 2", "\"replicate\": 3", "there are 2 files; 3 x 1 ranks"},
      {"\"replicate\": 2", "\"replicate\": 0", "'replicate' must be"},
      {"\"shard\": 1", "\"shard\": 4294967297", "'shard' must be"},
      {"\"a.weight\"", "\"\"", "name is empty"},
      {"\"a.weight\"", "\"b/c@d\"", "is there twice"},
      {"\"a.weight\"", "7", "must be a string"},
      {"\"trainable\": true", "\"trainable\": 1", "must be true or false"},
      {"4,\n", "4611686018427387904, 4611686018427387904,\n", "overflow"},
      {"4,\n", "-4,\n", "a shape that is none"},
      {"4,\n", "[4],\n", "a shape that is none"},
      {"\"exp_avg\"", "\"exp_avg_sq\"", "twice or can't be one"},
      {"\"exp_avg\"", "\"weight\"", "twice or can't be one"},
      {"\"exp_avg\"", "\"a/b\"", "twice or can't be one"},
      {"\"states\": [", "\"states\": {}, \"x\": [", "unknown key 'x'"},
      {"\"caller\"", "\"Caller\"", "has no 'caller'"},
      {"\"step\": 3", "\"step\": 3, \"step\": 4", "twice"},
      {"\"step\": 3", "\"step\": [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[3]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]",
       "nests deeper"},
      {"\"step\": 3", "\"step\": nan", "not valid JSON"},
      {"Zoë", "Zo\xeb", "not UTF-8"},
      {"\"format\"", "\xEF\xBB\xBF\"format\"", "not valid JSON"},
  };
  for (const auto& c : cases)
    EXPECT_NE(fault(with(c.from, c.to)).find(c.message), std::string::npos)
        << c.to << ": " << fault(with(c.from, c.to));
  EXPECT_NE(fault(sealed("[1")).find("not valid JSON"), std::string::npos);
  EXPECT_NE(fault(sealed("{\"a\": 1")).find("has no 'format'"), std::string::npos);
  EXPECT_NE(fault("").find("doesn't end with a checksum"), std::string::npos);
}

TEST(Manifest, IsBoundedInSizeAndWidth) {
  EXPECT_NE(fault(std::string(kMaxManifest + 1, ' ')).find("at most"), std::string::npos);
  std::string wide;
  for (size_t i = 0; i <= kMaxKeys; ++i) wide += text("\"k", i, "\": 0, ");
  EXPECT_NE(fault(with("\"step\": 3", wide + "\"step\": 3")).find("more than 256 keys"), std::string::npos);
  auto manifest = sample();
  for (size_t i = 0; i <= kMaxKeys; ++i) manifest.caller[text("k", i)] = 0;
  EXPECT_THROW(print_manifest(manifest), UsageError) << "never written, either";
}

TEST(Manifest, PrintsOnlyWhatComesBack) {
  auto manifest = sample();
  manifest.caller["loss"] = std::numeric_limits<double>::infinity();
  EXPECT_THROW(print_manifest(manifest), UsageError);
  manifest = sample();
  manifest.caller["name"] = "\xff";
  EXPECT_ANY_THROW(print_manifest(manifest));
  manifest = sample();
  manifest.caller["big"] = 18446744073709551615u;
  manifest.caller["tiny"] = 5e-324;
  EXPECT_EQ(parse_manifest(print_manifest(manifest)), manifest);
}

}  // namespace
}  // namespace shade::checkpoint
