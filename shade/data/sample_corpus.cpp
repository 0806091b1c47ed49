#include "shade/data/sample_corpus.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <span>

#include "shade/base/error.h"
#include "shade/base/json.h"
#include "shade/base/terminal.h"

namespace shade::data {
namespace {

constexpr size_t kTopicWords = 6;
using Words = std::array<const char*, kTopicWords>;

struct Topic {
  const char* name;
  Words people, things, places, deeds, qualities, reasons;
};

// Deeds take a thing and an "s" for one person.
constexpr Topic kTopics[] = {
    {"harbour",
     {"pilot", "sailor", "captain", "diver", "docker", "skipper"},
     {"ferry", "rope", "anchor", "barge", "crane", "lantern"},
     {"at the quay", "behind the breakwater", "near the lighthouse", "in the dry dock", "on the pier", "by the lock"},
     {"moor", "repair", "paint", "load", "tow", "inspect"},
     {"salty", "rusty", "seaworthy", "leaking", "heavy", "tarred"},
     {"the tide is turning", "a storm is coming", "the fog has lifted", "the fleet sails at dawn", "the mast is broken",
      "the cargo is late"}},
    {"kitchen",
     {"cook", "baker", "waiter", "butcher", "apprentice", "guest"},
     {"soup", "pie", "kettle", "oven", "sauce", "cake"},
     {"in the pantry", "on the stove", "under the shelf", "near the sink", "at the long table", "by the hatch"},
     {"season", "warm", "taste", "stir", "serve", "cover"},
     {"salted", "burnt", "fresh", "sweet", "steaming", "crusty"},
     {"dinner begins at seven", "the guests are hungry", "the butter has melted", "the flour is gone",
      "the recipe says so", "the market was closed"}},
    {"garden",
     {"gardener", "neighbour", "botanist", "beekeeper", "child", "visitor"},
     {"rose", "hedge", "pumpkin", "beehive", "apple tree", "lawn"},
     {"behind the greenhouse", "along the wall", "beside the pond", "in the orchard", "under the oak", "near the gate"},
     {"water", "prune", "plant", "measure", "weed", "admire"},
     {"blooming", "thorny", "ripe", "withered", "young", "mossy"},
     {"the frost is over", "the soil is dry", "the bees are busy", "snails came at night", "autumn is near",
      "the seeds are sown"}},
    {"railway",
     {"driver", "conductor", "guard", "porter", "passenger", "mechanic"},
     {"train", "signal", "carriage", "ticket", "engine", "switch"},
     {"on platform four", "in the tunnel", "at the junction", "near the depot", "behind the level crossing",
      "at the terminus"},
     {"check", "stop", "couple", "clean", "move", "follow"},
     {"delayed", "crowded", "electric", "narrow", "punctual", "empty"},
     {"the line is blocked", "the bell has rung", "snow lies on the track", "the timetable changed",
      "the brakes were hot", "the express must pass"}},
    {"orchestra",
     {"violinist", "conductor", "drummer", "singer", "composer", "cellist"},
     {"score", "cello", "trumpet", "melody", "drum", "string"},
     {"on the stage", "in the pit", "behind the curtain", "at the rehearsal", "in the great hall", "near the piano"},
     {"tune", "play", "practise", "copy", "hear", "repeat"},
     {"quiet", "solemn", "brassy", "slow", "famous", "muted"},
     {"the concert is sold out", "the first movement is hard", "the hall has an echo", "the rhythm was lost",
      "the critics are listening", "the encore is unknown"}},
    {"observatory",
     {"astronomer", "student", "engineer", "assistant", "lecturer", "observer"},
     {"telescope", "comet", "mirror", "star chart", "planet", "clock"},
     {"under the dome", "on the summit", "in the archive", "beside the spectrograph", "at the eyepiece",
      "in the control room"},
     {"observe", "photograph", "calibrate", "record", "track", "describe"},
     {"faint", "distant", "polished", "bright", "dusty", "precise"},
     {"the sky is clear", "the moon has set", "the eclipse is tonight", "the data must be sent", "clouds are rising",
      "the night is short"}}};

constexpr const char* kDays[] = {"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"};
constexpr const char* kNumbers[] = {"two", "three", "four", "five"};

// splitmix64: small, and the same everywhere, which std's distributions are not.
class Dice {
 public:
  Dice(uint64_t seed, uint64_t n) : state_(seed * 0x9E3779B97F4A7C15ULL ^ (n + 1) * 0xD1B54A32D192ED03ULL) {}

  uint64_t below(uint64_t n) {
    state_ += 0x9E3779B97F4A7C15ULL;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return ((z ^ (z >> 31)) >> 11) % n;
  }

  // The first of a list is the most likely, as words are.
  uint64_t lower_of_two(uint64_t n) {
    const auto a = below(n), b = below(n);
    return std::min(a, b);
  }
  const char* pick(std::span<const char* const> words) { return words[lower_of_two(words.size())]; }

