// Connections between ranks: who gets in, what a message may look like, what a changed byte does.
#include "shade/comm/wire/connect.h"

#include <ATen/ATen.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <algorithm>
#include <atomic>
#include <functional>
#include <numeric>
#include <set>
#include <thread>

#include "shade/comm/errors.h"
#include "shade/comm/job/sealed_store.h"
#include "shade/comm/socket.h"
#include "shade/comm/wire/channel.h"
#include "shade/comm/wire/handshake.h"

namespace shade::comm::wire {
namespace {

Secret secret_of(const std::string& group) {
  return Secret::of("0123456789abcdef0123456789abcdef").derived("group/" + group);
}

struct Ends {
  ClientHandshake client;
  ServerHandshake server;
};
Ends ends(const std::string& of_client = "a", const std::string& of_server = "a", int client = 2, int server = 1) {
  return {ClientHandshake(secret_of(of_client), client, server, {.seal = true, .aes = true}),
          ServerHandshake(secret_of(of_server), 1, 3, {.seal = true, .aes = false})};
}

TEST(Handshake, BothEndsAgreeOnKeysThatNoOtherConnectionHas) {
  std::set<Code> keys;
  for (int i = 0; i < 3; ++i) {
    auto [client, server] = ends();
    const auto answer = server.answer(client.hello());
    ASSERT_TRUE(answer);
    EXPECT_EQ(server.client(), 2);
    const auto confirmation = client.confirm(*answer);
    ASSERT_TRUE(confirmation);
    const auto welcome = server.welcome(*confirmation);
    ASSERT_TRUE(welcome);
    EXPECT_TRUE(client.welcomed(*welcome));
    const auto a = client.agreement(), b = server.agreement();
    EXPECT_EQ(a.send, b.receive);
    EXPECT_EQ(a.receive, b.send);
    EXPECT_FALSE(a.aes || b.aes) << "the server's processor doesn't have it";
    EXPECT_TRUE(a.peer.seal && b.peer.seal);
    EXPECT_TRUE(b.peer.aes && !a.peer.aes);
    keys.insert({a.send.bytes(), a.receive.bytes()});
  }
  EXPECT_EQ(keys.size(), 6u);
}

TEST(Handshake, AnotherSecretGroupOrRankIsRefused) {
  const auto refused = [](Ends pair) { return !pair.server.answer(pair.client.hello()); };
  EXPECT_FALSE(refused(ends()));
  EXPECT_TRUE(refused(ends("b", "a"))) << "another group";
  EXPECT_TRUE(refused(ends("a", "a", 2, 0))) << "meant for another rank";
  EXPECT_TRUE(refused(ends("a", "a", 1, 1))) << "the server itself";
  EXPECT_TRUE(refused(ends("a", "a", 0, 1))) << "a lower rank is connected to, it doesn't connect";
  EXPECT_TRUE(refused(ends("a", "a", 3, 1))) << "no rank of the group";
}

TEST(Handshake, EveryChangedBitIsRefused) {
  for (size_t bit = 0; bit < 8 * kHello; ++bit) {
    auto [client, server] = ends();
    auto hello = client.hello();
    hello[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    EXPECT_FALSE(server.answer(hello)) << "bit " << bit << " of the hello";
  }
  for (size_t bit = 0; bit < 8 * kAnswer; ++bit) {
    auto [client, server] = ends();
    auto answer = *server.answer(client.hello());
    answer[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    EXPECT_FALSE(client.confirm(answer)) << "bit " << bit << " of the answer";
  }
  for (size_t bit = 0; bit < 8 * kConfirmation; ++bit) {
    auto [client, server] = ends();
    auto confirmation = *client.confirm(*server.answer(client.hello()));
    confirmation[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    EXPECT_FALSE(server.welcome(confirmation)) << "bit " << bit << " of the confirmation";
  }
  for (size_t bit = 0; bit < 8 * kWelcome; ++bit) {
    auto [client, server] = ends();
    auto welcome = *server.welcome(*client.confirm(*server.answer(client.hello())));
    welcome[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    EXPECT_FALSE(client.welcomed(welcome)) << "bit " << bit << " of the welcome";
  }
}

// Who has recorded a connection and gets the job secret later lacks both ephemeral keys.
TEST(Handshake, KeysDontFollowFromTheSecretAndWhatIsSeen) {
  auto [client, server] = ends();
  const auto answer = *server.answer(client.hello());
  ASSERT_TRUE(client.confirm(answer));
  const auto group = secret_of("a");
  const auto seen = std::span(answer).first<kGreeting>();
  const auto as_text = [](std::span<const uint8_t> bytes) {
    return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  const auto without =
      group.derived("wire session").derived(as_text(client.hello())).derived(as_text(seen));  // no X25519 agreement
  for (const auto& guess : {without, without.derived(as_text(Code{}))})
    EXPECT_NE(guess.code("client to server", {}), client.agreement().send.bytes());
}

// A key of low order would make the X25519 agreement known to everybody.
TEST(Handshake, KeysThatForceTheAgreementAreRefused) {
  auto [client, server] = ends();
  auto hello = client.hello();
  std::fill_n(hello.begin() + kRanks, 32, uint8_t{0});
  const auto code = secret_of("a").code("hello", std::span(hello).first<kRanks + kGreeting>());
  std::copy(code.begin(), code.end(), hello.begin() + kRanks + kGreeting);
  EXPECT_FALSE(server.answer(hello));
}

TEST(Handshake, WhatWasRecordedOrReflectedIsOfNoUse) {
  auto [client, server] = ends();
  const auto answer = *server.answer(client.hello());
  const auto confirmation = *client.confirm(answer);
  auto [other_client, other_server] = ends();
  ASSERT_TRUE(other_server.answer(client.hello())) << "a recorded hello is answered with another greeting";
  EXPECT_FALSE(other_server.welcome(confirmation)) << "so a recorded confirmation doesn't fit";
  EXPECT_FALSE(other_client.confirm(answer)) << "nor does a recorded answer";
  Code code_of_answer;
  std::copy_n(answer.begin() + kGreeting, code_of_answer.size(), code_of_answer.begin());
  EXPECT_FALSE(server.welcome(code_of_answer)) << "the server's own code";
  EXPECT_FALSE(client.welcomed(code_of_answer));
  EXPECT_FALSE(client.welcomed(confirmation)) << "the client's own code";
  auto [third, never_asked] = ends();
  EXPECT_FALSE(never_asked.welcome(confirmation)) << "before any hello";
  EXPECT_FALSE(third.welcomed(confirmation)) << "before any answer";
}

class Records : public testing::TestWithParam<bool> {
 protected:
  Records() : out(key, GetParam()), in(key, GetParam()) {
    std::iota(plain.begin(), plain.end(), uint8_t{0});
    std::iota(header.begin(), header.end(), uint8_t{7});
  }
  std::vector<uint8_t> sealed() {
    std::vector<uint8_t> record(plain.size() + kTag);
    out.seal(record.data(), plain, header);
    return record;
  }
  bool opens(const std::vector<uint8_t>& record) { return in.open(opened.data(), record, header); }

  const KeyBytes key{secret_of("records").code("key", {})};
  RecordSeal out, in;
  std::vector<uint8_t> plain = std::vector<uint8_t>(1000), opened = std::vector<uint8_t>(1000),
                       header = std::vector<uint8_t>(16);
};

TEST_P(Records, OpenInTheirOrder) {
  std::set<std::vector<uint8_t>> seen;
  for (int i = 0; i < 3; ++i) {
    const auto record = sealed();
    EXPECT_EQ(std::search(record.begin(), record.end(), plain.begin(), plain.begin() + 16), record.end());
    seen.insert(record);
    std::fill(opened.begin(), opened.end(), uint8_t{0});
    ASSERT_TRUE(opens(record));
    EXPECT_EQ(opened, plain);
  }
  EXPECT_EQ(seen.size(), 3u) << "the same bytes are sealed differently each time";
}

TEST_P(Records, RefuseWhatIsChangedRepeatedSkippedOrMoved) {
  auto first = sealed(), second = sealed();
  EXPECT_FALSE(opens(second)) << "the first one was dropped";
  RecordSeal again(key, GetParam());
  EXPECT_TRUE(again.open(opened.data(), first, header));
  EXPECT_FALSE(again.open(opened.data(), first, header)) << "repeated";
  for (const size_t at : {size_t{0}, plain.size() - 1, plain.size(), plain.size() + kTag - 1}) {
    RecordSeal fresh(key, GetParam());
    auto changed = first;
    changed[at] ^= 1;
    EXPECT_FALSE(fresh.open(opened.data(), changed, header)) << "byte " << at;
  }
  RecordSeal fresh(key, GetParam());
  auto other = header;
  other[15] ^= 1;
  EXPECT_FALSE(fresh.open(opened.data(), first, other)) << "under another header";
  RecordSeal stranger(KeyBytes(secret_of("others").code("key", {})), GetParam());
  EXPECT_FALSE(stranger.open(opened.data(), first, header)) << "under another key";
}

INSTANTIATE_TEST_SUITE_P(Ciphers, Records, testing::Values(true, false),
                         [](const auto& test) { return test.param ? "Aes256Gcm" : "ChaCha20Poly1305"; });

// Two channels, joined by sockets or by whoever holds the sockets in the middle.
struct Pair {
  explicit Pair(bool seal, bool middle = false) {
    std::array<int, 2> left{}, right{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, left.data()), 0);
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, right.data()), 0);
    Agreement one{
        .send = KeyBytes(secret_of("x").code("1", {})), .receive = KeyBytes(secret_of("x").code("2", {})), .aes = true};
    Agreement two{.send = one.receive, .receive = one.send, .aes = true};
    a = std::make_unique<Channel>(Descriptor(left[0]), 1, one, seal);
    b = std::make_unique<Channel>(Descriptor(middle ? right[0] : left[1]), 0, two, seal);
    between[0] = middle ? left[1] : ::dup(right[0]);
    between[1] = right[1];
  }
  ~Pair() {
    for (const int descriptor : between) ::close(descriptor);
  }

  // Until both are complete or one fails.
  void move(const Message& sent, const Message& received) {
    while (!(sent.complete && received.complete) && !a->fault() && !b->fault()) {
      a->ready(true, true, false);
      b->ready(true, true, false);
    }
  }
  // What a sends, at most `size` bytes of it.
  std::vector<uint8_t> record(size_t size) {
    std::vector<uint8_t> bytes(size);
    size_t done = 0;
    while (done < size) {
      a->ready(false, true, false);
      pollfd readable{between[0], POLLIN, 0};
      if (::poll(&readable, 1, 200) <= 0) break;
      done += static_cast<size_t>(::recv(between[0], bytes.data() + done, size - done, 0));
    }
    bytes.resize(done);
    return bytes;
  }
  void play(std::span<const uint8_t> bytes) {
    while (!bytes.empty()) {
      const auto count = ::send(between[1], bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (count > 0) bytes = bytes.subspan(static_cast<size_t>(count));
      b->ready(true, false, false);
      if (b->fault()) return;
    }
    b->ready(true, false, false);
  }

  std::unique_ptr<Channel> a, b;
  std::array<int, 2> between{};
};

std::string words_of(const std::exception_ptr& fault) {
  if (!fault) return "";
  try {
    std::rethrow_exception(fault);
  } catch (const std::exception& error) {
    return error.what();
  }
}

at::Tensor numbers(int64_t bytes) { return at::randint(0, 256, {bytes}, at::kByte); }
std::shared_ptr<Message> message(const at::Tensor& tensor) { return std::make_shared<Message>(tensor); }

TEST(Channels, CarryMessagesOfAllSizesBothWaysAtOnce) {
  constexpr auto kWhole = static_cast<int64_t>(kRecord);
  for (const bool seal : {false, true}) {
    Pair pair(seal);
    for (const int64_t size : {int64_t{1}, int64_t{15}, int64_t{16}, int64_t{17}, kWhole - 1, kWhole, kWhole + 1,
                               2 * kWhole, 3 * kWhole + 5, int64_t{5'000'001}}) {
      const auto there = numbers(size), back = numbers(size + 3);
      const auto got_there = at::empty_like(there), got_back = at::empty_like(back);
      const auto in_a = message(got_back), in_b = message(got_there);
      pair.a->receive(in_a);
      pair.a->send(message(there));
      pair.b->send(message(back));
      pair.b->receive(in_b);
      pair.move(*in_a, *in_b);
      ASSERT_EQ(words_of(pair.a->fault()) + words_of(pair.b->fault()), "") << size;
      EXPECT_TRUE(at::equal(there, got_there)) << size;
      EXPECT_TRUE(at::equal(back, got_back)) << size;
    }
  }
}

TEST(Channels, SeveralMessagesWaitInTheirOrder) {
  for (const bool seal : {false, true}) {
    Pair pair(seal);
    std::vector<at::Tensor> sent, received;
    std::vector<std::shared_ptr<Message>> ins, outs;
    for (const int64_t size : {3, 200'000, 1, 70'000}) {
      sent.push_back(numbers(size));
      received.push_back(at::empty_like(sent.back()));
      outs.push_back(message(sent.back()));
      pair.a->send(outs.back());
    }
    for (const auto& tensor : received) {
      ins.push_back(message(tensor));
      pair.b->receive(ins.back());
    }
    pair.move(*outs.back(), *ins.back());
    for (size_t i = 0; i < sent.size(); ++i) EXPECT_TRUE(at::equal(sent[i], received[i])) << i;
  }
}

constexpr size_t kHeaderBytes = 16;
const std::string kChangedWords = "was changed on its way";

TEST(Channels, EveryChangeOfASealedMessageIsNoticed) {
  constexpr int64_t kSize = kRecord + 100;
  constexpr size_t kFirst = kHeaderBytes + kRecord + kTag, kAll = kFirst + 100 + kTag;
  for (const size_t at : {size_t{0}, size_t{8}, kHeaderBytes, kHeaderBytes + 5000, kFirst - kTag, kFirst - 1, kFirst,
                          kAll - kTag, kAll - 1}) {
    Pair pair(true, true);
    const auto content = numbers(kSize), got = at::zeros({kSize}, at::kByte);
    pair.a->send(message(content));
    auto bytes = pair.record(kAll);
    ASSERT_EQ(bytes.size(), kAll);
    bytes[at] ^= 0x40;
    const auto in = message(got);
    pair.b->receive(in);
    pair.play(bytes);
    EXPECT_NE(words_of(pair.b->fault()).find(kChangedWords), std::string::npos) << "byte " << at;
    EXPECT_FALSE(in->complete);
    EXPECT_EQ(at::equal(got.narrow(0, 0, kRecord), content.narrow(0, 0, kRecord)), at >= kFirst)
        << "a record that doesn't open is not used, byte " << at;
  }
}

TEST(Channels, DroppedRepeatedAndSwappedMessagesAreNoticed) {
  for (const bool seal : {false, true}) {
    const size_t each = kHeaderBytes + 50 + (seal ? kTag : 0);
    for (const std::string order : {"1", "00", "10"}) {
      Pair pair(seal, true);
      for (int i = 0; i < 2; ++i) pair.a->send(message(numbers(50)));
      const auto bytes = pair.record(2 * each);
      ASSERT_EQ(bytes.size(), 2 * each);
      std::vector<at::Tensor> got{at::zeros({50}, at::kByte), at::zeros({50}, at::kByte)};
      for (const auto& tensor : got) pair.b->receive(message(tensor));
      for (const char which : order) pair.play(std::span(bytes).subspan(each * static_cast<size_t>(which - '0'), each));
      EXPECT_NE(words_of(pair.b->fault()).find(kChangedWords), std::string::npos) << order;
    }
  }
}

TEST(Channels, AnotherLengthThanExpectedIsAnError) {
  for (const bool seal : {false, true}) {
    Pair pair(seal);
    const auto out = message(numbers(64)), in = message(at::empty({32}, at::kByte));
    pair.a->send(out);
    pair.b->receive(in);
    pair.move(*out, *in);
    EXPECT_EQ(words_of(pair.b->fault()),
              "message 0 of rank 0 has 64 bytes where 32 were expected: it was changed on its way, or the ranks carry "
              "out different operations");
  }
}

TEST(Channels, AClosedConnectionIsALostPeer) {
  Pair pair(true);
  const auto in = message(at::empty({32}, at::kByte));
  pair.b->receive(in);
  pair.a.reset();
  pair.b->ready(true, true, true);
  EXPECT_THROW(std::rethrow_exception(pair.b->fault()), PeerLost);
}

// Ranks as threads that share a store, as World has it.
struct Group {
  explicit Group(int ranks) : size(ranks), result(static_cast<size_t>(ranks)), words(result.size()) {}

  ConnectOptions options(int rank) const {
    ConnectOptions out{.group = "g",
                       .address = "127.0.0.1",
                       .rank = rank,
                       .global_ranks = std::vector<int>(static_cast<size_t>(size)),
                       .secret = secret_of("g"),
                       .limit = Seconds(20),
                       .interrupt = [] {}};
    std::iota(out.global_ranks.begin(), out.global_ranks.end(), 0);
    return out;
  }
  void connect(const std::function<void(ConnectOptions&)>& change = [](auto&) {}) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank)
      threads.emplace_back([&, rank] {
        auto chosen = options(rank);
        change(chosen);
        try {
          result[static_cast<size_t>(rank)] = connect_group(*store, chosen);
        } catch (const std::exception& error) {
          words[static_cast<size_t>(rank)] = error.what();
        }
      });
    for (auto& thread : threads) thread.join();
  }

  int size;
  c10::intrusive_ptr<c10d::Store> store = c10::make_intrusive<SealedStore>(
      c10::make_intrusive<c10d::HashStore>(), Secret::of("fedcba9876543210fedcba9876543210"));
  std::vector<std::vector<std::optional<Connection>>> result;
  std::vector<std::string> words;
};

uint16_t port_of(const Group& group, int rank) {
  const auto key = text("wire/", rank);
  while (!group.store->check({key})) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const auto where = group.store->get_to_str(key);
  return static_cast<uint16_t>(std::stoi(where.substr(where.find(' '))));
}

bool ready_for(const Descriptor& socket, short what) {
  pollfd watched{*socket, what, 0};
  return ::poll(&watched, 1, 2000) == 1;
}

TEST(Connecting, EveryPairSharesKeys) {
  Group group(5);
  group.connect();
  for (size_t a = 0; a < 5; ++a) {
    ASSERT_EQ(group.words[a], "");
    EXPECT_FALSE(group.result[a][a]);
    for (size_t b = 0; b < a; ++b) EXPECT_EQ(group.result[a][b]->agreement.send, group.result[b][a]->agreement.receive);
  }
}

// Strangers come first, in numbers, and stay silent, talk nonsense or leave; the ranks connect all the same.
TEST(Connecting, StrangersAreRefusedAndRanksConnect) {
  Group group(3);
  std::atomic<bool> over = false;
  std::thread strangers([&] {
    const auto port = port_of(group, 0);
    std::vector<Descriptor> open;
    for (int i = 0; i < 200; ++i) {
      open.emplace_back(begin_connecting("127.0.0.1", port));
      pollfd writable{*open.back(), POLLOUT, 0};
      ::poll(&writable, 1, 100);
      std::array<uint8_t, kHello + 5> bytes{};
      bytes[0] = 1;  // rank 1 to rank 0
      const std::array sizes{size_t{0}, size_t{8}, kHello - 1, kHello, kHello + 5};
      if (const auto size = sizes[static_cast<size_t>(i) % sizes.size()]; size > 0)
        ::send(*open.back(), bytes.data(), size, MSG_NOSIGNAL);
      if (i % 3 == 0) open.pop_back();
    }
    while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    for (const auto& socket : open) {  // nothing was sent to any of them
      std::array<uint8_t, 16> bytes{};
      EXPECT_LE(::recv(*socket, bytes.data(), bytes.size(), MSG_DONTWAIT), 0);
    }
  });
  group.connect([&](ConnectOptions& options) {
    if (options.rank > 0) std::this_thread::sleep_for(std::chrono::milliseconds(300));
  });
  over = true;
  strangers.join();
  for (size_t rank = 0; rank < 3; ++rank) EXPECT_EQ(group.words[rank], "");
  EXPECT_TRUE(group.result[0][1] && group.result[0][2] && group.result[1][2]);
}

TEST(Connecting, NoRankListensAfterwards) {
  Group group(2);
  group.connect();
  const Descriptor late(begin_connecting("127.0.0.1", port_of(group, 0)));
  pollfd ended{*late, POLLOUT, 0};
  ::poll(&ended, 1, 1000);
  EXPECT_NE(ended.revents & (POLLERR | POLLHUP), 0);
}

// Somebody answers at the address of rank 0, which has gone.
TEST(Connecting, AnswerersWithoutTheSecretAreNamed) {
  Group group(2);
  const auto false_zero = listen_on("127.0.0.1", 0);
  const Descriptor listener(false_zero.descriptor);
  group.store->set("wires", text("127.0.0.1 ", false_zero.port, "\n127.0.0.1 1"));
  std::vector<uint8_t> read;
  std::thread impostor([&] {
    const Descriptor accepted(::accept(*listener, nullptr, nullptr));
    read.resize(4096);
    read.resize(static_cast<size_t>(::recv(*accepted, read.data(), read.size(), 0)));
    const std::array<uint8_t, kAnswer> answer{};
    ::send(*accepted, answer.data(), answer.size(), MSG_NOSIGNAL);
    std::array<uint8_t, 1> more{};
    EXPECT_EQ(::recv(*accepted, more.data(), more.size(), 0), 0) << "nothing follows";
  });
  try {
    connect_group(*group.store, group.options(1));
    ADD_FAILURE() << "connected";
  } catch (const CommError& error) {
    EXPECT_EQ(std::string(error.what()),
              text("group g: the process that answers at 127.0.0.1:", false_zero.port,
                   " in place of rank 0 does not have the job secret. Nothing of the run was "
                   "sent to it (SECURITY.md)"));
  }
  impostor.join();
  EXPECT_EQ(read.size(), kHello);
}

// Says rank 1's hello to rank 0, as one who has recorded it could, and goes on as `then` says.
void half_a_handshake(const Group& group, const std::function<void(const Descriptor&, Code confirmation)>& then) {
  const Descriptor socket(begin_connecting("127.0.0.1", port_of(group, 0)));
  ASSERT_TRUE(ready_for(socket, POLLOUT));
  ClientHandshake handshake(secret_of("g"), 1, 0, {});
  ::send(*socket, handshake.hello().data(), kHello, MSG_NOSIGNAL);
  std::array<uint8_t, kAnswer> answer{};
  ASSERT_TRUE(ready_for(socket, POLLIN));
  ASSERT_EQ(::recv(*socket, answer.data(), answer.size(), 0), static_cast<ssize_t>(kAnswer));
  then(socket, handshake.confirm(answer).value());
}

TEST(Connecting, AFalseConfirmationIsRefusedAndTheRankConnects) {
  Group group(2);
  std::thread stranger([&] {
    half_a_handshake(group, [](const Descriptor& socket, Code confirmation) {
      confirmation[3] ^= 1;
      ::send(*socket, confirmation.data(), confirmation.size(), MSG_NOSIGNAL);
      std::array<uint8_t, 1> more{};
      ASSERT_TRUE(ready_for(socket, POLLIN));
      EXPECT_LE(::recv(*socket, more.data(), more.size(), 0), 0) << "closed or reset, and nothing was sent";
    });
  });
  group.connect([&](ConnectOptions& options) {
    if (options.rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(500));
  });
  stranger.join();
  EXPECT_EQ(group.words[0] + group.words[1], "");
}

// A flood between answer and confirmation must not cost a rank its connection: it would take itself for connected.
TEST(Connecting, ARankThatWasAnsweredIsNotDroppedInAFlood) {
  Group group(2);
  std::thread rank1([&] {
    half_a_handshake(group, [&](const Descriptor& socket, const Code& confirmation) {
      std::vector<Descriptor> flood;
      for (int i = 0; i < 200; ++i) {
        flood.emplace_back(begin_connecting("127.0.0.1", port_of(group, 0)));
        ready_for(flood.back(), POLLOUT);
      }
      ::send(*socket, confirmation.data(), confirmation.size(), MSG_NOSIGNAL);
      ASSERT_TRUE(ready_for(socket, POLLIN));
      std::array<uint8_t, kWelcome + 1> welcome{};
      EXPECT_EQ(::recv(*socket, welcome.data(), welcome.size(), 0), static_cast<ssize_t>(kWelcome));
    });
  });
  group.store->set("wire/1", std::string("127.0.0.1 1"));  // rank 1 is the thread above
  auto options = group.options(0);
  options.limit = Seconds(5);
  EXPECT_TRUE(connect_group(*group.store, options)[1]);
  rank1.join();
}

TEST(Connecting, DifferentSettingsOfSealsAreNamed) {
  Group group(2);
  group.connect([](ConnectOptions& options) {
    options.seal = options.rank == 1;
    options.limit = Seconds(3);
  });
  for (const auto& words : group.words)
    EXPECT_EQ(words, "rank 1 seals its messages and rank 0 doesn't; give all ranks the same --comm.seal");
}

TEST(Connecting, AbsentRanksAreNamedAndAnInterruptEndsTheWait) {
  Group group(3);
  auto options = group.options(0);
  options.limit = Seconds(0.2);
  try {
    connect_group(*group.store, options);
    FAIL();
  } catch (const CommError& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("group g: ranks 1, 2 did not connect with rank 0 within"))
        << error.what();
  }
  options.limit = Seconds(60);
  options.interrupt = [] { throw PeerLost("over"); };
  EXPECT_THROW(connect_group(*group.store, options), PeerLost);
}

}  // namespace
}  // namespace shade::comm::wire
