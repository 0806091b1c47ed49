#include "shade/experiment/report_gnuplot.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>

#include "shade/base/error.h"
#include "shade/base/strings.h"

namespace shade::experiment {
namespace {

// pngcairo has the better letters; builds without cairo have png. noenhanced: names have underscores.
std::string preamble(const Picture& picture) {
  const auto size = text("size ", picture.width, ",", picture.height, " noenhanced");
  return text("if (strstrt(GPVAL_TERMINALS, 'pngcairo') > 0) {\n  set terminal pngcairo ", size,
              " background rgb '#ffffff' font 'DejaVu Sans,12'\n} else {\n  set terminal png ", size, "\n}\n",
              "set output '", picture.name, ".png'\n",
              "set style fill solid 0.9 noborder\nset border 3 lc rgb '#606060'\nset tics nomirror out scale 0.6\n"
              "set grid ytics lt 1 lc rgb '#e2e2e2' lw 1\nset key outside right top vertical Left reverse\n"
              "set title font ',14'\n");
}

// Runs gnuplot in the folder and returns what it said; its exit status is told by `status`.
std::string run_gnuplot(const std::filesystem::path& program, const std::filesystem::path& folder,
                        const std::string& script, int& status) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw Error("cannot make a pipe to gnuplot; too many open files?");
  const auto path = program.string(), directory = folder.string();
  const auto child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], STDOUT_FILENO);
    ::dup2(ends[1], STDERR_FILENO);
    if (::chdir(directory.c_str()) == 0) ::execl(path.c_str(), "gnuplot", script.c_str(), nullptr);
    ::_exit(127);
  }
  ::close(ends[1]);
  if (child < 0) {
    ::close(ends[0]);
    throw Error("cannot start gnuplot: no more processes");
  }
  std::string said;
  std::array<char, 4096> part{};
  for (ssize_t count = 0; (count = ::read(ends[0], part.data(), part.size())) > 0;)
    said.append(part.data(), static_cast<size_t>(count));
  ::close(ends[0]);
  ::waitpid(child, &status, 0);
  return said;
}

}  // namespace

std::optional<std::filesystem::path> find_gnuplot() {
  const char* path = std::getenv("PATH");
  for (const auto& folder : split(path == nullptr ? "" : path, ':')) {
    const auto file = std::filesystem::path(folder) / "gnuplot";
    if (::access(file.c_str(), X_OK) == 0) return std::filesystem::absolute(file);
  }
  return std::nullopt;
}

std::string draw(const Picture& picture, const std::filesystem::path& folder) {
  const auto program = find_gnuplot();
  if (!program) return "gnuplot is not in PATH";
  std::filesystem::create_directories(folder / "scripts");
  const auto script = text("scripts/", picture.name, ".gp");
  std::ofstream(folder / script) << "# gnuplot " << script << ", in the folder of the pictures\n"
                                 << preamble(picture) << picture.script;
  int status = 0;
  const auto said = run_gnuplot(*program, folder, script, status);
  const auto png = folder / (picture.name + ".png");
  std::error_code absent;
  if (status == 0 && std::filesystem::file_size(png, absent) > 0 && !absent) return "";
  return text("gnuplot failed on ", folder / script, ": ", trim(said));
}

std::string quoted_for_gnuplot(const std::string& words) {
  std::string out = "'";
  for (const char c : words) out += c == '\'' ? std::string("''") : std::string(1, c == '\n' ? ' ' : c);
  return out + "'";
}

}  // namespace shade::experiment
