#include "shade/comm/socket.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "shade/comm/errors.h"
#include "shade/comm/store.h"
#include "tests/support/fault.h"

namespace shade::comm {
namespace {

TEST(Socket, ListensOnOneAddressAndAnyFreePort) {
  const auto first = listen_on("127.0.0.1", 0);
  EXPECT_GT(first.port, 0);
  try {
    listen_on("127.0.0.1", first.port);
    FAIL();
  } catch (const CommError& fault) {
    EXPECT_NE(std::string(fault.what()).find("another job uses this port"), std::string::npos) << fault.what();
  }
  ::close(first.descriptor);
}

TEST(Socket, FindsTheWayToAHost) {
  EXPECT_EQ(local_address_towards("127.0.0.1", 1), "127.0.0.1");
  EXPECT_EQ(address_of_interface("lo"), "127.0.0.1");
  EXPECT_THROW(address_of_interface("no such"), UsageError);
  EXPECT_THROW(local_address_towards("no.such.host.invalid", 1), CommError);
}

// The kernel accepts the connection; no process reads from it.
TEST(Store, ASilentPortEndsWithinTheLimit) {
  const auto silent = listen_on("127.0.0.1", 0);
  const auto begin = Clock::now();
  const auto words = test::fault<CommError>([&] { join_store("127.0.0.1", silent.port, Seconds(1)); });
  EXPECT_LT(Seconds(Clock::now() - begin).count(), 10);
  EXPECT_EQ(words, text("the process at 127.0.0.1:", silent.port,
                        " accepts connections and does not answer as a store within 1.00 s; another program uses this "
                        "port: choose one with MASTER_PORT"));
  ::close(silent.descriptor);  // ends the thread that waited
}

}  // namespace
}  // namespace shade::comm
