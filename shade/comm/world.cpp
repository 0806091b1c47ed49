#include "shade/comm/world.h"

#include <ATen/Context.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <thread>

#include "shade/base/effect.h"
#include "shade/base/explain.h"
#include "shade/base/log.h"
#include "shade/base/stop_signals.h"
#include "shade/base/strings.h"
#include "shade/comm/job/file_limit.h"
#include "shade/comm/job/rendezvous.h"
#include "shade/comm/job/sealed_store.h"
#include "shade/comm/job/secret.h"
#include "shade/comm/job/task.h"
#include "shade/comm/job/watchdog.h"
#include "shade/comm/socket.h"
#include "shade/comm/store.h"
#include "shade/comm/wire/connect.h"

namespace shade::comm {

void CommConfig::declare(Fields& fields) {
  fields.add("backend", backend,
             {.help = "communication backend between ranks; auto: nccl if there are GPUs, otherwise gloo",
              .not_offered = {"simulated"}});
  fields.add("peer_timeout", peer_timeout,
             {.help = "time after which a stopped or dead rank ends the job",
              .min = 1,
              .max = 86400,
              .needs = {needs_ranks()}});
  fields.add(
      "rendezvous_timeout", rendezvous_timeout,
      {.help = "time that ranks wait for each other at the start", .min = 1, .max = 86400, .needs = {needs_ranks()}});
  fields.add("stall_timeout", stall_timeout,
             {.help = "time after which the job ends if all ranks are alive and wait for each other",
              .min = 1,
              .max = 86400,
              .needs = {needs_ranks()}});
  fields.add("interface", interface,
             {.help = "network interface between hosts, e.g. eth0; if not set, the one that leads to rank 0",
              .needs = {needs_ranks()}});
  fields.add(
      "seal", seal,
      {.help = "encryption and authentication of messages between ranks; auto: on if the job spans hosts. NCCL's "
               "own messages are never encrypted",
       .needs = {needs_ranks()}});
  fields.add("segment", segment,
             {.help = "size of the segments in which a reduction is received while the previous segment is added",
              .min = 4096,
              .needs = {needs_ranks()}});
}

namespace {

constexpr Seconds kGlooProof{5};  // all ranks have connected: the proof is a small message
constexpr int64_t kWatching = 2;  // descriptors of a group besides its sockets

// All fail before the first is aborted: the abort of a device's backend may block or throw, and what it leaves is
// garbage that no other group may confirm.
void end_all(const std::vector<Group>& groups, const std::exception_ptr& reason) {
  for (const auto& group : groups) group.refuse(reason);
  for (const auto& group : groups) {
    try {
      group.abort(reason);
    } catch (const std::exception& fault) {
      log::debug("group ", group.name(), " was not aborted: ", fault.what());
    }
  }
}

}  // namespace

struct World::State {
  Place place;
  CommConfig config;
  BackendKind backend = BackendKind::gloo;
  c10::Device device = c10::kCPU;
  std::optional<Secret> secret;
  std::optional<Rendezvous> rendezvous;  // of two ranks or more
  std::string address = "127.0.0.1";
  std::shared_ptr<Activity> activity = std::make_shared<Activity>();
  std::shared_ptr<TrafficLog> traffic = std::make_shared<TrafficLog>();
  std::shared_ptr<Journal> journal;  // simulated
  CostModel cost;
  Counted counted = Counted::backend;

  std::mutex mutex;
  std::set<std::string> names;
  std::atomic<int64_t> sockets{0};  // of groups, and of the store if it is here
  std::vector<Group> groups;
  std::exception_ptr lost;

  std::unique_ptr<Watchdog> watchdog;
  std::function<void(const Loss&)> overdue;
  bool ended = false;

  std::vector<Group> all_groups() {
    const std::lock_guard lock(mutex);
    return groups;
  }

  void settle() {
    for (const auto& group : all_groups()) group.settle();
  }

