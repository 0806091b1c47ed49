// shade: the program. Finds the verb, runs it, turns errors into messages and exit statuses (docs/errors.md).
#include <c10/util/Exception.h>
#include <c10/util/Logging.h>

#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "shade/base/explain.h"
#include "shade/base/strings.h"
#include "shade/base/terminal.h"
#include "shade/base/visible_text.h"
#include "shade/cli/before_libraries.h"
#include "shade/cli/describe.h"
#include "shade/cli/memory.h"
#include "shade/cli/verb.h"
#include "shade/cli/version.h"
#include "shade/comm/errors.h"
#include "shade/io/strict_json.h"

namespace shade::cli {
namespace {

constexpr auto kVerbs = std::to_array<Verb>({
    {"account", "the epsilon of a run, or the sigma for an epsilon", declare_account},
    {"audit", "attack on the privacy claim of a step, a training or a model", declare_audit},
    {"bench", "one measured experiment", declare_bench},
    {"calibrate", "measurement of this machine as a device profile for plans", declare_calibrate},
    {"comm", "measurement of the collectives on this machine", declare_comm},
    {"compare", "a matrix of experiments", declare_compare},
    {"data", "contents of a folder of data, or a synthetic corpus", declare_data},
    {"doctor", "check whether training can run on this machine, and how to fix what is missing", declare_doctor},
    {"eval", "loss, accuracy, F1 and exact match of a trained model", declare_eval},
    {"generate", "text from a trained model", declare_generate},
    {"launch", "start any command as several ranks on this host", declare_launch},
    {"ledger", "epsilon that private runs on a data set have spent, and what is left", declare_ledger},
    {"plan", "memory, traffic and work of a run, before it is run", declare_plan},
    {"release", "the files of a run that may be published, with the privacy statement", declare_release},
    {"report", "table, pictures and HTML page from a folder of results", declare_report},
    {"scan", "growth of each phase with the sequence length, and the bottleneck", declare_scan},
    {"train", "training or fine-tuning from a recipe, private or not", declare_train},
    {"verify", "check of every private gradient against its definition", declare_verify},
});

void print_help() {
  std::printf(
      "Shade trains large models sharded over many ranks, with or without differential privacy.\n\n"
      "usage: shade VERB [options]\n\nverbs\n");
  for (const auto& verb : kVerbs) std::printf("  %-10s %s\n", verb.name, verb.summary);
  std::printf(
      "\n  shade VERB --help   options and an example\n  shade --version     versions and backends\n"
      "  shade completion bash|zsh|fish   completion of verbs, options and values for a shell\n\n"
      "Examples:\n"
      "  shade doctor\n"
      "  shade plan --model FOLDER --dp auto --batch-size 8\n"
      "  shade train --model FOLDER --data-folder records --dp auto --target-epsilon 8 --steps 500 --output "
      "runs/first\n"
      "  shade report runs/first\n");
}

const Verb& find(const std::string& name) {
  std::vector<std::string> names;
  for (const auto& verb : kVerbs) {
    if (name == verb.name) return verb;
    names.emplace_back(verb.name);
  }
  SHADE_REQUIRE(!name.starts_with("-"), "unknown verb '", name, "': the verb comes first, e.g. shade train ", name,
                " (shade --help lists them)");
  SHADE_REQUIRE(!name.ends_with(".toml"), "unknown verb '", name, "': a recipe is trained with shade train ", name);
  throw UsageError(text("unknown verb '", name, "'", suggestion(name, names), " (shade --help lists them)"));
}

int fail(const std::string& verb, const std::string& what, int status) {
  std::fprintf(stderr, "%s %s\n",
               coloured(verb.empty() ? "shade:" : "shade " + verb + ":", Colour::red, stderr).c_str(),
               visible_lines(what).c_str());
  if (status == kUsageStatus && !verb.empty())
    std::fprintf(stderr, "  shade %s --help shows the options.\n", verb.c_str());
  return status;
}

// Ranks that torchrun, Slurm or mpirun started on a host have the same words and files: one of them prints what is
// wrong with those.
bool speaks_for_its_host() {
  try {
    return comm::place_from_environment().local_rank == 0;
  } catch (const UsageError&) {
    return true;
  }
}

// Options may be spelled with underscores, as Python's scripts do; what follows a bare -- is not ours.
Arguments own_spelling(Arguments words) {
  const auto end = std::find(words.begin(), words.end(), "--");
  std::transform(words.begin(), end, words.begin(), [](const std::string& word) { return dashed(word); });
  return words;
}

// Names that no JSON file can hold are refused before the work, not after it.
void require_utf8(const Arguments& words) {
  for (const auto& word : words) {
    if (word == "--") return;  // what follows is not ours
    SHADE_REQUIRE(!io::first_not_utf8(word), "the argument ", io::quote(word),
                  " is not valid UTF-8; rename the file or folder, or convert the text (iconv)");
  }
}

// A document or chat program made a long dash of two short ones.
void require_plain_dashes(const Arguments& words) {
  for (size_t i = 0; i < words.size() && words[i] != "--"; ++i) {  // what follows is not ours
    if (i > 0 && words[i - 1].starts_with("-")) continue;          // perhaps its value, such as a prompt
    for (const std::string_view dash : {"\u2013", "\u2014", "\u2212"}) {
      const auto end = words[i].starts_with(dash) ? words[i].find_first_not_of('-', dash.size()) : std::string::npos;
      SHADE_REQUIRE(end == std::string::npos, "'", words[i],
                    "' begins with a typographic dash, as programs that format text make it of two hyphens; type --",
                    words[i].substr(std::min(end, words[i].size())));
    }
  }
}

int run(const Arguments& arguments) {
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h" || arguments[0] == "help") {
    print_help();
    return 0;
  }
  if (arguments[0] == "--version" || arguments[0] == "version") {
    std::printf("%s", version_text().c_str());
    return 0;
  }
  std::string verb;
  try {
    const Arguments rest(arguments.begin() + 1, arguments.end());
    if (arguments[0] == "completion") return run_completion(kVerbs, rest);
    if (arguments[0] == "man-pages") return run_man_pages(kVerbs, rest);
    const auto& found = find(arguments[0]);
    verb = found.name;
    require_utf8(arguments);
    require_plain_dashes(rest);
    const auto invocation = found.declare();
    if (rest == Arguments{kDescribe}) {
      std::printf("%s\n", invocation->description().json().dump(2).c_str());
      return 0;
    }
    return invocation->run(without_token(own_spelling(rest)));
  } catch (const Told& told) {
    return told.status;
  } catch (const RankUsageError& fault) {
    return fail(verb, fault.what(), kUsageStatus);
  } catch (const UsageError& fault) {
    return speaks_for_its_host() ? fail(verb, fault.what(), kUsageStatus) : kUsageStatus;
  } catch (const comm::PeerLost& fault) {
    return fail(verb, fault.what(), comm::kPeerLostStatus);
  } catch (const c10::Error& fault) {
    const std::string what = fault.what_without_backtrace();
    return fail(verb, out_of_memory(what).value_or(text("an operation of libtorch failed: ", what)), 1);
  } catch (const std::bad_alloc&) {
    return fail(verb, out_of_memory_text(), 1);
  } catch (const std::exception& fault) {
    return fail(verb, explain(fault), 1);
  }
}

// Output that a full disk took none of is no success. Of a closed pipe nothing is said: its reader has what it wants.
int written(int status) {
  errno = 0;
  const bool flushed = std::fflush(stdout) == 0;
  int fault = errno;
  if (flushed && std::ferror(stdout) == 0) return status;
  if (flushed && ::write(STDOUT_FILENO, "", 0) < 0) fault = errno;  // it failed before; the reason may still be there
  pollfd reader{STDOUT_FILENO, POLLOUT, 0};
  if (fault == EPIPE || (::poll(&reader, 1, 0) == 1 && (reader.revents & POLLERR) != 0)) return status;
  const auto why = fault != 0 ? ": " + reason_of(fault) : std::string();
  return fail("", "standard output could not be written" + why, status == 0 ? 1 : status);
}

}  // namespace
}  // namespace shade::cli

