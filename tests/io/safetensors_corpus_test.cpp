// Every file of tests/io/corpus gets the verdict and the exact message of expected.tsv, from memory and from disk; and
// the verdict is that of Python's safetensors, or there is a reason why ours is stricter.
#include <gtest/gtest.h>

#include <algorithm>

#include "scratch.h"
#include "shade/base/strings.h"
#include "shade/io/errors.h"
#include "shade/io/safetensors.h"

namespace shade::io {
namespace {

struct Row {
  std::string name, ours, python, why_stricter, message;
};

std::vector<Row> expected() {
  std::vector<Row> rows;
  std::ifstream in(corpus() / "expected.tsv");
  std::string line;
  while (std::getline(in, line)) {
    const auto cells = split(line, '\t');
    if (cells.size() == 5 && cells[0] != "name") rows.push_back({cells[0], cells[1], cells[2], cells[3], cells[4]});
  }
  return rows;
}

std::filesystem::path file_of(const Row& row) { return corpus() / (row.name + ".safetensors"); }

// The message, empty if the file is accepted.
template <class Read>
std::string complaint(Read&& read) {
  try {
    read();
  } catch (const FormatError& fault) {
    return fault.what();
  }
  return {};
}

TEST(SafetensorsCorpus, IsWholeAndLargeEnough) {
  const auto rows = expected();
  const auto bad = std::count_if(rows.begin(), rows.end(), [](const Row& row) { return row.ours == "reject"; });
  EXPECT_GE(bad, 200);
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(corpus()))
    files += entry.path().extension() == ".safetensors" ? 1 : 0;
  EXPECT_EQ(files, rows.size());
}

TEST(SafetensorsCorpus, EveryFileGetsItsVerdictAndMessage) {
  for (const auto& row : expected()) {
    SCOPED_TRACE(row.name);
    EXPECT_EQ(row.ours == "accept", row.message.empty());
    const auto bytes = content(file_of(row));
    EXPECT_EQ(complaint([&] { parse_safetensors_header(std::as_bytes(std::span(bytes))); }), row.message);
  }
}

TEST(SafetensorsCorpus, FromDiskTheMessageNamesTheFile) {
  for (const auto& row : expected()) {
    SCOPED_TRACE(row.name);
    const auto path = file_of(row);
    const auto message = row.ours == "accept" ? std::string()
                                              : text(path, " is not a sound safetensors file: ", row.message,
                                                     "; it is damaged or something else, fetch or write it again");
    EXPECT_EQ(complaint([&] {
                const SafetensorsFile file(path);
                for (const auto& [name, info] : file.header().tensors) EXPECT_EQ(file.tensor(name).sizes(), info.shape);
              }),
              message);
  }
}

TEST(SafetensorsCorpus, PythonSaysTheSameOrWeSayWhyNot) {
  for (const auto& row : expected()) {
    SCOPED_TRACE(row.name);
    EXPECT_FALSE(row.ours == "accept" && row.python == "reject") << "we are never the laxer one";
    EXPECT_EQ(row.ours != row.python, !row.why_stricter.empty());
  }
}

}  // namespace
}  // namespace shade::io
