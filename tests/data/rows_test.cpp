// Rows of .csv and compressed files, and which fields of a row make a record.
#include <zlib.h>
#include <zstd.h>

#include "record_files.h"

namespace shade::data {
namespace {

using Shown = std::vector<std::string>;

Shown shown(const std::string& name, std::string_view content, const RecordOptions& options = {}) {
  const io::Scratch folder;
  return shown_in(folder.write(name, content), options);
}

std::string refused(const std::string& name, std::string_view content, const RecordOptions& options = {}) {
  const io::Scratch folder;
  return refusal_of(folder.write(name, content), options);
}

std::string gzipped(std::string_view words) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, words.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(words.data()));
  stream.avail_in = static_cast<uInt>(words.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string zstandard(std::string_view words) {
  std::string out(ZSTD_compressBound(words.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), words.data(), words.size(), 3));
  return out;
}

TEST(Csv, IsReadByItsStandard) {
  const std::string plain = "id,text,label\n1,one,a\n2,\"two\nlines, \"\"quoted\"\"\",b\n\n3,\"\",\n4, spaces ,\"\"\n";
  const Shown expected{"one #a :2", "two\nlines, \"quoted\" #b :3", " :6", " spaces  # :7"};
  EXPECT_EQ(shown("a.csv", plain), expected);
  std::string crlf = "\xEF\xBB\xBF";
  for (const char c : plain) crlf += c == '\n' ? "\r\n" : std::string(1, c);
  EXPECT_EQ(shown("a.csv", crlf)[1], "two\r\nlines, \"quoted\" #b :3");
  EXPECT_EQ(shown("a.csv", crlf)[3], expected[3]);
  EXPECT_EQ(shown("a.csv", "text\nno end of line"), Shown{"no end of line :2"});
  EXPECT_EQ(shown("a.csv", "text\n"), Shown{});
}

TEST(Csv, OfSeveralBlocksIsTheSame) {
  std::string file = "text,other\n";
  Shown expected;
  for (int i = 0; i < 60'000; ++i) {
    file += "\"record, \"\"" + std::to_string(i) + "\"\"\",\"left out\nof it\"\n";
    expected.push_back("record, \"" + std::to_string(i) + "\" :" + std::to_string(2 + 2 * i));
  }
  ASSERT_GT(file.size(), size_t{2} << 20);
  EXPECT_EQ(shown("a.csv", file), expected);
}

TEST(Csv, FaultsNameTheLine) {
  const std::string good = "text,label\none,a\n";
  EXPECT_EQ(refused("a.csv", ""), "a.csv:1: the file is empty; expected a header row with the names of the fields");
  EXPECT_EQ(refused("a.csv", good + "two\n"), "a.csv:3: the row has 1 field; the header has 2 ('label' is the last)");
  EXPECT_EQ(refused("a.csv", good + "two,b,c\n"),
            "a.csv:3: the row has more than 2 fields; the header has 2 ('label' is the last)");
  EXPECT_EQ(refused("a.csv", good + "\"two\nx,b\n"),
            "a.csv:3: a quoted field that has no closing quote; is the file complete?");
  EXPECT_EQ(refused("a.csv", good + "tw\"o,b\n"),
            "a.csv:3: a quote inside a field that is not quoted; put the field into quotes and double those in it");
  EXPECT_EQ(
      refused("a.csv", good + "\"two\" ,b\n"),
      "a.csv:3: after a closing quote there is ' '; expected a comma or the end of the line (quotes inside a field "
      "are doubled)");
  EXPECT_EQ(refused("a.csv", "text,text\n"), "a.csv:1: the header has the field 'text' twice");
  EXPECT_EQ(refused("a.csv", "text,\n"), "a.csv:1: field 2 of the header has no name");
  EXPECT_EQ(refused("a.csv", "text;label\n"),
            "a.csv:1: the header has one field, 'text;label'; fields must be separated by commas");
  EXPECT_EQ(refused("a.csv", good + "one\rtwo,b\r"),
            "a.csv:3: a carriage return without a line feed; end lines with \\n or \\r\\n");
  EXPECT_EQ(refused("a.csv", good + "\"a\n\xFF\",b\n"),
            "a.csv:4: the text is not UTF-8; convert the file, e.g. with iconv -t UTF-8");
  EXPECT_EQ(refused("a.csv", std::string_view("t\0e\0", 4)),
            "a.csv:1: a NUL byte; is the file UTF-16? Convert it, e.g. with iconv -f UTF-16 -t UTF-8");
  EXPECT_EQ(refused("a.csv", good + ",b\n"), "a.csv:3: 'text' must be a string, found an empty cell");
  EXPECT_EQ(refused("a.csv", good + "\"" + std::string(size_t{65} << 20, 'x')),
            "a.csv:3: a row of more than 64.0 MiB; is a quote missing?");
}

TEST(Compressed, TextsAreReadAsPlainOnes) {
  std::string lines;
  for (int i = 0; i < 50'000; ++i) lines += "{\"text\":\"record " + std::to_string(i * 7919 % 50'000) + "\"}\n";
  const auto expected = shown("a.jsonl", lines);
  EXPECT_EQ(shown("a.jsonl.gz", gzipped(lines)), expected);
  EXPECT_EQ(shown("a.jsonl.zst", zstandard(lines)), expected);
  const auto half = lines.find('\n', lines.size() / 2) + 1;  // several frames in a row are one text
  EXPECT_EQ(shown("a.jsonl.gz", gzipped(lines.substr(0, half)) + gzipped(lines.substr(half))), expected);
  EXPECT_EQ(shown("a.jsonl.zst", zstandard(lines.substr(0, half)) + zstandard(lines.substr(half))), expected);
  EXPECT_EQ(shown("a.csv.gz", gzipped("text\nx\n")), Shown{"x :2"});
  EXPECT_EQ(shown("a.txt.zst", zstandard("x\n\ny"), {.unit = TextUnit::paragraph}), (Shown{"x :1", "y :3"}));
  EXPECT_EQ(shown("a.json.gz", gzipped("[{\"text\":\"x\"}]")), Shown{"x :1"});
}

TEST(Compressed, DamageIsRefused) {
  const std::string lines(3'000, 'x');
  for (const auto& [name, whole] : {std::pair("a.txt.gz", gzipped(lines)), {"a.txt.zst", zstandard(lines)}}) {
    SCOPED_TRACE(name);
    const auto begin = std::string(name) + ": the file cannot be unpacked: ";
    EXPECT_EQ(refused(name, whole.substr(0, whole.size() - 1)),
              begin + "it ends in the middle of the compressed data; is the file complete?");
    EXPECT_EQ(refused(name, ""), begin + "it is empty");
    EXPECT_TRUE(refused(name, lines).starts_with(begin)) << refused(name, lines);
    EXPECT_TRUE(refused(name, whole + "more").starts_with(begin));
    EXPECT_EQ(refused(name, whole), "");
  }
  auto damaged = gzipped(lines);
  damaged[damaged.size() - 6] ^= 1;  // of its checksum
  EXPECT_EQ(refused("a.txt.gz", damaged), "a.txt.gz: the file cannot be unpacked: incorrect data check, after byte 0");
}

TEST(Compressed, BombsAreRefused) {
  const auto advice = ": it unpacks to more than 200 times its size; unpack the file yourself if that is right";
  std::string lines;
  for (int i = 0; i < 80; ++i) lines += std::string((size_t{1} << 20) - 1, 'x') + "\n";
  EXPECT_EQ(refused("a.txt.gz", gzipped(lines), {.unit = TextUnit::line}), std::string("a.txt.gz") + advice);
  EXPECT_EQ(refused("a.txt.zst", zstandard(lines), {.unit = TextUnit::line}), std::string("a.txt.zst") + advice);
}

TEST(RecordFields, AreFoundByConventionalNames) {
  EXPECT_EQ(shown("a.jsonl", "{\"text\":\"x\",\"label\":3,\"user\":\"u\"}"), Shown{"x #3 :1"});
  EXPECT_EQ(shown("a.jsonl", "{\"completion\":\"y\",\"prompt\":\"x\"}"), Shown{"x|y :1"});
  EXPECT_EQ(shown("a.csv", "prompt,response\nx,y\n"), Shown{"x|y :2"});
  const io::Scratch folder;
  const auto records = records_in(folder.write("a.jsonl", "{\"prompt\":\"x\",\"completion\":\"y\"}"));
  EXPECT_EQ(records[0].parts, (std::vector<Part>{{"x", false}, {"y", true}}));
}

TEST(RecordFields, AreThoseThatAreNamed) {
  const std::string row = "{\"text\":\"t\",\"body\":\"b\",\"topic\":7,\"who\":12,\"label\":\"l\"}";
  EXPECT_EQ(shown("a.jsonl", row, {.fields = {.text = "body"}}), Shown{"b #l :1"});
  EXPECT_EQ(
      shown("a.jsonl", row, {.fields = {.prompt = "text", .completion = "body", .label = "topic", .user = "who"}}),
      Shown{"t|b #7 @12 :1"});
  EXPECT_EQ(shown("a.csv", "a,b\nx,y\n", {.fields = {.text = "b", .user = "a"}}), Shown{"y @x :2"});
}

TEST(RecordFields, OfANameThatIsNotThereAreRefused) {
  const std::string good = "{\"text\":\"x\",\"who\":\"u\",\"topic\":\"a\"}\n";
  const RecordOptions options{.fields = {.label = "topic", .user = "who"}};
  EXPECT_EQ(refused("a.jsonl", good, options), "");
  EXPECT_EQ(refused("a.jsonl", good + "{\"text\":\"x\",\"topic\":\"a\"}", options),
            "a.jsonl:2: there is no field 'who'; the row has the fields 'text', 'topic'");
  EXPECT_EQ(refused("a.jsonl", good + "{\"text\":\"x\",\"who\":null,\"topic\":\"a\"}", options),
            "a.jsonl:2: 'who' must be a string or a whole number from 0, found null");
  EXPECT_EQ(refused("a.jsonl", good + "{\"text\":\"x\",\"who\":\"\",\"topic\":\"a\"}", options),
            "a.jsonl:2: 'who' is ''; expected the name of the record's user, without white space around it");
  EXPECT_EQ(refused("a.jsonl", good + "{\"text\":\"x\",\"who\":true,\"topic\":\"a\"}", options),
            "a.jsonl:2: 'who' must be a string or a whole number from 0, found a boolean");
  EXPECT_EQ(refused("a.jsonl", good + "{\"text\":\"x\",\"who\":1,\"topic\":null}", options),
            "a.jsonl:2: 'topic' must be a string or a whole number from 0, found null");
  EXPECT_EQ(refused("a.jsonl", "{\"text\":null}"), "a.jsonl:1: 'text' must be a string, found null");
  EXPECT_EQ(refused("a.txt", "words", options), "a.txt:1: there is no field 'topic'; the row has the fields 'text'");
}

TEST(RecordFields, MustBeOneLayout) {
  const auto how =
      "; name the fields to train on: --text-field, or --prompt-field and --completion-field, or --messages-field";
  EXPECT_EQ(refused("a.jsonl", "{\"txt\":\"x\",\"prompt\":\"y\"}"),
            std::string("a.jsonl:1: expected a field 'text', or 'prompt' and 'completion', or 'messages', found the "
                        "fields 'txt', 'prompt'") +
                how);
  EXPECT_EQ(refused("a.jsonl", "{\"text\":\"x\",\"prompt\":\"y\",\"completion\":\"z\"}"),
            std::string("a.jsonl:1: the row can be read in two ways, by 'text' and by 'prompt' + 'completion'") + how);
  EXPECT_NE(refused("a.jsonl", "{\"text\":\"x\"}", {.fields = {.text = "a", .messages = "b"}}).find("name one"),
            std::string::npos);
  EXPECT_NE(refused("a.jsonl", "{\"text\":\"x\"}", {.fields = {.prompt = "a"}}).find("name both"), std::string::npos);
  const io::Scratch folder;
  folder.write("a.jsonl", "{\"text\":\"x\"}");
  folder.write("b.csv", "prompt,completion\nx,y\n");
  EXPECT_EQ(refusal_of(folder.path()),
            "b.csv:2: there is no field 'text'; the row has the fields 'prompt', 'completion'");
}

}  // namespace
}  // namespace shade::data
