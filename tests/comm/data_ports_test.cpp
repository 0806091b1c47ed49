// Somebody else reaches the ports on which ranks wait for each other's tensors, while a private job starts
// (intruder.cpp says in which manners). The job says so and finishes with the weights that it has without an intruder,
// who reads nothing but what is random in a handshake.
//
// SHADE_STARTS is the number of starts, SHADE_SEED the first one's seed.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <thread>

#include "shade/base/strings.h"
#include "shade/base/temporary_folder.h"
#include "tests/comm/hosts.h"
#include "tests/comm/private_job.h"
#include "tests/comm/weight_pieces.h"
#include "tests/support/process.h"

namespace shade::comm {
namespace {

constexpr size_t kHandshake = 65;  // what a rank answers to a greeting
constexpr const char* kReason = "does not have the job secret";
const Seconds kSoon{10};

enum class From { user, host };  // another user of the ranks' host; another host that reaches it

struct Start {
  uint64_t seed = 0;
  int ranks = 2;
  From from = From::user;
};

struct Seen {
  std::vector<std::string> statuses;
  std::string output;
  Seconds took{0};
  size_t connections = 0, beyond = 0, pieces = 0;  // the intruder's; bytes read beyond handshakes; pieces of weights
  bool same_weights = false;

  bool finished() const {
    return !statuses.empty() && std::all_of(statuses.begin(), statuses.end(), [](auto& s) { return s == "0"; });
  }
  bool ended_with_reason() const {
    return std::find(statuses.begin(), statuses.end(), "1") != statuses.end() && took < kSoon &&
           output.find(kReason) != std::string::npos;
  }
  bool good() const { return finished() && same_weights && beyond == 0 && pieces == 0; }
};

uint64_t number_in_environment(const char* name, uint64_t otherwise) {
  const char* given = std::getenv(name);
  return given != nullptr ? static_cast<uint64_t>(parse_integer(given).value()) : otherwise;
}

std::string intruder() { return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "intruder").string(); }

// `when` is called once the job's processes have been started.
test::Outcome run_job(
    const std::vector<const test::Host*>& hosts, const Start& start, const std::string& options,
    const std::function<void()>& when = [] {}) {
  const auto words =
      start.from == From::user
          ? hosts.front()->on(text(test::shade_binary(), " ", options, " --ranks ", start.ranks, "; echo statuses $?"))
          : test::start_ranks(hosts, options);
  const auto begin = Clock::now();
  test::Running job({"sh", "-c", words}, {.limit = Seconds(60)});
  when();
  auto out = job.finish();
  out.took = Clock::now() - begin;
  return out;
}

class DataPorts {
 public:
  DataPorts() : folder_("shade-data-ports") {
    const test::Host host;
    const auto run = [&](const std::string& name, int ranks, const std::string& options = "") {
      const auto seen = run_job({&host}, {.ranks = ranks}, test::private_run(folder_ / name, options));
      SHADE_REQUIRE(seen.output.ends_with("statuses 0\n"), "without an intruder: ", seen.output);
      pieces_.add(folder_ / name);
      return test::weight_files(folder_ / name);
    };
    run("initial", 2, "--steps 1 --lr 0");
    for (const int ranks : {2, 4}) undisturbed_[ranks] = run(text("undisturbed", ranks), ranks);
  }

  Seen run(const Start& start) const {
    const auto name = text(start.seed, "_", start.ranks);
    const auto folder = folder_.path() / name, read = folder_.path() / (name + ".read");
    const test::Host a, b, elsewhere;
    std::vector<const test::Host*> hosts(static_cast<size_t>(start.ranks), &a);
    constexpr int kFirst = 40000, kLast = 40099;
    std::vector<std::string> to;
    if (start.from == From::host) {
      test::lay_cable(a, "10.77.0.1/24", b, "10.77.0.2/24");
      test::lay_cable(a, "10.78.0.1/24", elsewhere, "10.78.0.2/24");
      test::run({"ip", "-n", elsewhere.name(), "route", "add", "10.77.0.0/24", "via", "10.78.0.1"});
      a.choose_ports_from(kFirst, kLast);
      std::fill(hosts.begin() + start.ranks / 2, hosts.end(), &b);
      to = {"10.77.0.1", std::to_string(kFirst), std::to_string(kLast)};
    }
    std::vector<std::string> command{"ip",       "netns",
                                     "exec",     start.from == From::user ? a.name() : elsewhere.name(),
                                     intruder(), std::to_string(start.seed),
                                     "60",       read.string()};
    command.insert(command.end(), to.begin(), to.end());

    std::mt19937_64 random(start.seed);
    const auto delay = Seconds(random() % 2 == 0 ? 0 : std::uniform_real_distribution(0.0, 1.5)(random));
    std::optional<test::Running> other;
    const auto job = run_job(hosts, start, test::private_run(folder), [&] {
      std::this_thread::sleep_for(delay);
      other.emplace(command);
    });
    other->signal(SIGTERM);
    const auto heard = other->finish();

    Seen seen{.output = job.output, .took = job.took};
    const auto at = job.output.rfind("statuses ");
    if (at != std::string::npos) seen.statuses = split(trim(std::string_view(job.output).substr(at + 9)), ' ');
    for (const auto& line : split(heard.output, '\n')) {
      const auto fields = nlohmann::json::parse(line, nullptr, false);
      if (!fields.contains("manner")) continue;
      ++seen.connections;
      const auto bytes = fields.at("read").get<size_t>();
      seen.beyond += bytes - std::min(bytes, kHandshake);
    }
    std::ifstream in(read, std::ios::binary);
    seen.pieces = pieces_.found_in(std::string(std::istreambuf_iterator<char>(in), {}));
    seen.same_weights = test::weight_files(folder) == undisturbed_.at(start.ranks);
    std::filesystem::remove_all(folder);
    return seen;
  }

