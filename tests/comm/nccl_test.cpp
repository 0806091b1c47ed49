// NCCL as far as a machine without a GPU allows: loaded, its version known, its absence explained. With GPUs the
// conformance suite is what to run.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <functional>

#include "shade/base/cuda_library.h"
#include "shade/comm/backends/backends.h"
#include "shade/comm/errors.h"
#include "tests/support/process.h"

namespace shade::comm {
namespace {

std::string fault_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const UsageError& fault) {
    return fault.what();
  }
  return "";
}

TEST(Nccl, IsLoadedWithoutAGpu) {
  EXPECT_TRUE(nccl_built()) << CudaLibrary::get().why_not();
  EXPECT_EQ(nccl_version(), "2.30.7");
  EXPECT_EQ(fault_of([] { CudaLibrary::get().table<int>("shade_no_such_functions"); }),
            "libshade_cuda.so has no shade_no_such_functions: it is of another build than this program");
}

TEST(Nccl, WithoutAGpuItSaysSo) {
  if (nccl_devices() > 0) GTEST_SKIP() << "this machine has GPUs";
  EXPECT_EQ(
      fault_of([] { nccl_device(0); }),
      "no CUDA device is visible, which the nccl backend (--device cuda) needs; check the driver (nvidia-smi) and "
      "CUDA_VISIBLE_DEVICES, or compute on the CPU: --device cpu");
}

// One program runs on both flavours of libtorch.
TEST(Nccl, IsThereIfLibtorchHasCuda) {
  const auto version_on = [](const char* variable) {
    const char* const folder = std::getenv(variable);
    EXPECT_NE(folder, nullptr) << variable;
    return test::run({test::shade_binary(), "--version"}, {.environment = {{"LD_LIBRARY_PATH", folder}}});
  };
  const auto with = version_on("SHADE_LIBTORCH_CUDA"), without = version_on("SHADE_LIBTORCH_CPU");
  EXPECT_EQ(with.status, 0);
  EXPECT_TRUE(with.output.ends_with("nccl 2.30.7\n")) << with.output;
  EXPECT_EQ(without.status, 0);
  EXPECT_TRUE(without.output.ends_with("nccl none\n")) << without.output;
}

// NCCL would choose its own interface, or RDMA.
TEST(Nccl, IsKeptOnTheInterfaceThatWasStated) {
  constexpr std::array kVariables{"NCCL_SOCKET_IFNAME", "NCCL_IB_DISABLE", "NCCL_NET", "NCCL_OOB_NET_ENABLE"};
  const auto forget = [&] {
    for (const char* name : kVariables) ::unsetenv(name);
  };
  forget();
  keep_nccl_on("wg0");
  EXPECT_STREQ(std::getenv("NCCL_SOCKET_IFNAME"), "=wg0");
  EXPECT_STREQ(std::getenv("NCCL_IB_DISABLE"), "1");
  EXPECT_STREQ(std::getenv("NCCL_NET"), "Socket");
  EXPECT_STREQ(std::getenv("NCCL_OOB_NET_ENABLE"), "0");
  EXPECT_EQ(fault_of([] { keep_nccl_on("wg0"); }), "") << "the same again";
  for (const auto& [name, value] :
       {std::pair{"NCCL_SOCKET_IFNAME", "eth"}, {"NCCL_IB_DISABLE", "0"}, {"NCCL_NET", "AWS Libfabric"}}) {
    forget();
    ::setenv(name, value, 1);
    EXPECT_TRUE(fault_of([] {
                  keep_nccl_on("wg0");
                }).starts_with(text(name, "=", value, " contradicts the interface wg0 (--comm.interface)")))
        << name;
  }
  forget();
}

}  // namespace
}  // namespace shade::comm
