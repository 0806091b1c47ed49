#include "shade/comm/job/program.h"

#include <c10/util/Exception.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "shade/base/error.h"
#include "shade/base/visible_text.h"
#include "shade/comm/errors.h"

namespace shade::comm {
namespace {

int tell(const std::string& program, const char* what, int status) {
  std::fprintf(stderr, "%s: %s\n", program.c_str(), visible_lines(what).c_str());
  return status;
}

// The exception that is handled.
int tell_fault(const std::string& program) {
  try {
    throw;
  } catch (const UsageError& fault) {
    return tell(program, fault.what(), 2);
  } catch (const PeerLost& fault) {
    return tell(program, fault.what(), kPeerLostStatus);
  } catch (const c10::Error& fault) {
    return tell(program, fault.what_without_backtrace(), 1);
  } catch (const std::exception& fault) {
    return tell(program, fault.what(), 1);
  }
}

}  // namespace

int run_program(int argc, char** argv, const std::function<void(World&)>& body) {
  const auto program = argc > 0 ? std::filesystem::path(argv[0]).filename().string() : std::string("program");
  std::optional<World> world;
  try {
    world.emplace(World::connect(place_from_environment(), {}, {.overdue = [program](const Loss& loss) {
                                   std::_Exit(tell(program, loss.message.c_str(), loss.exit_status()));
                                 }}));
    body(*world);
    world->leave();
    return 0;
  } catch (...) {
    if (world) world->fail(std::current_exception());
    return tell_fault(program);
  }
}

}  // namespace shade::comm
