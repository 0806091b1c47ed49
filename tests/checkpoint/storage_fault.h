// Storage that breaks at the n-th call, for tests: storage_fault.so is loaded before the C library (LD_PRELOAD) and
// does nothing until it is armed. Only files under the armed folder are concerned.
#pragma once

#include <dlfcn.h>

#include <string>

#include "shade/base/error.h"

extern "C" {
// call: "open", "write", "fsync", "rename". The n-th such call from now on (from 1) fails with `fault`, an errno; fault
// 0 is a write of half of the bytes, -1 is the end of the process: SIGKILL before the call.
void storage_fault_arm(const char* folder, const char* call, int n, int fault);
int storage_fault_disarm();  // whether it happened
}

namespace shade::test {

class StorageFault {
 public:
  StorageFault() {
    arm_ = reinterpret_cast<decltype(&storage_fault_arm)>(::dlsym(RTLD_DEFAULT, "storage_fault_arm"));
    disarm_ = reinterpret_cast<decltype(&storage_fault_disarm)>(::dlsym(RTLD_DEFAULT, "storage_fault_disarm"));
    SHADE_REQUIRE(arm_ != nullptr && disarm_ != nullptr,
                  "run this test with LD_PRELOAD=.../storage_fault.so, as ctest does");
  }
  void arm(const std::string& folder, const char* call, int n, int fault) { arm_(folder.c_str(), call, n, fault); }
  bool disarm() { return disarm_() != 0; }

 private:
  decltype(&storage_fault_arm) arm_;
  decltype(&storage_fault_disarm) disarm_;
};

}  // namespace shade::test
