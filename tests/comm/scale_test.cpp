// A large world's control plane with nothing left out but the work: one real store, W real ranks with their watchdogs.
// Rank 0, which hosts the store, is this process; the others are threads of a few processes, which this very program
// runs as when SHADE_SCALE says which ranks they are. They meet, beat for a while without a false alarm, and hear of
// one that is killed.
#include <c10/util/Logging.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <atomic>
#include <cinttypes>
#include <condition_variable>
#include <filesystem>
#include <thread>

#include "shade/base/json.h"
#include "shade/base/strings.h"
#include "shade/comm/socket.h"
#include "shade/comm/store.h"
#include "shade/comm/world.h"
#include "tests/support/process.h"

namespace shade::comm {
namespace {

constexpr const char* kVariable = "SHADE_SCALE";
double now_s() { return Seconds(Clock::now().time_since_epoch()).count(); }  // the same clock in all processes

// Counts what is asked of a store. A get is two requests: TCPStore waits for the key first.
class Counting final : public c10d::Store {
 public:
  Counting(c10::intrusive_ptr<c10d::Store> store, std::atomic<int64_t>& requests)
      : store_(std::move(store)), requests_(&requests) {}

  c10::intrusive_ptr<c10d::Store> clone() override {
    return c10::make_intrusive<Counting>(store_->clone(), *requests_);
  }
  using c10d::Store::set;
  void set(const std::string& key, const std::vector<uint8_t>& value) override { counted(1).set(key, value); }
  std::vector<uint8_t> get(const std::string& key) override { return counted(2).get(key); }
  std::vector<std::vector<uint8_t>> multiGet(const std::vector<std::string>& keys) override {
    return counted(2).multiGet(keys);
  }
  using c10d::Store::compareSet;
  std::vector<uint8_t> compareSet(const std::string& key, const std::vector<uint8_t>& expected,
                                  const std::vector<uint8_t>& value) override {
    return counted(1).compareSet(key, expected, value);
  }
  bool check(const std::vector<std::string>& keys) override { return counted(1).check(keys); }
  void wait(const std::vector<std::string>& keys) override { counted(1).wait(keys); }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override {
    counted(1).wait(keys, timeout);
  }
  bool deleteKey(const std::string& key) override { return counted(1).deleteKey(key); }
  int64_t getNumKeys() override { return counted(1).getNumKeys(); }
  int64_t add(const std::string& key, int64_t value) override { return counted(1).add(key, value); }
  bool hasExtendedApi() const override { return true; }
  const std::chrono::milliseconds& getTimeout() const noexcept override { return store_->getTimeout(); }
  void multiSet(const std::vector<std::string>& keys, const std::vector<std::vector<uint8_t>>& values) override {
    counted(1).multiSet(keys, values);
  }
  void setTimeout(const std::chrono::milliseconds& timeout) override { store_->setTimeout(timeout); }

 private:
  c10d::Store& counted(int64_t requests) {
    *requests_ += requests;
    return *store_;
  }

  c10::intrusive_ptr<c10d::Store> store_;
  std::atomic<int64_t>* requests_;
};

struct Ranks {
  int first = 0, count = 0, world = 0, port = 0;
  double peer_timeout = 10;
  std::string secret;

  std::string print() const { return text(first, ' ', count, ' ', world, ' ', port, ' ', peer_timeout, ' ', secret); }
  static Ranks parse(const std::string& words) {
    std::istringstream in(words);
    Ranks out;
    in >> out.first >> out.count >> out.world >> out.port >> out.peer_timeout >> out.secret;
    return out;
  }
};

// What some ranks of one process go through.
class Crowd {
 public:
  explicit Crowd(const Ranks& ranks) : ranks_(ranks) {}