  // A backend's abort may take its time: no thread waits for the lock meanwhile.
  void lose(std::exception_ptr reason) {
    {
      const std::lock_guard lock(mutex);
      lost = reason;
    }
    end_all(all_groups(), reason);
  }
  void rethrow_loss() {
    const std::lock_guard lock(mutex);
    if (lost) std::rethrow_exception(lost);
  }

  // The members are part of the key: two groups of one name on different ranks (mesh rows) must not meet.
  static std::string group_key(const std::string& name, const std::vector<int>& ranks) {
    return text("group/", name, "/", ranges(ranks));
  }
  Secret group_secret(const std::string& name, const std::vector<int>& ranks) const {
    const auto key = group_key(name, ranks);
    return secret->derived(rendezvous ? rendezvous->full_key(key) : key);
  }

  Group connect(const std::string& name, std::vector<int> ranks, Algorithms algorithms, BackendKind backend);
  std::unique_ptr<Transport> transport(const std::string& name, const std::vector<int>& ranks, int rank,
                                       Algorithms algorithms, BackendKind backend);

  bool seals() const {
    return config.seal == SealMessages::on || (config.seal == SealMessages::automatic && !place.single_host());
  }
  bool hosts_store() const { return place.rank == 0 && !place.store_hosted && place.store_port != 0; }
  // Others have a moment to read from our store why it will be gone.
  void linger() const {
    if (hosts_store()) std::this_thread::sleep_for(3 * beat_interval(config.peer_timeout, place.size));
  }
};

namespace {

Loss loss_of(const std::exception_ptr& reason) {
  try {
    std::rethrow_exception(reason);
  } catch (const PeerLost& fault) {
    return {fault.what()};
  } catch (const c10::Error& fault) {
    return {fault.what_without_backtrace(), /*echo=*/false};
  } catch (const std::exception& fault) {
    return {explain(fault), /*echo=*/false};
  }
}

BackendKind choose(BackendKind asked) {
  if (asked == BackendKind::nccl) require_nccl();  // one rank makes no group that would notice
  if (asked != BackendKind::automatic) return asked;
  return nccl_devices() > 0 ? BackendKind::nccl : BackendKind::gloo;
}

}  // namespace

World::World(std::unique_ptr<State> state) : state_(std::move(state)) {}
World::World(World&&) noexcept = default;
World& World::operator=(World&&) noexcept = default;

World World::connect(const Place& place, const CommConfig& config, Options options) {
  if (place.size == 1) return connect(place, config, {}, std::move(options));
  if (!options.secret) options.secret = job_secret(place);  // before anything is opened
  const bool hosts = place.rank == 0 && !place.store_hosted;
  if (hosts) allow_sockets(kStoreSockets * place.size, text("the store of ", place.size, " ranks"));
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
  if (state->backend == BackendKind::nccl) {
    state->device = nccl_device(place.local_rank);
    // Before the first tensor, because statistics of the device's memory are read earlier.
    at::globalContext().lazyInitDevice(state->device.type());
  }
  SHADE_REQUIRE(state->backend != BackendKind::simulated,
                "a simulated world has no ranks to connect; use World::simulated");
  if (place.size == 1) return World(std::move(state));
  ignore_broken_pipes();
  if (state->backend == BackendKind::nccl) {
    SHADE_REQUIRE(
        config.seal != SealMessages::on,
        "NCCL can't encrypt its messages (--comm.seal on); connect the hosts by "
        "an encrypted overlay and give its interface as --comm.interface (SECURITY.md), or use --comm.backend gloo");
    if (!config.interface.empty()) keep_nccl_on(config.interface);
  }

  const auto named = config.interface.empty() ? std::string() : address_of_interface(config.interface);
  if (!place.single_host())
    state->address = named.empty() ? local_address_towards(place.store_host, place.store_port) : named;
  state->secret = options.secret ? *options.secret : job_secret(place);
  store = c10::make_intrusive<SealedStore>(std::move(store), *state->secret);
  if (state->hosts_store()) state->sockets = kStoreSockets * place.size;
  auto& rendezvous = state->rendezvous.emplace(store, place, config.rendezvous_timeout);
  std::string session;
  try {
    session = rendezvous.join();
  } catch (const CommError&) {
    state->linger();
    throw;
  }
  auto* const shared = state.get();
  state->overdue = options.overdue;
  if (options.watchdog) {
    state->watchdog =
        std::make_unique<Watchdog>(store->clone(), state->activity,
                                   WatchdogOptions{.rank = place.rank,
                                                   .size = place.size,
                                                   .session = session,
                                                   .peer_timeout = config.peer_timeout,
                                                   .stall_timeout = config.stall_timeout,
                                                   .store_host = text(place.store_host, ":", place.store_port),
                                                   .settle = [shared] { shared->settle(); },
                                                   .lost = [shared](const Loss& loss) { shared->lose(loss.error()); },
                                                   .overdue = options.overdue});
  }
  World world(std::move(state));
  try {
    shared->rendezvous->meet(to_string(shared->backend), [shared] { shared->rethrow_loss(); });
  } catch (...) {
    world.fail(std::current_exception());
    throw;
  }
  world.state_->activity->joined();
  if (world.state_->watchdog) world.state_->watchdog->all_joined();
  log::debug("rank ", place.rank, " of ", place.size, " joined (", place.origin, ")");
  return world;
}

World World::simulated(int rank, int size, CostModel cost, Counted counted) {
  auto state = std::make_unique<State>();
  state->place.rank = rank;
  state->place.size = size;
  state->place.origin = "simulated";
  state->backend = BackendKind::simulated;
  state->journal = std::make_shared<Journal>();
  state->cost = cost;
  state->counted = counted;
  state->secret = Secret::of(Secret::new_digits());  // nothing leaves this process
  return World(std::move(state));
}

World::~World() {
  if (state_ && !state_->ended) fail(std::make_exception_ptr(CommError("ended without saying why")));
}

const Place& World::place() const { return state_->place; }
BackendKind World::backend() const { return state_->backend; }
c10::Device World::device() const { return state_->device; }
const CommConfig& World::config() const { return state_->config; }

TrafficLog& World::traffic() {
  state_->settle();
  return *state_->traffic;
}

Journal& World::journal() {
  SHADE_REQUIRE(state_->journal, "only a simulated world keeps a journal");
  return *state_->journal;
}

Group World::group(const std::string& name, std::vector<int> ranks, Algorithms algorithms) {
  return state_->connect(name, std::move(ranks), algorithms, state_->backend);
}

Group World::control(const std::string& name) {
  const bool on_device = state_->backend == BackendKind::nccl;
  return state_->connect(name, {}, Algorithms::best, on_device ? BackendKind::gloo : state_->backend);
}

std::unique_ptr<Transport> World::State::transport(const std::string& name, const std::vector<int>& ranks, int rank,
                                                   Algorithms algorithms, BackendKind kind) {
  const int size = static_cast<int>(ranks.size());
  if (kind == BackendKind::simulated) {
    auto alone = make_simulated(rank, size, {.cost = cost, .journal = journal, .global_ranks = ranks});
    auto solo = make_native(alone, rank, size);
    if (counted == Counted::backend) return solo;
    return make_planned(std::move(alone), rank, ranks, config.segment, std::move(solo));
  }
  if (size == 1) return make_exchange({}, rank, ranks, name, config.segment);
  const bool nccl = kind == BackendKind::nccl;
  const bool own = nccl || algorithms == Algorithms::native;  // the backend's own collectives
  // The watchdog knows the ranks' positions and speaks first; NCCL's own limit is for what it can't see.
  const BackendOptions options{.name = name,
                               .address = address,
                               .timeout = config.rendezvous_timeout,
                               .limit = 2 * config.stall_timeout,
                               .device = device,
                               .global_ranks = ranks,
                               .secret = group_secret(name, ranks),
                               .seal = seals(),
                               .interrupt = [this] { rethrow_loss(); }};
  if (!nccl)  // a full mesh; others connect to it while it is made
    allow_sockets((sockets += size + kWatching) + static_cast<int64_t>(wire::most_arrivals(rank, size)),
                  text("groups of ", place.size, " ranks"));
  activity->begin_wait("connecting group " + name);
  auto store = c10::make_intrusive<c10d::PrefixStore>(group_key(name, ranks), rendezvous->store());
  std::unique_ptr<Transport> connected;
  if (nccl)
    connected = make_native(make_nccl(std::move(store), rank, size, options), rank, size, device);
  else if (own)
    connected = make_native(make_gloo(std::move(store), rank, size, options), rank, size);
  else
    connected = make_exchange(make_wire(std::move(store), rank, size, options), rank, ranks, name, config.segment);
  if (own)
    prove(*connected, {.group = name,
                       .rank = rank,
                       .global_ranks = ranks,
                       .secret = *options.secret,
                       .device = nccl ? device : c10::Device(c10::kCPU),
                       .limit = nccl ? config.rendezvous_timeout : kGlooProof,
                       .interrupt = options.interrupt});
  activity->end_wait();
  return connected;
}

Group World::State::connect(const std::string& name, std::vector<int> ranks, Algorithms algorithms, BackendKind kind) {
  if (ranks.empty()) {
    ranks.resize(static_cast<size_t>(place.size));
    std::iota(ranks.begin(), ranks.end(), 0);
  }
  SHADE_REQUIRE(std::is_sorted(ranks.begin(), ranks.end()) && ranks.front() >= 0 && ranks.back() < place.size, "group ",
                name, ": ranks ", ranges(ranks), " are not sorted ranks of a world of ", place.size);
  const auto self = std::find(ranks.begin(), ranks.end(), place.rank);
  SHADE_REQUIRE(self != ranks.end(), "group ", name, " of ranks ", ranges(ranks), " doesn't contain this rank, ",
                place.rank);
  {
    const std::lock_guard lock(mutex);
    SHADE_REQUIRE(names.insert(name).second, "there is a group '", name,
                  "' already, and names are unique in a world; a second job on the same mesh takes the groups of the "
                  "first (JobOptions::groups)");
  }
  const int rank = static_cast<int>(self - ranks.begin());
  auto carrier = transport(name, ranks, rank, algorithms, kind);
  std::shared_ptr<Seals> words;
  if (secret) words = std::make_shared<Seals>(group_secret(name, ranks), kind == BackendKind::simulated);
  Group group({.rank = rank,
               .global_ranks = std::move(ranks),
               .name = name,
               .transport = std::move(carrier),
               .activity = activity,
               .traffic = traffic,
               .seals = std::move(words)});
  const std::lock_guard lock(mutex);
  if (lost) std::rethrow_exception(lost);
  groups.push_back(group);
  return group;
}

void World::leave() {
  auto& my = *state_;
  try {
    for (const auto& group : my.all_groups()) group.close();  // while the watchdog can still end it
  } catch (...) {
    fail(std::current_exception());
    throw;
  }
  my.ended = true;
  if (!my.rendezvous) return;
  if (my.watchdog) my.watchdog->leave();
  my.rendezvous->say_farewell(my.hosts_store(), my.config.peer_timeout);
}

void World::fail(std::exception_ptr reason) {
  auto& my = *state_;
  if (my.ended) return;
  my.ended = true;
  const auto loss = loss_of(reason);
  if (my.watchdog) loss.echo ? my.watchdog->lose(loss.message) : my.watchdog->fail(loss.message);
  const auto end = [groups = my.all_groups(), reason] { end_all(groups, reason); };
  try {
    Task ending(end);
    if (!ending.join_within(Seconds(1)) && my.overdue) my.overdue(loss);  // the watchdog keeps no time any more
  } catch (const std::system_error&) {                                    // no more threads
    my.overdue ? my.overdue(loss) : end();
  }
  my.linger();
}

}  // namespace shade::comm