 private:
  uint64_t state_;
};

std::string with_article(const std::string& noun) {
  return (std::string("aeiou").find(noun[0]) == std::string::npos ? "a " : "an ") + noun;
}

std::string plural(const std::string& noun) {
  if (noun == "child") return "children";
  const bool hiss = noun.ends_with("ch") || noun.ends_with("s");
  if (noun.ends_with("y") && !noun.ends_with("ay")) return noun.substr(0, noun.size() - 1) + "ies";
  return noun + (hiss ? "es" : "s");
}

std::string third_person(const std::string& deed) {
  if (deed.ends_with("y") && !deed.ends_with("ay")) return deed.substr(0, deed.size() - 1) + "ies";
  return deed + (deed.ends_with("s") || deed.ends_with("ch") ? "es" : "s");
}

// Who acts, in this sentence or by pronoun in the next.
struct Actor {
  std::string name, pronoun;
  bool many = false;
};

Actor choose_actor(const Topic& topic, Dice& dice) {
  const auto who = dice.lower_of_two(kTopicWords);
  const std::string person = topic.people[who];
  if (dice.below(3) == 0) return {text(dice.pick(kNumbers), " ", plural(person)), "they", true};
  return {"the " + person, who % 2 == 0 ? "she" : "he", false};
}

std::string sentence(const Topic& topic, const Actor& actor, const std::string& subject, Dice& dice) {
  const std::string deed = dice.pick(topic.deeds);
  const std::string thing = dice.pick(topic.things), quality = dice.pick(topic.qualities);
  std::string out = subject + " " + (actor.many ? deed : third_person(deed)) + " ";
  switch (dice.below(3)) {
    case 0: out += text("the ", quality, " ", thing); break;
    case 1: out += with_article(thing); break;
    default: out += text(actor.many ? "their " : "the ", plural(thing)); break;
  }
  if (dice.below(2) == 0) out += text(" ", dice.pick(topic.places));
  if (dice.below(3) == 0) out += text(" because ", dice.pick(topic.reasons));
  return out;
}

std::string capital(std::string words) {
  words[0] = static_cast<char>(words[0] - 'a' + 'A');
  return words;
}

// Files of one kind, cut at about a mebibyte.
constexpr int64_t kFileBytes = int64_t{1} << 20;
constexpr int64_t kMaxPlain = int64_t{64} << 10;  // a file each: some 250

std::string numbered(const char* stem, int64_t n, const char* ending) {
  const auto digits = std::to_string(n);
  return std::string(stem) + std::string(5 - std::min<size_t>(5, digits.size()), '0') + digits + ending;
}

void write_file(const std::filesystem::path& path, const std::string& content) {
  std::ofstream out(path, std::ios::binary);
  out << content;
  out.close();
  if (!out) throw Error(text("cannot write ", path));
}

}  // namespace

std::vector<std::string> sample_topics() {
  std::vector<std::string> names;
  for (const auto& topic : kTopics) names.emplace_back(topic.name);
  return names;
}

SampleText sample_text(uint64_t seed, uint64_t n) {
  Dice dice(seed, n);
  const auto& topic = kTopics[dice.below(std::size(kTopics))];
  std::string out = text("On ", kDays[dice.below(std::size(kDays))], " ");
  auto actor = choose_actor(topic, dice);
  out += sentence(topic, actor, actor.name, dice) + ".";
  for (auto more = 2 + dice.below(4); more > 0; --more) {
    const bool same = dice.below(2) == 0;
    if (!same) actor = choose_actor(topic, dice);
    out += " " + capital(sentence(topic, actor, same ? actor.pronoun : actor.name, dice)) + ".";
  }
  return {std::move(out), topic.name};
}

void write_sample_corpus(const std::filesystem::path& folder, Bytes size, uint64_t seed) {
  namespace fs = std::filesystem;
  fs::create_directories(folder);
  SHADE_REQUIRE(fs::is_empty(folder), folder, " is not empty; choose a new folder for the sample corpus");
  fs::create_directories(folder / "labelled");
  fs::create_directories(folder / "plain");
  Progress progress(text("writing ", folder.string(), ", MB"), size.count / 1'000'000);
  uint64_t n = 0;
  int64_t written = 0;
  const auto next = [&] {
    auto sample = sample_text(seed, n++);
    written += static_cast<int64_t>(sample.text.size());
    progress.advance_to(written / 1'000'000);
    return sample;
  };
  const auto entry = [&](const SampleText& sample) { return Json{{"text", sample.text}, {"label", sample.topic}}; };

  const auto plain = std::min(size.count / 16, kMaxPlain), array_share = size.count * 3 / 16;
  int64_t left = size.count - plain - array_share;
  for (int64_t file = 0; left > 0; ++file) {
    std::string lines;
    while (left > 0 && static_cast<int64_t>(lines.size()) < kFileBytes) {
      const auto sample = next();
      lines += entry(sample).dump() + "\n";
      left -= static_cast<int64_t>(sample.text.size());
    }
    write_file(folder / "labelled" / numbered("lines_", file, ".jsonl"), lines);
  }
  left = array_share;
  for (int64_t file = 0; left > 0; ++file) {
    std::string array;
    while (left > 0 && static_cast<int64_t>(array.size()) < kFileBytes) {
      const auto sample = next();
      array += (array.empty() ? "[\n" : ",\n") + entry(sample).dump();
      left -= static_cast<int64_t>(sample.text.size());
    }
    write_file(folder / "labelled" / numbered("array_", file, ".json"), array + "\n]\n");
  }
  left = plain;
  for (int64_t file = 0; left > 0; ++file) {
    const auto sample = next();
    write_file(folder / "plain" / numbered("text_", file, ".txt"), sample.text + "\n");
    left -= static_cast<int64_t>(sample.text.size());
  }
}

}  // namespace shade::data
