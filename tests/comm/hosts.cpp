#include "tests/comm/hosts.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <thread>

#include "shade/base/descriptor.h"
#include "tests/support/process.h"

namespace shade::test {
namespace {

void in_shell(const std::string& words) {
  const auto seen = run({"sh", "-ec", words});
  SHADE_REQUIRE(seen.status == 0, words, ": ", seen.output);
}

std::string new_name(const std::string& kind) {
  static std::atomic<int> made = 0;
  return text(kind, ::getpid(), "x", made++);  // an interface's name has at most 15 characters
}

}  // namespace

bool can_make_hosts() {
  static const bool can = [] {
    try {
      const Host a, b;
      lay_cable(a, "10.77.0.1/24", b, "10.77.0.2/24");
      return true;
    } catch (const Error&) {
      return false;
    }
  }();
  return can;
}

Host::Host() : name_(new_name("shade")) {
  in_shell(text("ip netns add ", name_, "; ip -n ", name_, " link set lo up"));
}

Host::~Host() { run({"ip", "netns", "del", name_}); }

void Host::choose_ports_from(int first, int last) const {
  in_shell(on(text("sh -c 'echo ", first, " ", last, " > /proc/sys/net/ipv4/ip_local_port_range'")));
}

void Host::enter(const std::function<void()>& action) const {
  std::exception_ptr fault;
  std::thread([&] {
    try {
      const Descriptor there(::open(("/var/run/netns/" + name_).c_str(), O_RDONLY | O_CLOEXEC));
      SHADE_CHECK(there && ::setns(*there, CLONE_NEWNET) == 0, "setns: ", std::strerror(errno));
      action();
    } catch (...) {
      fault = std::current_exception();
    }
  }).join();
  if (fault) std::rethrow_exception(fault);
}

std::pair<std::string, std::string> lay_cable(const Host& a, const std::string& address_a, const Host& b,
                                              const std::string& address_b) {
  const auto end_a = new_name("v"), end_b = new_name("v");
  std::string words =
      text("ip link add ", end_a, " netns ", a.name(), " type veth peer name ", end_b, " netns ", b.name());
  for (const auto& [host, end, address] :
       {std::tuple(a.name(), end_a, address_a), std::tuple(b.name(), end_b, address_b)})
    words += text("; ip -n ", host, " addr add ", address, " dev ", end, "; ip -n ", host, " link set ", end, " up");
  in_shell(words);
  return {end_a, end_b};
}

}  // namespace shade::test
