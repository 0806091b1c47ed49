#include "shade/comm/world.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <algorithm>
#include <array>
#include <csignal>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <thread>

#include "shade/base/log.h"
#include "shade/base/strings.h"
#include "shade/comm/job/job_secret.h"
#include "shade/comm/job/sealed_store.h"
#include "shade/comm/job/session.h"
#include "shade/comm/job/watchdog.h"
#include "shade/comm/socket.h"
#include "shade/comm/store.h"

namespace shade::comm {

void CommConfig::declare(Fields& fields) {
  fields.add("backend", backend, {.help = "transport between ranks; auto: nccl where there are GPUs, else gloo"});
  fields.add("peer_timeout", peer_timeout,
             {.help = "a stopped or dead rank ends the job within this time", .min = 1, .max = 86400});
  fields.add("rendezvous_timeout", rendezvous_timeout,
             {.help = "how long ranks wait for each other at the start", .min = 1, .max = 86400});
  fields.add(
      "stall_timeout", stall_timeout,
      {.help = "all ranks alive, all waiting for each other: the job ends after this time", .min = 1, .max = 86400});
  fields.add("interface", interface,
             {.help = "network interface between hosts, e.g. eth0; empty: the one that leads to rank 0"});
  fields.add("segment", segment,
             {.help = "piece in which a reduction is received while the previous one is added", .min = 4096});
}

struct World::State {
  Place place;
  CommConfig config;
  BackendKind backend = BackendKind::gloo;
  c10::Device device = c10::kCPU;
  std::optional<Secret> secret;
  c10::intrusive_ptr<c10d::Store> store;
  std::string session;
  std::string address = "127.0.0.1";
  std::shared_ptr<Activity> activity = std::make_shared<Activity>();
  std::shared_ptr<TrafficLog> traffic = std::make_shared<TrafficLog>();
  std::shared_ptr<Journal> journal;  // simulated
  CostModel cost;

  std::mutex mutex;
  std::set<std::string> names;
  std::vector<Group> groups;
  std::exception_ptr lost;

  std::unique_ptr<Watchdog> watchdog;
  bool ended = false;

  void lose(const Loss& loss) {
    const std::lock_guard lock(mutex);
    lost = loss.error();
    for (const auto& group : groups) group.abort(lost);
  }

  std::optional<SessionHost> session_host;  // rank 0's, while not everybody is in

  std::string did_not_come(std::span<const int> missing) const;
  std::string join_session(const c10::intrusive_ptr<c10d::Store>& store);
  std::string full_key(const std::string& key) const { return text("shade/", session, "/", key); }
  std::vector<std::vector<uint8_t>> all_values(const std::vector<std::string>& keys);
  void meet();
  void say_farewell();

