// shade doctor: what this machine has, whether training can run, and how to mend what is missing.
#include <algorithm>
#include <cstdio>

#include "shade/base/terminal.h"
#include "shade/base/visible_text.h"
#include "shade/cli/self_test.h"
#include "shade/cli/verb.h"
#include "shade/cli/version.h"

namespace shade::cli {
namespace {

struct DoctorConfig {
  bool self_test = true;

  void declare(Fields& f) {
    f.add("self_test", self_test,
          {.help = "whether to run a self-test: private gradients and one private training step on 2 ranks, about ten "
                   "seconds",
           .flags = {"--self-test"}});
  }
};

Colour colour_of(Verdict verdict) {
  if (verdict == Verdict::ok) return Colour::green;
  return verdict == Verdict::advice ? Colour::yellow : Colour::red;
}

// Printed as soon as it is known: the self-test takes seconds.
void print(const Check& check) {
  std::printf("%s  %-16s %s\n",
              coloured(text(to_string(check.verdict), std::string(6 - to_string(check.verdict).size(), ' ')),
                       colour_of(check.verdict))
                  .c_str(),
              check.name.c_str(), visible(check.found).c_str());
  if (!check.mend.empty()) std::printf("%25s-> %s\n", "", visible(check.mend).c_str());
  std::fflush(stdout);
}

Json json_of(const Check& check) {
  Json out{{"name", check.name}, {"verdict", to_string(check.verdict)}, {"found", check.found}};
  if (!check.mend.empty()) out["mend"] = check.mend;
  out["figures"] = check.figures;
  return out;
}

struct Doctor final : LineVerb {
  DoctorConfig doctor;
  Config config;

  Doctor()
      : LineVerb("doctor",
                 "Checks whether training can run on this machine: hardware, libraries, programs, limits, and a "
                 "self-test\non 2 ranks. Each line that is not ok is followed by the command that fixes it. "
                 "Exit status 0: training can run.",
                 "shade doctor\n  shade doctor --self-test false --json doctor.json") {
    config.add("doctor", doctor);
    line.add(config);
  }

  int run(const Arguments& arguments) override;
};

}  // namespace

std::unique_ptr<Invocation> declare_doctor() { return std::make_unique<Doctor>(); }

int Doctor::run(const Arguments& arguments) {
  if (const auto status = line.parse(arguments)) return *status;
  line.require_effects();
  SHADE_REQUIRE(!line.ranks, "shade doctor checks one host and starts its own ranks; drop --ranks");
  std::vector<Check> checks;
  const auto add = [&](const Check& check) {
    print(check);
    checks.push_back(check);
  };
  const auto host = Host::here();
  for (const auto& check : host_checks(host)) add(check);
  add(loopback_check());
  if (doctor.self_test)
    for (const auto& check : self_test(host.gpus)) add(check);
  const auto count = [&](Verdict verdict) {
    return std::count_if(checks.begin(), checks.end(), [&](const Check& check) { return check.verdict == verdict; });
  };
  const auto failed = count(Verdict::failed), advice = count(Verdict::advice);
  std::printf("\n%s\n", failed > 0 ? "Training can't run on this machine until the failed checks are fixed."
                        : advice > 0
                            ? "Training can run on this machine; the lines marked advice say what would improve it."
                            : "Training can run on this machine.");
  if (!line.json_file.empty()) {
    Json out{{"can_train", failed == 0}, {"version", version()}, {"commit", commit()}, {"checks", Json::array()}};
    for (const auto& check : checks) out["checks"].push_back(json_of(check));
    write_json(line.json_file, out);
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace shade::cli