// Tensors of tens of megabytes come and go in every step. glibc either gives each back to the system and faults its
// pages in again, or keeps them and leaves holes between them: 1.34 times the memory of the tensors. jemalloc with one
// arena that gives nothing back by itself is as fast and needs 1.1 times (docs/architecture.md). Read before main().
extern "C" const char* malloc_conf;
const char* malloc_conf = "oversize_threshold:0,dirty_decay_ms:-1,narenas:1";

int main(int argc, char** argv) {
  // The first process of a container has no default actions.
  if (::getpid() == 1)
    for (const int number : {SIGTERM, SIGINT}) std::signal(number, [](int signal) { ::_exit(128 + signal); });
  shade::cli::forget_short_waits();
  ::prctl(PR_SET_NAME, "shade");  // a program that starts itself again is called "exe"
  // Beyond `ulimit -f` a write then fails with a reason. A handler, unlike SIG_IGN, is not inherited by other programs.
  std::signal(SIGXFSZ, [](int) {});
  // The profiler inside libtorch calls a machine without a GPU an error. Set before there are threads.
  setenv("KINETO_LOG_LEVEL", "99", 0);
  // libtorch's connections log errors that they also throw, with a stack of addresses; TORCH_CPP_LOG_LEVEL shows them.
  if (std::getenv("TORCH_CPP_LOG_LEVEL") == nullptr)
    FLAGS_caffe2_log_level = c10::GLOG_FATAL;
  else
    c10::initLogging();
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  shade::cli::hide_token(argv + 1, argv + argc);
  return shade::cli::written(shade::cli::run(arguments));
}
