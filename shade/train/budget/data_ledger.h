// What private runs have spent of a data set, in one file for all of them, with a cap that stops them.
//
// A run's own ledger (checkpoint/ledger.h) knows what that run has spent. Ten runs on the same records spend ten times,
// and the eleventh is chosen by what the ten have shown. So each of them reserves its steps here before it makes them,
// and a Renyi filter (accounting/filter.h) decides whether there is room.
//
//   {"format":"shade data ledger","version":1,"id":...,"epsilon":8,"delta":1e-6}
//   {"run":"/runs/a","stretch":"91ab...","date":...,"unit":"record","adjacency":...,"sampler":"poisson","sample_rate":0.01,
//    "sigma":1.1,"steps":16,"orders":[[12.5,0.5],...]}         a stretch of steps begins; the first one fixes unit and
//    orders
//   {"stretch":"91ab...","steps":32}                            so many steps of it are reserved by now
//   {"stretch":"91ab...","steps":20,"closed":true}              it ended in order after so many; the rest is free again
//
// A stretch is what an incarnation of a run's own ledger is: steps of one process whose noise comes from random bytes
// of its own, known by their mark. Steps that are repeated to the bit belong to the stretch they were made in, and cost
// nothing; steps whose noise is drawn anew are in a new stretch, and count again. Of a process that was killed all that
// it had reserved stays counted.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shade/accounting/event.h"
#include "shade/accounting/filter.h"
#include "shade/checkpoint/chain.h"

namespace shade::train {

// Who spends, on what.
struct Spender {
  std::string run;      // its folder
  std::string stretch;  // mark of the incarnation's random bytes
  privacy::Mechanism mechanism;
  privacy::PrivacyUnit unit = privacy::PrivacyUnit::record;
  std::string unit_by{};  // of users: the field that names them; of windows: their length and tokenizer
};

// What the file says.
struct DataBooks {
  struct Entry {
    Spender spender;
    std::string date;
    int64_t steps = 0;
    bool closed = false;
  };
  std::string id;  // of this ledger; its copies have the same
  privacy::Cap cap;
  std::vector<privacy::FilterOrder> orders;  // empty: nothing was spent yet
  std::vector<Entry> entries;                // in the order in which they began

  const Entry* find(const std::string& stretch) const;
  std::vector<privacy::Steps> spent() const;  // equal mechanisms added up
  std::optional<privacy::RenyiFilter> filter() const;
  int64_t allowed(const privacy::Mechanism& mechanism, int64_t wanted) const;
  // Throws UsageError if a run of that unit doesn't belong here.
  void require_unit(privacy::PrivacyUnit unit, const std::string& unit_by) const;
};

// Safe among processes. Not thread-safe.
class DataLedger {
 public:
  // Throws UsageError if there is a file of that name.
  static void create(const std::filesystem::path& file, const privacy::Cap& cap);

  explicit DataLedger(std::filesystem::path file);

  // Proves every line. Throws UsageError if there is no such file, io::FormatError if it is damaged, no data ledger, or
  // shorter than this object has seen it.
  DataBooks read() const;

  // Before steps are made: so many of this stretch, in all, are on the disk as spent, or as many as there is room for,
  // which is returned. A stretch that has more keeps them.
  int64_t reserve(const Spender& spender, int64_t steps);
  // The process ends in order, with so many of its steps made.
  void close(const std::string& stretch, int64_t made);

  const std::filesystem::path& path() const { return chain_.path(); }
  // The end of the file as this object saw it last, for the run's own ledger; and what that ledger remembers: the file
  // must still have that line.
  const checkpoint::ChainMark& end() const { return end_; }
  void remember(const checkpoint::ChainMark& mark) { end_ = mark; }

 private:
  DataBooks books_of(const checkpoint::Chain& chain) const;

  checkpoint::SharedChain chain_;
  checkpoint::ChainMark end_;
};

}  // namespace shade::train