  bool hosts_store() const { return place.rank == 0 && !place.store_hosted && place.store_port != 0; }
  // Others have a moment to read from our store why it will be gone.
  void linger() const {
    if (hosts_store()) std::this_thread::sleep_for(config.peer_timeout / 10);
  }
};

namespace {

BackendKind choose(BackendKind asked) {
  if (asked == BackendKind::nccl) require_nccl();  // one rank makes no group that would notice
  if (asked != BackendKind::automatic) return asked;
  return nccl_devices() > 0 ? BackendKind::nccl : BackendKind::gloo;
}

// Gloo writes to sockets whose other end may have gone: that must be an error of the operation, not the end of the
// process. A handler that the program has set itself is left alone.
void ignore_broken_pipes() {
  struct sigaction present{};
  if (::sigaction(SIGPIPE, nullptr, &present) == 0 && present.sa_handler == SIG_DFL) std::signal(SIGPIPE, SIG_IGN);
}

constexpr std::chrono::milliseconds kLook{5};  // how often those who wait for others look

std::string place_key(int rank) { return text("place/", rank); }

}  // namespace

std::string World::State::did_not_come(std::span<const int> missing) const {
  return text(missing.size() == 1 ? "rank " : "ranks ", ranges(missing), " of ", place.size,
              " did not come to the rendezvous at ", place.store_host, ":", place.store_port, " within ",
              to_string(config.rendezvous_timeout), " (world stated by ", place.origin,
              "; --comm.rendezvous-timeout changes the limit)");
}

// The name under which this start of the world keeps its things in the store.
std::string World::State::join_session(const c10::intrusive_ptr<c10d::Store>& given) {
  if (!place.store_reused) return kOnlySession;
  if (place.rank == 0) return session_host.emplace(given, place.size).session();
  SessionClient client(given, place.rank);
  for (const auto deadline = Clock::now() + config.rendezvous_timeout; Clock::now() < deadline;) {
    if (const auto name = client.session()) return *name;
    std::this_thread::sleep_for(kLook);
  }
  throw CommError(did_not_come(std::array{0}));
}

// One value of each rank. Who has another secret is named.
std::vector<std::vector<uint8_t>> World::State::all_values(const std::vector<std::string>& keys) {
  try {
    return store->multiGet(keys);
  } catch (const SealBroken&) {
    std::vector<int> others;
    for (size_t rank = 0; rank < keys.size(); ++rank) {
      try {
        store->get(keys[rank]);
      } catch (const SealBroken&) {
        others.push_back(static_cast<int>(rank));
      }
    }
    if (others.empty()) throw;
    throw other_secret(others, place.rank, full_key(keys[static_cast<size_t>(others.front())]));
  }
}

// Everybody says for which world it was started; everybody reads everybody's.
void World::State::meet() {
  const auto mine = std::to_string(place.size);
  store->set(place_key(place.rank), mine);
  std::vector<std::string> keys;
  for (int rank = 0; rank < place.size; ++rank) keys.push_back(place_key(rank));

  const auto deadline = Clock::now() + config.rendezvous_timeout;
  while (true) {
    {
      const std::lock_guard lock(mutex);
      if (lost) std::rethrow_exception(lost);
    }
    if (session_host) session_host->answer();
    if (store->check(keys)) break;
    if (Clock::now() > deadline) {
      if (!store->check({place_key(place.rank)})) throw SealBroken(full_key(place_key(place.rank)), "was deleted");
      std::vector<int> missing;
      for (int rank = 0; rank < place.size; ++rank)
        if (!store->check({place_key(rank)})) missing.push_back(rank);
      throw CommError(did_not_come(missing));
    }
    std::this_thread::sleep_for(kLook);
  }
  session_host.reset();
  const auto values = all_values(keys);
  for (int rank = 0; rank < place.size; ++rank) {
    const auto& value = values[static_cast<size_t>(rank)];
    const std::string theirs(value.begin(), value.end());
    if (theirs != mine)
      throw CommError(text("rank ", rank, " was started for a world of ", theirs, " ranks, rank ", place.rank,
                           " one of ", mine, "; start all ranks with the same world size"));
  }
}

// Whoever hosts the store leaves last: the others' goodbyes go through it.
void World::State::say_farewell() {
  store->set(text("farewell/", place.rank), std::string("1"));
  if (!hosts_store()) return;
  std::vector<std::string> keys;
  for (int rank = 0; rank < place.size; ++rank) keys.push_back(text("farewell/", rank));
  const auto deadline = Clock::now() + config.peer_timeout;
  while (!store->check(keys) && Clock::now() < deadline) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  if (store->check(keys)) store->multiGet(keys);  // a forged goodbye would take the store from those who still work
}

World::World(std::unique_ptr<State> state) : state_(std::move(state)) {}
World::World(World&&) noexcept = default;
World& World::operator=(World&&) noexcept = default;

World World::connect(const Place& place, const CommConfig& config, Options options) {
  if (place.size == 1) return connect(place, config, {}, std::move(options));
  if (!options.secret) options.secret = job_secret(place);  // before anything is opened
  const bool hosts = place.rank == 0 && !place.store_hosted;
  auto store = hosts ? host_store(place.store_host, place.store_port, config.rendezvous_timeout).store
                     : join_store(place.store_host, place.store_port, config.rendezvous_timeout);
  return connect(place, config, std::move(store), std::move(options));
}

World World::connect(const Place& place, const CommConfig& config, c10::intrusive_ptr<c10d::Store> store,
                     Options options) {
  auto state = std::make_unique<State>();
  state->place = place;
  state->config = config;
  state->backend = choose(config.backend);
  if (state->backend == BackendKind::nccl) state->device = nccl_device(place.local_rank);
  SHADE_REQUIRE(state->backend != BackendKind::simulated,
                "a simulated world has no ranks to connect; use World::simulated");
  if (place.size == 1) return World(std::move(state));
  ignore_broken_pipes();

  if (!place.single_host()) {
    state->address = config.interface.empty() ? local_address_towards(place.store_host, place.store_port)
                                              : address_of_interface(config.interface);
  }
  state->secret = options.secret ? *options.secret : job_secret(place);
  store = c10::make_intrusive<SealedStore>(std::move(store), *state->secret);
  try {
    state->session = state->join_session(store);
  } catch (const CommError&) {
    state->linger();
    throw;
  }
  auto* const shared = state.get();
  if (options.watchdog) {
    state->watchdog =
        std::make_unique<Watchdog>(store->clone(), state->activity,
                                   WatchdogOptions{.rank = place.rank,
                                                   .size = place.size,
                                                   .session = state->session,
                                                   .peer_timeout = config.peer_timeout,
                                                   .stall_timeout = config.stall_timeout,
                                                   .store_host = text(place.store_host, ":", place.store_port),
                                                   .lost = [shared](const Loss& loss) { shared->lose(loss); },
                                                   .overdue = options.overdue});
  }
  state->store = c10::make_intrusive<c10d::PrefixStore>(text("shade/", state->session), std::move(store));
  World world(std::move(state));
  try {
    world.state_->meet();
  } catch (...) {
    world.fail(std::current_exception());
    throw;
  }
  world.state_->activity->joined();
  if (world.state_->watchdog) world.state_->watchdog->all_joined();
  log::debug("rank ", place.rank, " of ", place.size, " joined (", place.origin, ")");
  return world;
}

World World::simulated(int rank, int size, CostModel cost) {
  auto state = std::make_unique<State>();
  state->place.rank = rank;
  state->place.size = size;
  state->place.origin = "simulated";
  state->backend = BackendKind::simulated;
  state->journal = std::make_shared<Journal>();
  state->cost = cost;
  state->secret = Secret::of(Secret::new_words());  // nothing leaves this process
  return World(std::move(state));
}

World::~World() {
  if (state_ && !state_->ended) fail(std::make_exception_ptr(CommError("ended without saying why")));
}

const Place& World::place() const { return state_->place; }
BackendKind World::backend() const { return state_->backend; }
c10::Device World::device() const { return state_->device; }
const CommConfig& World::config() const { return state_->config; }
TrafficLog& World::traffic() { return *state_->traffic; }

Journal& World::journal() {
  SHADE_REQUIRE(state_->journal, "only a simulated world keeps a journal");
  return *state_->journal;
}

Group World::group(const std::string& name, std::vector<int> ranks, Algorithms algorithms) {
  auto& my = *state_;
  if (ranks.empty()) {
    ranks.resize(static_cast<size_t>(my.place.size));
    std::iota(ranks.begin(), ranks.end(), 0);
  }
  SHADE_REQUIRE(std::is_sorted(ranks.begin(), ranks.end()) && ranks.front() >= 0 && ranks.back() < my.place.size,
                "group ", name, ": ranks ", ranges(ranks), " are not sorted ranks of a world of ", my.place.size);
  const auto self = std::find(ranks.begin(), ranks.end(), my.place.rank);
  SHADE_REQUIRE(self != ranks.end(), "group ", name, " of ranks ", ranges(ranks), " doesn't contain this rank, ",
                my.place.rank);
  {
    const std::lock_guard lock(my.mutex);
    SHADE_REQUIRE(my.names.insert(name).second, "there is a group '", name, "' already; names are unique in a world");
  }
  const int rank = static_cast<int>(self - ranks.begin());
  const int size = static_cast<int>(ranks.size());
  const BackendOptions options{.name = name,
                               .address = my.address,
                               .timeout = my.config.rendezvous_timeout,
                               .limit = my.config.stall_timeout,
                               .device = my.device};

  std::unique_ptr<Transport> transport;
  if (my.backend == BackendKind::simulated) {
    transport = make_native(make_simulated(rank, size, {.cost = my.cost, .journal = my.journal, .global_ranks = ranks}),
                            rank, size);
  } else if (size == 1) {
    transport = make_exchange({}, rank, ranks, name, my.config.segment);
  } else {
    my.activity->begin_wait("connecting group " + name);
    // The members are part of the key: two groups of one name on different ranks (mesh rows) must not meet.
    auto store = c10::make_intrusive<c10d::PrefixStore>(text("group/", name, "/", ranges(ranks)), my.store);
    auto backend = my.backend == BackendKind::nccl ? make_nccl(std::move(store), rank, size, options)
                                                   : make_gloo(std::move(store), rank, size, options);
    my.activity->end_wait();
    const bool native =
        algorithms == Algorithms::native || (algorithms == Algorithms::best && my.backend == BackendKind::nccl);
    transport = native ? make_native(std::move(backend), rank, size)
                       : make_exchange(std::move(backend), rank, ranks, name, my.config.segment);
  }
  std::shared_ptr<Seals> seals;
  if (my.secret)
    seals = std::make_shared<Seals>(my.secret->derived(my.full_key(text("group/", name, "/", ranges(ranks)))));
  Group group({.rank = rank,
               .global_ranks = std::move(ranks),
               .name = name,
               .transport = std::move(transport),
               .activity = my.activity,
               .traffic = my.traffic,
               .seals = std::move(seals)});
  const std::lock_guard lock(my.mutex);
  if (my.lost) std::rethrow_exception(my.lost);
  my.groups.push_back(group);
  return group;
}

void World::leave() {
  auto& my = *state_;
  my.ended = true;
  if (my.place.size == 1 || !my.store) return;
  if (my.watchdog) my.watchdog->leave();
  my.say_farewell();
}

void World::fail(std::exception_ptr reason) {
  auto& my = *state_;
  if (my.ended) return;
  my.ended = true;
  if (my.watchdog) {
    try {
      std::rethrow_exception(reason);
    } catch (const PeerLost& fault) {
      my.watchdog->lose(fault.what());
    } catch (const c10::Error& fault) {
      my.watchdog->fail(fault.what_without_backtrace());
    } catch (const std::exception& fault) {
      my.watchdog->fail(fault.what());
    }
  }
  {
    const std::lock_guard lock(my.mutex);
    for (const auto& group : my.groups) group.abort(reason);
  }
  my.linger();
}

}  // namespace shade::comm