  // All at once; returns when they have met.
  void connect(const std::function<c10::intrusive_ptr<c10d::Store>()>& store) {
    worlds_.resize(static_cast<size_t>(ranks_.count));
    std::vector<std::thread> threads;
    for (int i = 0; i < ranks_.count; ++i)
      threads.emplace_back([&, i] {
        try {
          auto world = World::connect(
              {.rank = ranks_.first + i,
               .size = ranks_.world,
               .local_size = ranks_.world,
               .store_port = static_cast<uint16_t>(ranks_.port),
               .store_reused = true,
               .origin = "scale_test"},
              {.backend = BackendKind::gloo,
               .peer_timeout = Seconds(ranks_.peer_timeout),
               .rendezvous_timeout = Seconds(240)},
              c10::make_intrusive<Counting>(store(), requests_),
              {.overdue = [this](const Loss& loss) { lost(loss.message); }, .secret = Secret::of(ranks_.secret)});
          const std::lock_guard lock(mutex_);
          worlds_[static_cast<size_t>(i)].emplace(std::move(world));
        } catch (const std::exception& fault) {
          const std::lock_guard lock(mutex_);
          faults_.push_back(fault.what());
        }
      });
    for (auto& thread : threads) thread.join();
    met_ = now_s();
    asked_until_met_ = requests_;
  }

  bool all_lost_within(Seconds time) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, time, [this] { return told_ == ranks_.count; });
  }

  Json report() {
    const std::lock_guard lock(mutex_);
    return {{"told", told_},
            {"first_told", first_told_},
            {"last_told", last_told_},
            {"message", message_},
            {"faults", faults_},
            {"met", met_},
            {"requests_until_met", asked_until_met_},
            {"requests_until_told", asked_until_told_}};
  }
  int64_t requests() const { return requests_; }

 private:
  void lost(const std::string& message) {
    const std::lock_guard lock(mutex_);
    if (told_++ == 0) {
      first_told_ = now_s() - 1;  // a second after the loss
      message_ = message;
      asked_until_told_ = requests_;
    }
    last_told_ = now_s() - 1;
    changed_.notify_all();
  }

  Ranks ranks_;
  std::atomic<int64_t> requests_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::optional<World>> worlds_;
  std::vector<std::string> faults_;
  std::string message_;
  int told_ = 0;
  double met_ = 0, first_told_ = 0, last_told_ = 0;
  int64_t asked_until_met_ = 0, asked_until_told_ = 0;
};

// The ranks of another process: until they are lost, then says what they saw.
int run_crowd(const Ranks& ranks) {
  FLAGS_caffe2_log_level = c10::GLOG_FATAL;
  Crowd crowd(ranks);
  const auto store = [&] { return join_store("127.0.0.1", static_cast<uint16_t>(ranks.port), Seconds(240)); };
  const auto signals = store();
  signals->set(text("ready/", ranks.first), std::string("1"));
  signals->wait({"go"});
  crowd.connect(store);
  std::printf("met\n");
  std::fflush(stdout);
  crowd.all_lost_within(Seconds(300));
  std::printf("REPORT %s\n", crowd.report().dump().c_str());
  std::fflush(stdout);
  std::_Exit(0);  // thousands of worlds would each say goodbye
}

double cpu_s() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

// c10d asks the name server for the name of every peer, and warns if there is none: not what is measured here.
const std::map<std::string, std::string> kQuiet{{"RES_OPTIONS", "attempts:0"}};

std::unique_ptr<test::Running> start(const Ranks& ranks) {
  auto environment = kQuiet;
  environment[kVariable] = ranks.print();
  const auto program = std::filesystem::read_symlink("/proc/self/exe").string();
  return std::make_unique<test::Running>(
      std::vector<std::string>{"sh", "-c", text("ulimit -s 512; exec ", program, " --gtest_filter=Scale.Crowd")},
      test::RunOptions{.environment = std::move(environment), .limit = Seconds(60)});
}