 private:
  TemporaryFolder folder_;
  std::map<int, std::map<std::string, std::string>> undisturbed_;  // weights by number of ranks
  test::WeightPieces pieces_;                                      // of all runs, before and after each step
};

struct Row {
  size_t starts = 0, finished = 0, ended = 0, connections = 0, beyond = 0, pieces = 0, changed = 0;
  Seconds slowest{0};
};

// Ended: within ten seconds, with the reason. Bytes are those beyond handshakes; weights in pieces of 16 bytes;
// changed: runs that finished with other weights.
void print(const std::map<std::pair<int, From>, Row>& rows) {
  std::printf("%5s  %-10s %6s %8s %6s %11s %12s %12s %7s %7s\n", "ranks", "intruder", "starts", "finished", "ended",
              "connections", "bytes read", "weights read", "changed", "slowest");
  for (const auto& [kind, row] : rows)
    std::printf("%5d  %-10s %6zu %8zu %6zu %11zu %12zu %12zu %7zu %6.1fs\n", kind.first,
                kind.second == From::user ? "other user" : "other host", row.starts, row.finished, row.ended,
                row.connections, row.beyond, row.pieces, row.changed, row.slowest.count());
}

TEST(DataPorts, AnIntruderGetsNothingAndChangesNothing) {
  if (!test::can_make_hosts()) GTEST_SKIP() << "network namespaces cannot be made here";
  const auto starts = number_in_environment("SHADE_STARTS", 10);
  const auto first = number_in_environment("SHADE_SEED", std::random_device()() % 1'000'000);
  std::printf("SHADE_SEED=%zu\n", first);
  const DataPorts ports;
  std::atomic<uint64_t> next = 0;
  std::mutex mutex;
  std::map<std::pair<int, From>, Row> rows;
  size_t good = 0, noticed = 0;
  const auto some = [&] {
    for (uint64_t i = 0; (i = next++) < starts;) {
      const Start start{
          .seed = first + i, .ranks = i % 2 == 0 ? 2 : 4, .from = i / 2 % 2 == 0 ? From::user : From::host};
      const auto seen = ports.run(start);
      const std::lock_guard lock(mutex);
      auto& row = rows[{start.ranks, start.from}];
      ++row.starts;
      row.finished += seen.finished();
      row.ended += !seen.finished() && seen.ended_with_reason();
      row.connections += seen.connections;
      row.beyond += seen.beyond;
      row.pieces += seen.pieces;
      row.changed += seen.finished() && !seen.same_weights;
      row.slowest = std::max(row.slowest, seen.took);
      good += seen.good();
      noticed += seen.output.find(kReason) != std::string::npos;
      EXPECT_TRUE(seen.good()) << "seed " << start.seed << ", " << start.ranks << " ranks, took " << seen.took.count()
                               << " s; the intruder read " << seen.beyond << " bytes beyond handshakes and "
                               << seen.pieces << " pieces of weights\n"
                               << seen.output;
    }
  };
  std::vector<std::future<void>> workers;
  for (int i = 0; i < 3; ++i) workers.push_back(std::async(std::launch::async, some));
  for (auto& worker : workers) worker.get();
  print(rows);
  std::printf("%zu of %zu starts ended as they should; %zu jobs noticed the intruder\n", good, starts, noticed);
  EXPECT_GT(noticed, starts / 4) << "the intruder hardly reached a port: this run shows little";
}

}  // namespace
}  // namespace shade::comm
