// How the ranks of a world find out that all of them are there, and when the store may go: O(W) requests in all.
//
// Every rank says for which world it was started and over which transport it will speak. Rank 0 reads what each says,
// once, and publishes one word; the others wait for that word in the store and ask it nothing meanwhile. Whatever keeps
// the world from meeting is published too, so that all ranks end with the same reason. Values are sealed
// (comm/job/sealed_store.h): rank 0's word can't be forged, moved or recorded from another start.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shade/base/units.h"
#include "shade/comm/job/environment.h"
#include "shade/comm/job/secret.h"
#include "shade/comm/job/session.h"
#include "shade/comm/transport.h"

namespace c10d {
class Store;
}

namespace shade::comm {

class Rendezvous {
 public:
  // `sealed` is the world's store, `limit` how long ranks wait for each other.
  Rendezvous(c10::intrusive_ptr<c10d::Store> sealed, const Place& place, Seconds limit);

  // The name under which this start of the world keeps its things in the store.
  const std::string& join();

  // Returns when all ranks have come. Throws CommError naming who did not, whose world has another size, who speaks
  // over another transport than rank 0 or who has another secret. `interrupt` is called now and then, and may throw.
  void meet(const std::string& transport, const std::function<void()>& interrupt);

  // This rank needs the store no more. The rank that hosts it leaves last: it waits for the others, `limit` at most.
  void say_farewell(bool hosts, Seconds limit);

  // What this start keeps in the store, without its name in every key.
  const c10::intrusive_ptr<c10d::Store>& store() const { return inside_; }
  std::string full_key(const std::string& key) const { return text("shade/", session_, "/", key); }

 private:
  void gather(const std::string& transport, const std::function<void()>& interrupt);
  void await_word(const std::function<void()>& interrupt);
  std::string did_not_come(std::span<const int> missing) const;
  CommError whose_secret_differs();
  bool opens(const std::string& key);

  c10::intrusive_ptr<c10d::Store> sealed_, inside_;
  Place place_;
  Seconds limit_;
  std::string session_;
  std::optional<SessionHost> host_;  // rank 0's, until all ranks have come
};

// Authentication of connections that a library has opened (NCCL; Gloo, for comparisons): the first collective of the
// group carries every rank's proof that it has the job secret, sealed for its place in the group. Connections of our
// own are authenticated one by one, before they carry anything (comm/wire/handshake.h).
struct ProofOptions {
  std::string group;              // its name, for messages
  int rank = 0;                   // within the group
  std::vector<int> global_ranks;  // of its members
  Secret secret;                  // of this group in this start of the world
  c10::Device device = c10::kCPU;
  Seconds limit{60};
  std::function<void()> interrupt = [] {};  // called now and then; throws to end the wait
};

// Throws CommError if a rank's proof is wrong, or not there within the limit.
void prove(Transport& transport, const ProofOptions& options);

}  // namespace shade::comm
