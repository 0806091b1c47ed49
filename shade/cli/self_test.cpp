#include "shade/cli/self_test.h"

#include <fstream>

#include "shade/base/temporary_folder.h"
#include "shade/base/visible_text.h"
#include "shade/comm/job/forget_place.h"
#include "shade/measure/runner.h"

namespace shade::cli {
namespace {

namespace fs = std::filesystem;

constexpr Seconds kLimit{300};  // of each command; an idle machine takes a few seconds

constexpr const char* kRepeat = "repeat it and read its output: shade ";

struct Ran {
  Check check;
  Json result;  // null if it failed
};

// The line that names the fault; `otherwise` if there is none.
std::string complaint(const fs::path& log, const std::string& verb, const std::string& otherwise) {
  std::ifstream in(log);
  for (std::string line; std::getline(in, line);)
    if (line.find(text("shade ", verb, ": ")) != std::string::npos || line.find("failed first") != std::string::npos)
      return line;
  return otherwise;
}

Ran ran(const std::string& name, const std::vector<std::string>& words, const fs::path& log, const fs::path& json) {
  std::vector<std::string> command{"/proc/self/exe"};
  command.insert(command.end(), words.begin(), words.end());
  command.insert(command.end(), {"--json", json.string()});
  const auto begin = Clock::now();
  const auto outcome = measure::run_isolated({.command = command, .log = log, .limit = kLimit});
  const Seconds took = Clock::now() - begin;
  Ran out{.check = {.name = name, .figures = {{"seconds", took.count()}}}, .result = nullptr};
  if (fs::exists(json)) out.result = read_json(json);
  if (outcome.ok) {
    out.check.found = to_string(took);
    return out;
  }
  out.check.verdict = Verdict::failed;
  out.check.found = visible(complaint(log, words.front(), outcome.reason), 400);
  const bool late = took >= kLimit;
  out.check.mend = text(late ? "close other programs and repeat it: shade " : kRepeat, join(words, " "));
  return out;
}

Check gradients(const std::vector<std::string>& where, const TemporaryFolder& folder) {
  std::vector<std::string> words{"verify",  "--model", "llama-nano",   "--dtype", "fp32",
                                 "--shard", "zero3",   "--clip-style", "flat"};
  words.insert(words.end(), where.begin(), where.end());
  auto [out, result] = ran("private gradient", words, folder / "verify.log", folder / "verify.json");
  if (result.is_null()) return out;
  size_t wrong = 0;
  std::string methods;
  for (const auto& row : result["rows"])
    if (!row["pass"].get<bool>()) {
      ++wrong;
      methods += text(methods.empty() ? "" : ", ", row["method"].get<std::string>());
    }
  const auto cases = result["rows"].size();
  out.figures["cases"] = cases;
  out.figures["wrong"] = wrong;
  out.found = wrong == 0 ? text(cases, " clipping methods equal one sample at a time, 2 ranks, ", out.found)
                         : text(wrong, " of ", cases, " clipping methods are wrong: ", visible(methods, 200));
  return out;
}

Check step(const std::vector<std::string>& where, const TemporaryFolder& folder) {
  std::vector<std::string> words{"train",
                                 "--model",
                                 "llama-nano",
                                 "--from-scratch",
                                 "--synthetic",
                                 "--dp",
                                 "auto",
                                 "--sigma",
                                 "1",
                                 "--delta",
                                 "1e-2",
                                 "--train.records",
                                 "32",
                                 "--batch-size",
                                 "8",
                                 "--steps",
                                 "1",
                                 "--seq",
                                 "16",
                                 "--shard",
                                 "zero3",
                                 "--max-grad-norm",
                                 "1"};
  words.insert(words.end(), where.begin(), where.end());
  const auto shown = words;
  words.insert(words.end(), {"--output", (folder / "run").string()});
  auto [out, result] = ran("private step", words, folder / "train.log", folder / "train.json");
  if (out.verdict != Verdict::ok) {
    out.mend = text(kRepeat, join(shown, " "));
    return out;
  }
  SHADE_REQUIRE(result.contains("epsilon"), "the private step reported no epsilon");
  const double epsilon = result["epsilon"].get<double>();
  out.figures["epsilon"] = epsilon;
  out.found = text("epsilon ", rounded_up(epsilon), " at delta 0.01, 2 ranks, ", out.found);
  return out;
}

}  // namespace

std::vector<Check> self_test(const profile::Gpus& gpus) {
  // The ranks are the launcher's, also where this process is a task of Slurm or mpirun.
  comm::forget_place();
  std::vector<std::string> where{"--ranks", "2"};
  if (gpus.visible < 2) where.insert(where.end(), {"--device", "cpu"});
  try {
    const TemporaryFolder folder("shade_doctor");
    return {gradients(where, folder), step(where, folder)};
  } catch (const std::exception& fault) {
    return {{.name = "self-test",
             .found = visible(fault.what(), 400),
             .verdict = Verdict::failed,
             .mend = "run shade verify --ranks 2 and read its output"}};
  }
}

}  // namespace shade::cli
