// Everything that crosses a network interface of a namespace, as somebody on the same network would see it.
#pragma once

#include <atomic>
#include <map>
#include <string>
#include <thread>

namespace shade::test {

class Sniffer {
 public:
  // Listens until stop(). Needs root.
  Sniffer(const std::string& network_namespace, const std::string& interface);
  ~Sniffer() { stop(); }
  Sniffer(const Sniffer&) = delete;
  Sniffer& operator=(const Sniffer&) = delete;

  void stop();

  // After stop().
  bool saw(const std::string& bytes) const;  // in one packet, or across the packets of one TCP stream
  size_t bytes() const;                      // of TCP payload
  const std::map<std::string, std::string>& streams() const { return streams_; }
  bool lost_packets() const { return lost_; }

 private:
  void listen();

  int socket_ = -1;
  std::atomic<bool> stopped_{false};
  std::string packets_;
  std::map<std::string, std::string> streams_;  // payload by addresses and ports
  bool lost_ = false;
  std::thread thread_;
};

}  // namespace shade::test
