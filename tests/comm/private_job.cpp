#include "tests/comm/private_job.h"

#include <algorithm>

#include "shade/comm/job/secret.h"
#include "tests/support/process.h"

namespace shade::test {

std::string private_run(const std::filesystem::path& folder, const std::string& options) {
  return text(
      "train --shard zero3 --model llama-nano --synthetic --from-scratch --hidden-dim 64 --num-layers 2 --num-heads 4 "
      "--num-kv-heads 2 --vocab-size 260 --ffn-dim 64 --steps 3 --save-every 1 --keep 9 --batch-size 6 --seq-length 8 "
      "--records 30 --dp flash_bookkeeping --noise-seed 3 --sigma 1 --delta 1e-3 --threads 1 --peak-gflops 100 "
      "--comm.peer-timeout 5s --comm.stall-timeout 5s --comm.rendezvous-timeout 8s --output ",
      folder.string(), " ", options);
}

std::string start_ranks(const std::vector<const Host*>& hosts, const std::string& options) {
  std::string words = text("export MASTER_ADDR=10.77.0.1 MASTER_PORT=29400 WORLD_SIZE=", hosts.size(),
                           " SHADE_SECRET=", comm::Secret::new_digits(), "; ");
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    const auto first = std::find(hosts.begin(), hosts.end(), hosts[rank]) - hosts.begin();
    words += text("RANK=", rank, " LOCAL_RANK=", static_cast<long>(rank) - first,
                  " LOCAL_WORLD_SIZE=", std::count(hosts.begin(), hosts.end(), hosts[rank]), " ",
                  hosts[rank]->on(shade_binary()), " ", options, " & all=\"$all $!\"; ");
  }
  return words + "for one in $all; do wait $one; seen=\"$seen $?\"; done; echo statuses$seen";
}

}  // namespace shade::test
