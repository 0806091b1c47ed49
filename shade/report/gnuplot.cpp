#include "shade/report/gnuplot.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <cerrno>

#include "shade/base/error.h"
#include "shade/base/explain.h"
#include "shade/base/files.h"
#include "shade/base/program_path.h"
#include "shade/base/strings.h"
#include "shade/base/visible_text.h"
#include "shade/report/report.h"

namespace shade::report {
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

// For double quotes: all but harmless characters as octal numbers. gnuplot runs what stands in backquotes inside double
// quotes; single quotes are no way out, since 5.4 ends such a string at a doubled quote if that is its first character.
std::string escaped(std::string_view words) {
  constexpr size_t kShown = 160;
  constexpr std::string_view kHarmless = " _-+.,:/()%='";
  std::string out;
  bool after_number = false;  // gnuplot would read a digit that follows as part of it
  for (const char c : visible(words, kShown)) {
    const auto byte = static_cast<unsigned char>(c);
    const bool digit = std::isdigit(byte) != 0;
    const bool plain =
        digit ? !after_number : byte >= 0x80 || std::isalpha(byte) != 0 || kHarmless.find(c) != std::string_view::npos;
    const auto octal = [&](int shift) { return static_cast<char>('0' + (byte >> shift & 7)); };
    if (plain)
      out += c;
    else
      out += {'\\', octal(6), octal(3), octal(0)};
    after_number = !plain;
  }
  return out;
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
    // -d: no .gnuplot of the home or, in old versions, of the folder.
    if (::chdir(directory.c_str()) == 0) ::execl(path.c_str(), "gnuplot", "-d", script.c_str(), nullptr);
    ::_exit(127);
  }
  const int fault = errno;
  ::close(ends[1]);
  if (child < 0) {
    ::close(ends[0]);
    throw Error(cannot_start("gnuplot", fault));
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

std::optional<std::filesystem::path> find_gnuplot() { return program_in(search_path(), "gnuplot"); }

std::string draw(const Picture& picture, const std::filesystem::path& folder, Readers readers) {
  const auto program = find_gnuplot();
  if (!program) return "gnuplot is not in PATH";
  make_report_folder(folder / "scripts", readers);
  const auto script = text("scripts/", picture.name, ".gp");
  const auto png = folder / (picture.name + ".png");
  make_file(folder / script, readers);
  make_file(png, readers);  // gnuplot writes into it and leaves its mode
  write_output(folder / script,
               text("# gnuplot ", script, ", in the folder of the pictures\n", preamble(picture), picture.script),
               readers);
  int status = 0;
  const auto said = run_gnuplot(*program, folder, script, status);
  std::error_code absent;
  if (status == 0 && std::filesystem::file_size(png, absent) > 0 && !absent) return "";
  std::filesystem::remove(png, absent);
  return text("gnuplot failed on ", folder / script, ": ", trim(said));
}

std::string quoted_for_gnuplot(std::string_view words) { return text('"', escaped(words), '"'); }

std::string quoted_for_gnuplot(std::string_view upper, std::string_view lower) {
  return upper.empty() ? quoted_for_gnuplot(lower) : text('"', escaped(upper), "\\n", escaped(lower), '"');
}

std::string tic_for_gnuplot(const std::string& quoted, double at) {
  return text(join(split(quoted, '%'), "%%"), " ", at);
}

}  // namespace shade::report