void live_and_die(int world, Seconds peer_timeout, Seconds steady) {
  for (const auto& [name, value] : kQuiet) ::setenv(name.c_str(), value.c_str(), 1);
  const auto secret = Secret::new_digits();
  const auto hosted = host_store("127.0.0.1", 0, Seconds(240));
  const auto ranks = [&](int first, int count) {
    return Ranks{first, count, world, hosted.port, peer_timeout.count(), secret};
  };
  constexpr int kTogether = 2048;
  std::vector<std::unique_ptr<test::Running>> others;
  std::vector<std::string> ready{text("ready/", world - 1)};
  for (int first = 1; first < world - 1; first += kTogether) {
    others.push_back(start(ranks(first, std::min(kTogether, world - 1 - first))));
    ready.push_back(text("ready/", first));
  }
  auto victim = start(ranks(world - 1, 1));
  hosted.store->wait(ready);
  const auto begin = now_s();
  hosted.store->set("go", std::string("1"));

  Crowd zero(ranks(0, 1));
  const double cpu_before_meeting = cpu_s();
  zero.connect([&] { return hosted.store; });
  const double met = now_s(), cpu_met = cpu_s();
  for (const auto& other : others) ASSERT_TRUE(other->says("met\n", Seconds(120))) << other->output();
  ASSERT_TRUE(victim->says("met\n")) << victim->output();

  const double cpu_begin = cpu_s(), steady_begin = now_s();
  const int64_t own_begin = zero.requests();
  EXPECT_FALSE(zero.all_lost_within(steady)) << zero.report().dump();
  const double took = now_s() - steady_begin, cpu = cpu_s() - cpu_begin;
  const int64_t own = zero.requests() - own_begin;

  const double killed = now_s();
  victim->signal(SIGKILL);
  EXPECT_TRUE(zero.all_lost_within(2 * peer_timeout));
  auto seen = zero.report();
  const double noticed = seen["first_told"];
  double last = noticed;
  double asked_to_meet = seen["requests_until_met"], rate = static_cast<double>(own) / took;
  EXPECT_TRUE(seen["message"].get<std::string>().starts_with(
      text("rank ", world - 1, " is stopped or dead: no sign of life for ", to_string(0.6 * peer_timeout),
           ". Where the ranks were:")))
      << seen["message"].get<std::string>().substr(0, 400);
  EXPECT_GT(seen["first_told"].get<double>(), killed) << "a false alarm";
  for (const auto& other : others) {
    const auto outcome = other->finish();
    const auto at = outcome.output.find("REPORT ");
    ASSERT_NE(at, std::string::npos) << outcome.output.substr(0, 1000);
    seen = Json::parse(outcome.output.substr(at + 7));
    EXPECT_EQ(seen["faults"].size(), 0u) << seen["faults"][0];
    EXPECT_GT(seen["first_told"].get<double>(), killed) << seen["message"];
    last = std::max(last, seen["last_told"].get<double>());
    asked_to_meet += seen["requests_until_met"].get<double>();
    rate += (seen["requests_until_told"].get<double>() - seen["requests_until_met"].get<double>()) /
            (seen["first_told"].get<double>() - seen["met"].get<double>());
  }
  EXPECT_LT(last - killed, peer_timeout.count()) << "the last rank heard of it too late";
  std::printf("%d ranks on this machine met in %.1f s, with %.1f requests a rank and %.2f s of rank 0's CPU\n", world,
              met - begin, asked_to_meet / world, cpu_met - cpu_before_meeting);
  std::printf("  they beat with %.0f requests a second; rank 0 and the store use %.1f %% of a core\n", rate,
              100 * cpu / took);
  std::printf("  rank 0 missed a killed rank after %.1f s, and all knew of it after %.1f s (limit %.0f s)\n",
              noticed - killed, last - killed, peer_timeout.count());
}

TEST(Scale, Crowd) {
  const char* words = std::getenv(kVariable);
  if (words == nullptr) GTEST_SKIP() << "for processes that other tests start";
  run_crowd(Ranks::parse(words));
}

TEST(Scale, W64) { live_and_die(64, Seconds(10), Seconds(3)); }
TEST(Scale, W2048) { live_and_die(2048, Seconds(10), Seconds(20)); }
TEST(Scale, W8192) { live_and_die(8192, Seconds(30), Seconds(30)); }

}  // namespace
}  // namespace shade::comm
