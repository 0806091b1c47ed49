// Hosts that a test makes: network namespaces, joined by cables (veth pairs). Needs root.
#pragma once

#include <functional>
#include <string>

namespace shade::test {

bool can_make_hosts();

class Host {
 public:
  Host();
  ~Host();  // its cables and sockets go with it
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  const std::string& name() const { return name_; }
  // The words of a shell that run a command there.
  std::string on(const std::string& command) const { return "ip netns exec " + name_ + " " + command; }
  // The ports that the system chooses from, for listeners and for connections: few enough to try each.
  void choose_ports_from(int first, int last) const;
  // Calls `action` on a thread of its own that is on this host. A socket stays on the host where it was made.
  void enter(const std::function<void()>& action) const;

 private:
  std::string name_;
};

// Ends of a cable, by their addresses, e.g. "10.77.0.1/24". Returns the names of the two interfaces.
std::pair<std::string, std::string> lay_cable(const Host& a, const std::string& address_a, const Host& b,
                                              const std::string& address_b);

}  // namespace shade::test
