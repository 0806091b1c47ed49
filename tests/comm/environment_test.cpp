#include "shade/comm/job/environment.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "shade/base/error.h"
#include "shade/comm/job/forget_place.h"

namespace shade::comm {
namespace {

using Variables = std::map<std::string, std::string>;

Place place(const Variables& variables, std::optional<int> stated = {}) {
  return place_from(
      [&](const char* name) -> const char* {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
      },
      stated);
}

std::string fault(const Variables& variables, std::optional<int> stated = {}) {
  try {
    place(variables, stated);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Environment, NothingMeansAlone) {
  const auto alone = place({});
  EXPECT_EQ(alone.size, 1);
  EXPECT_EQ(alone.origin, "alone");
  EXPECT_EQ(alone.store_port, 0);
}

TEST(Environment, Torchrun) {
  const auto found = place({{"RANK", "3"},
                            {"WORLD_SIZE", "8"},
                            {"LOCAL_RANK", "1"},
                            {"LOCAL_WORLD_SIZE", "2"},
                            {"MASTER_ADDR", "10.0.0.7"},
                            {"MASTER_PORT", "4242"},
                            {"TORCHELASTIC_USE_AGENT_STORE", "True"}});
  EXPECT_EQ(found.rank, 3);
  EXPECT_EQ(found.size, 8);
  EXPECT_EQ(found.local_rank, 1);
  EXPECT_FALSE(found.single_host());
  EXPECT_EQ(found.store_host, "10.0.0.7");
  EXPECT_EQ(found.store_port, 4242);
  EXPECT_TRUE(found.store_hosted);
  EXPECT_TRUE(found.store_reused);
}

TEST(Environment, ARankInAPodIsAloneOnItsHost) {
  Variables pod{{"RANK", "3"}, {"WORLD_SIZE", "8"}, {"MASTER_ADDR", "job-master-0"}, {"MASTER_PORT", "4242"}};
  const auto found = place(pod);
  EXPECT_FALSE(found.single_host()) << "so it needs a job secret";
  EXPECT_EQ(found.local_rank, 0);
  pod["MASTER_ADDR"] = "127.0.0.1";
  EXPECT_TRUE(place(pod).single_host());
  EXPECT_EQ(place(pod).local_rank, 3);
}

TEST(Environment, Slurm) {
  const Variables two_nodes{{"SLURM_PROCID", "5"}, {"SLURM_NTASKS", "8"},      {"SLURM_LOCALID", "1"},
                            {"SLURM_NNODES", "2"}, {"SLURM_JOB_ID", "123456"}, {"SLURM_JOB_NODELIST", "gpu[07-08,11]"}};
  const auto found = place(two_nodes);
  EXPECT_EQ(found.origin, "slurm");
  EXPECT_EQ(found.rank, 5);
  EXPECT_EQ(found.store_host, "gpu07");
  EXPECT_EQ(found.store_port, 20000 + 123456 % 12000);
  EXPECT_FALSE(found.single_host());
  auto one_node = two_nodes;
  one_node["SLURM_NNODES"] = "1";
  EXPECT_TRUE(place(one_node).single_host());
  EXPECT_EQ(place(one_node).store_host, "127.0.0.1");
}

TEST(Environment, SlurmHostLists) {
  EXPECT_EQ(first_slurm_host("node1"), "node1");
  EXPECT_EQ(first_slurm_host("node1,node2"), "node1");
  EXPECT_EQ(first_slurm_host("node[003-005,9]"), "node003");
  EXPECT_EQ(first_slurm_host("a1,b[2-3]"), "a1");
  EXPECT_EQ(first_slurm_host(""), "");
}

TEST(Environment, Mpirun) {
  const auto found = place({{"OMPI_COMM_WORLD_RANK", "1"},
                            {"OMPI_COMM_WORLD_SIZE", "2"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  EXPECT_EQ(found.origin, "mpirun");
  EXPECT_TRUE(found.single_host());
  EXPECT_EQ(fault({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}),
            "mpirun started ranks on several hosts; say where rank 0 is: mpirun -x MASTER_ADDR=<its address> ...");
}

TEST(Environment, AWorldIsStatedAndChecked) {
  const Variables two{{"RANK", "0"}, {"WORLD_SIZE", "2"}};
  EXPECT_EQ(place(two, 2).size, 2);
  EXPECT_EQ(fault(two, 4), "--ranks 4 was asked for, but torchrun made a world of 2; start 4 ranks or drop --ranks");
  EXPECT_EQ(fault({}, 4), "--ranks 4 was asked for, but alone made a world of 1; start 4 ranks or drop --ranks");
}

TEST(Environment, APlaceCanBeForgotten) {
  for (const auto& [origin, variables] :
       {std::pair<std::string, Variables>{"torchrun", {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "1"}}},
        {"slurm", {{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}}},
        {"mpirun", {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}}}}) {
    for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
    EXPECT_EQ(place_from_environment().origin, origin);
    forget_place();
    EXPECT_EQ(place_from_environment().origin, "alone") << origin;
    for (const auto& [name, value] : variables) ::unsetenv(name.c_str());
  }
}

TEST(Environment, HalfAWorldIsAnError) {
  EXPECT_EQ(fault({{"RANK", "0"}}), "torchrun variables are incomplete: WORLD_SIZE is not set");
  EXPECT_EQ(fault({{"RANK", "2"}, {"WORLD_SIZE", "2"}}),
            "torchrun states rank 2 in a world of 2; ranks run from 0 to size - 1");
  EXPECT_EQ(fault({{"RANK", "x"}, {"WORLD_SIZE", "2"}}), "RANK='x' is not a number of ranks");
  EXPECT_EQ(fault({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "70000"}}), "MASTER_PORT=70000 is not a port");
}

}  // namespace
}  // namespace shade::comm
