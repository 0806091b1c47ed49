#include "shade/data/records.h"
#include "shade/base/json.h"

#include "folder.h"
#include "shade/io/errors.h"

namespace shade::data {
namespace {

using Texts = std::vector<std::string>;

// The message without the folder's name.
std::string refused(const std::string& name, std::string_view content, TextUnit unit = TextUnit::file) {
  const Folder folder;
  folder.put(name, content);
  auto message = message_of<io::FormatError>([&] { folder.records(unit); });
  const auto begin = folder.path().string() + "/";
  EXPECT_TRUE(message.starts_with(begin)) << message;
  return message.substr(std::min(begin.size(), message.size()));
}

TEST(TextFiles, AreFoundBelowInAFixedOrder) {
  const Folder folder;
  for (const char* name : {"b.txt", "a/z.jsonl", "a/b/c.json", "B.txt", "a-1.txt", "a.txt"}) folder.put(name, "{}");
  folder.put("notes.md", "no");
  folder.put(".hidden/x.txt", "no");
  folder.put("a/.y.txt", "no");
  std::filesystem::create_directories(folder.path() / "folder.txt");
  std::filesystem::create_directory_symlink(folder.path(), folder.path() / "loop");
  Texts names;
  for (const auto& file : find_text_files(folder.path())) names.push_back(file.name);
  EXPECT_EQ(names, (Texts{"B.txt", "a-1.txt", "a.txt", "a/b/c.json", "a/z.jsonl", "b.txt"}));
}

TEST(TextFiles, OneFileIsAFolderOfOne) {
  const Folder folder;
  const auto files = find_text_files(folder.put("only.jsonl", "{\"text\":\"x\"}"));
  ASSERT_EQ(files.size(), 1U);
  EXPECT_EQ(files[0].name, "only.jsonl");
  EXPECT_EQ(files[0].size, 12U);
}

TEST(TextFiles, NoneIsSaid) {
  const Folder folder;
  folder.put("a.md", "x");
  EXPECT_NE(message_of<UsageError>([&] { find_text_files(folder.path()); }).find("has no file that ends in .txt"),
            std::string::npos);
  EXPECT_NE(
      message_of<UsageError>([&] { find_text_files(folder.path() / "a.md"); }).find("has no file that ends in .txt"),
      std::string::npos);
  EXPECT_NE(message_of<UsageError>([&] { find_text_files(folder.path() / "gone"); }).find("no data at"),
            std::string::npos);
}

TEST(Records, Jsonl) {
  const Folder folder;
  folder.put("a.jsonl",
             "{\"text\": \"one\\nline\", \"label\": \"x\"}\r\n\n  \t\n"
             "{\"id\": [1, {\"text\": 5}], \"label\": 7, \"text\": \"\"}\n{\"text\":\"last\",\"label\":null}");
  const auto records = folder.records();
  ASSERT_EQ(records.size(), 3U);
  EXPECT_EQ(records[0].text(), "one\nline");
  EXPECT_EQ(records[0].label, "x");
  EXPECT_EQ(records[1].text(), "");
  EXPECT_EQ(records[1].label, "7");
  EXPECT_EQ(records[1].line, 4);
  EXPECT_EQ(records[2].text(), "last");
  EXPECT_FALSE(records[2].label);
}

TEST(Records, Json) {
  const Folder folder;
  folder.put("a.json", "{\"text\": \"one\"}\n");
  folder.put("b.json", " [\n{\"text\": \"a]},{\\\"\\\\\"} ,\n\n  {\"x\": [[1], {}], \"text\": \"b\"}\n]\n");
  folder.put("c.json", "[]");
  EXPECT_EQ(folder.texts(), (Texts{"one", "a]},{\"\\", "b"}));
  EXPECT_EQ(folder.records()[2].line, 4);
}

TEST(Records, TextFileParagraphLine) {
  const Folder folder;
  folder.put("a.txt",
             "\xEF\xBB\xBF"
             "one\r\ntwo\n\n \t\nthree\n\n");
  folder.put("b.txt", "four");
  EXPECT_EQ(folder.texts(), (Texts{"one\r\ntwo\n\n \t\nthree\n\n", "four"}));
  EXPECT_EQ(folder.texts(TextUnit::paragraph), (Texts{"one\ntwo", "three", "four"}));
  EXPECT_EQ(folder.texts(TextUnit::line), (Texts{"one", "two", "three", "four"}));
  EXPECT_EQ(folder.records(TextUnit::paragraph)[1].line, 5);
}

TEST(Records, Utf8EdgeCases) {
  const Folder folder;
  const std::string words =
      "\x7F \xC2\x80 \xDF\xBF \xE0\xA0\x80 \xED\x9F\xBF \xEE\x80\x80 \xF0\x90\x80\x80 \xF4\x8F\xBF\xBF";
  folder.put("a.txt", words);
  folder.put("b.jsonl", "{\"text\":\"" + words.substr(2) + "\\u0000\\ud83d\\ude00\"}");
  const auto texts = folder.texts();
  EXPECT_EQ(texts[0], words);
  EXPECT_EQ(texts[1], words.substr(2) + std::string(1, '\0') + "\xF0\x9F\x98\x80");

  const std::string advice = "the text is not UTF-8; convert the file, e.g. with iconv -t UTF-8";
  EXPECT_EQ(refused("a.txt", "ok\nok\n\xC0\xAF"), "a.txt:3: " + advice);
  EXPECT_EQ(refused("a.txt", "ok\n\xED\xA0\x80\nok", TextUnit::line), "a.txt:2: " + advice);
  EXPECT_EQ(refused("a.txt", "ok\n\none\ntwo \xFF", TextUnit::paragraph), "a.txt:4: " + advice);
  EXPECT_EQ(refused("a.jsonl", "{\"text\":\"\xE2\x82\"}"), "a.jsonl:1: the record is not UTF-8 at byte 9");
  EXPECT_TRUE(refused("a.jsonl", "{\"text\":\"\\ud800\"}").starts_with("a.jsonl:1: the record is not valid JSON"));
}

TEST(Records, MalformedFilesNameFileAndLine) {
  const std::string good = "{\"text\":\"a\"}\n";
  EXPECT_EQ(refused("a.jsonl", good + "{\"text\":\"b\""),
            "a.jsonl:2: the record is not valid JSON at byte 11, after '{\"text\":\"b\"'");
  EXPECT_EQ(refused("a.jsonl", good + good + "{\"txt\":\"b\"}"),
            "a.jsonl:3: there is no field 'text' (did you mean 'txt'?); the row has the fields 'txt'");
  EXPECT_EQ(refused("a.jsonl", "[1]"), "a.jsonl:1: expected an object, found an array");
  EXPECT_EQ(refused("a.jsonl", "{\"text\":5}"), "a.jsonl:1: 'text' must be a string, found the number 5");
  EXPECT_EQ(refused("a.jsonl", "{\"text\":\"a\",\"text\":\"b\"}"), "a.jsonl:1: the record has the key 'text' twice");
  EXPECT_EQ(refused("a.jsonl", "{\"text\":\"a\",\"label\":-1}"),
            "a.jsonl:1: 'label' must be a string or a whole number from 0, found a number with a minus sign");
  EXPECT_EQ(refused("a.jsonl", good + "\xEF\xBB\xBF" + good),
            "a.jsonl:2: the record begins with a byte order mark, which JSON forbids");
  EXPECT_EQ(refused("a.json", " \n"), "a.json:2: the file is empty; expected an object or an array of objects");
  EXPECT_EQ(refused("a.json", "[" + good + "," + good), "a.json:3: the array has no end; is the file complete?");
  EXPECT_EQ(refused("a.json", "[" + good + "]\n[]"), "a.json:3: there is more after the array's end");
  EXPECT_TRUE(
      refused("a.json", "[\n" + good + "\n" + good + "]").starts_with("a.json:2: the record is not valid JSON"));
  EXPECT_TRUE(refused("a.json", "[" + good + ",]").starts_with("a.json:2: the record is not valid JSON"));
  EXPECT_TRUE(refused("a.json", good + good).starts_with("a.json:1: the record is not valid JSON"));
  EXPECT_EQ(refused("a.json", "[\n5]"), "a.json:2: expected an object, found the number 5");
}

TEST(Records, HugeLines) {
  const Folder folder;
  const std::string big(5'000'000, 'x');  // several blocks
  folder.put("a.jsonl", "{\"text\":\"" + big + "\"}\n{\"text\":\"small\"}\n");
  folder.put("b.json", "[{\"text\":\"" + big + "\"},{\"text\":\"small\"}]");
  folder.put("c.txt", big + "\n" + big);
  EXPECT_EQ(folder.texts(TextUnit::line), (Texts{big, "small", big, "small", big, big}));

  const std::string too_big(static_cast<size_t>(kMaxRow.count) + 1, 'x');
  EXPECT_EQ(refused("a.jsonl", "\n" + too_big),
            "a.jsonl:2: a line of more than 64.0 MiB; cut this text into smaller records");
  EXPECT_EQ(refused("a.json", "\n[\n{\"" + too_big),
            "a.json:3: a record of more than 64.0 MiB; cut this text into smaller records");
  EXPECT_EQ(
      refused("a.txt", too_big),
      "a.txt:1: a record of more than 64.0 MiB; cut it with --text-unit paragraph or line, or into smaller files");
}

TEST(Records, TheVisitorMayStop) {
  const Folder folder;
  folder.put("a.jsonl", "{\"text\":\"a\"}\n{\"text\":\"b\"}\nbroken");
  const auto file = find_text_files(folder.path())[0];
  int seen = 0;
  EXPECT_FALSE(Records({}).read(file, [&](Record&&, uint64_t) { return ++seen < 2; }));
  EXPECT_EQ(seen, 2);
}

}  // namespace
}  // namespace shade::data
