// Which files of a model folder are read, and which are refused without being opened.
#include "shade/io/model_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "scratch.h"
#include "shade/base/descriptor.h"
#include "shade/io/errors.h"

namespace shade::io {
namespace {

namespace fs = std::filesystem;

// A model folder, and a file next to it that is none of it.
struct ModelFile : testing::Test {
  ModelFile() {
    fs::create_directories(folder / "sub");
    write_file(secret, "a key");
  }
  std::string opened(const fs::path& name) const { return words(open_model_file(folder, name)->bytes()); }
  std::string refused(const fs::path& name) const {
    EXPECT_TRUE(has_model_file(folder, name));
    return message_of<FormatError>([&] { open_model_file(folder, name); });
  }
  void expect_outside(const fs::path& name, const fs::path& real) const {
    EXPECT_EQ(refused(name), text("cannot read ", folder / name, ": it leads to ", real,
                                  ", outside the model's folder ", folder, "; replace the link by a copy of the file"));
  }
  // As `hf download` leaves it.
  fs::path hub_snapshot() const {
    const auto model = root / "hub" / "models--a--b", snapshot = model / "snapshots" / "c0ffee";
    fs::create_directories(snapshot / "sub");
    write_file(model / "blobs" / "1", "a blob");
    write_file(model / "refs" / "main", "c0ffee");
    return snapshot;
  }

  Scratch scratch;
  const fs::path root = fs::canonical(scratch.path()), folder = root / "model", secret = root / "secret";
};

TEST_F(ModelFile, RegularFilesOfTheFolderAreRead) {
  write_file(folder / "config.json", "{}");
  write_file(folder / "sub" / "shard", "in a folder below");
  EXPECT_EQ(opened("config.json"), "{}");
  EXPECT_EQ(opened("sub/shard"), "in a folder below");
  EXPECT_EQ(open_model_file(folder, "config.json")->path(), folder / "config.json");
  EXPECT_TRUE(has_model_file(folder, "config.json"));
  EXPECT_FALSE(has_model_file(folder, "absent"));
  EXPECT_FALSE(has_model_file(folder / "config.json", "absent")) << "a file has no files";
  EXPECT_EQ(message_of<FormatError>([&] { open_model_file(folder, "absent"); }),
            text("cannot open ", folder / "absent", ": No such file or directory"));
}

TEST_F(ModelFile, TheFolderItselfMayBeALinkAndRelative) {
  write_file(folder / "config.json", "{}");
  fs::create_directory_symlink(folder, root / "current");
  EXPECT_EQ(words(open_model_file(root / "current", "config.json")->bytes()), "{}");
  const auto before = fs::current_path();
  fs::current_path(folder);
  EXPECT_EQ(words(open_model_file("", "config.json")->bytes()), "{}");
  EXPECT_EQ(words(open_model_file("../model", "config.json")->bytes()), "{}");
  fs::current_path(before);
}

TEST_F(ModelFile, LinksInsideTheFolderAreFollowed) {
  write_file(folder / "sub" / "real", "inside");
  fs::create_symlink("sub/real", folder / "relative");
  fs::create_symlink(folder / "sub" / "real", folder / "absolute");
  EXPECT_EQ(opened("relative"), "inside");
  EXPECT_EQ(opened("absolute"), "inside");
}

TEST_F(ModelFile, LinksThatLeaveTheFolderAreRefused) {
  fs::create_symlink("../secret", folder / "relative");
  fs::create_symlink(secret, folder / "absolute");
  fs::create_symlink("relative", folder / "twice");
  for (const char* name : {"relative", "absolute", "twice"}) expect_outside(name, secret);
  expect_outside("../secret", secret);
}

// "model2" is not inside "model".
TEST_F(ModelFile, AFolderWhoseNameBeginsAlikeIsOutside) {
  write_file(root / "model2" / "file", "x");
  fs::create_symlink("../model2/file", folder / "link");
  expect_outside("link", root / "model2" / "file");
}

TEST_F(ModelFile, AFolderOfThePathThatIsALinkLeavesToo) {
  write_file(root / "other" / "shard", "x");
  fs::create_directory_symlink("../other", folder / "shards");
  expect_outside("shards/shard", root / "other" / "shard");
}

// A name that leads inside and outside by turns, while it is read: what was checked is what is read.
TEST_F(ModelFile, NothingOutsideIsReadWhileALinkChanges) {
  write_file(folder / "inside", "inside");
  std::atomic<bool> done = false;
  std::thread changes([&] {
    for (int i = 0; !done; ++i) {
      fs::create_symlink(i % 2 == 0 ? "../secret" : "inside", folder / "next");
      fs::rename(folder / "next", folder / "link");
    }
  });
  int read = 0, refusals = 0;
  for (int i = 0; i < 20000; ++i) try {
      EXPECT_EQ(opened("link"), "inside");
      ++read;
    } catch (const FormatError&) {
      ++refusals;
    }
  done = true;
  changes.join();
  EXPECT_GT(read, 0);
  EXPECT_GT(refusals, 0);
}

// A process that waits for a reader of its pipe would take an open for one.
TEST_F(ModelFile, WhatIsOutsideIsNotEvenOpened) {
  ASSERT_EQ(::mkfifo((root / "pipe").c_str(), 0600), 0);
  fs::create_symlink("../pipe", folder / "link");
  std::atomic<bool> answered = false;
  std::thread waits([&] {
    const Descriptor writer(::open((root / "pipe").c_str(), O_WRONLY | O_CLOEXEC));
    answered = true;
  });
  for (int i = 0; i < 20; ++i) {
    expect_outside("link", root / "pipe");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_FALSE(answered);
  const Descriptor reader(::open((root / "pipe").c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  waits.join();
}

TEST_F(ModelFile, ALinkThatLeadsNowhereIsThereAndRefused) {
  fs::create_symlink("nowhere", folder / "dangling");
  EXPECT_EQ(refused("dangling"), text("cannot open ", folder / "dangling", ": No such file or directory"));
  fs::create_symlink("loop", folder / "loop");
  EXPECT_EQ(refused("loop"), text("cannot open ", folder / "loop", ": Too many levels of symbolic links"));
}

TEST_F(ModelFile, ASnapshotOfTheHubReadsItsBlobs) {
  const auto snapshot = hub_snapshot();
  fs::create_symlink("../../blobs/1", snapshot / "config.json");
  fs::create_symlink("../../../blobs/1", snapshot / "sub" / "shard");
  EXPECT_EQ(words(open_model_file(snapshot, "config.json")->bytes()), "a blob");
  EXPECT_EQ(words(open_model_file(snapshot, "sub/shard")->bytes()), "a blob");
  EXPECT_EQ(words(open_model_file(snapshot / "sub", "shard")->bytes()), "a blob");
}

TEST_F(ModelFile, ASnapshotOfTheHubReadsNothingElseOutside) {
  const auto snapshot = hub_snapshot();
  const auto model = root / "hub" / "models--a--b";
  write_file(model / "blobs" / "deeper" / "2", "x");
  write_file(root / "hub" / "models--c--d" / "blobs" / "3", "another model's");
  fs::create_symlink(secret, model / "blobs" / "link");
  for (const char* place :
       {"../../blobs/deeper/2", "../../refs/main", "../../../models--c--d/blobs/3", "../../blobs/link"}) {
    fs::remove(snapshot / "link");
    fs::create_symlink(place, snapshot / "link");
    const auto said = message_of<FormatError>([&] { open_model_file(snapshot, "link"); });
    EXPECT_NE(said.find("outside the model's folder"), std::string::npos) << place << ": " << said;
  }
}

// Only the whole layout counts, not a folder called blobs.
TEST_F(ModelFile, BlobsOfNoSnapshotAreOutside) {
  for (const char* place : {"x/snapshots/c0ffee", "models--x/other/c0ffee", "models--x/snapshots"}) {
    const auto model = root / "fake" / place;
    write_file(model.parent_path() / "blobs" / "1", "x");
    write_file(model.parent_path().parent_path() / "blobs" / "1", "x");
    fs::create_directories(model);
    for (const char* target : {"../../blobs/1", "../blobs/1"}) {
      fs::remove(model / "link");
      fs::create_symlink(target, model / "link");
      const auto said = message_of<FormatError>([&] { open_model_file(model, "link"); });
      EXPECT_NE(said.find("outside the model's folder"), std::string::npos) << place << ": " << said;
    }
  }
}

TEST_F(ModelFile, OnlyRegularFilesAreReadAndNothingWaits) {
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(refused("pipe"),
            text("cannot read ", folder / "pipe", ": expected a regular file, found a device, pipe or socket"));
  EXPECT_EQ(refused("sub"), text("cannot read ", folder / "sub", ": expected a regular file, found a folder"));
  const Descriptor listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const auto place = (folder / "socket").string();
  ASSERT_LT(place.size(), sizeof address.sun_path);
  place.copy(address.sun_path, place.size());
  ASSERT_EQ(::bind(*listener, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(refused("socket"), text("cannot open ", folder / "socket", ": No such device or address"));
  fs::create_symlink("/dev/zero", folder / "device");
  expect_outside("device", "/dev/zero");
}

TEST_F(ModelFile, AFolderThatIsNoneIsNamed) {
  EXPECT_EQ(message_of<FormatError>([&] { open_model_file(secret, "config.json"); }),
            text("cannot open ", secret / "config.json", ": Not a directory"));
}

TEST_F(ModelFile, NoDescriptorStaysOpen) {
  write_file(folder / "config.json", "{}");
  fs::create_symlink("../secret", folder / "link");
  const auto count = [] { return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()); };
  const auto before = count();
  for (int i = 0; i < 3; ++i) {
    opened("config.json");
    refused("link");
  }
  EXPECT_EQ(count(), before);
}

TEST_F(ModelFile, TextsAreBoundedUtf8) {
  write_file(folder / "template", "{{ x }} \xC3\xA9");
  EXPECT_EQ(read_model_text(folder, "template"), "{{ x }} \xC3\xA9");
  EXPECT_EQ(read_model_text(folder, "template", 10), "{{ x }} \xC3\xA9");
  EXPECT_EQ(message_of<FormatError>([&] { read_model_text(folder, "template", 9); }),
            text(folder / "template", " has 10 bytes; expected at most 9"));
  write_file(folder / "binary", "abc\xFF");
  EXPECT_EQ(message_of<FormatError>([&] { read_model_text(folder, "binary"); }),
            text(folder / "binary", " is not UTF-8 at byte 3"));
  fs::resize_file(folder / "template", kMaxModelText + 1);  // a hole: takes no space
  EXPECT_EQ(message_of<FormatError>([&] { read_model_text(folder, "template"); }),
            text(folder / "template", " has 16777217 bytes; expected at most 16777216"));
}

TEST_F(ModelFile, JsonMustBeAnObject) {
  write_file(folder / "config.json", R"({"a": 1})");
  EXPECT_EQ(read_model_json(folder, "config.json"), (Json{{"a", 1}}));
  write_file(folder / "config.json", "[1]");
  EXPECT_EQ(message_of<FormatError>([&] { read_model_json(folder, "config.json"); }),
            text(folder / "config.json", " must be a JSON object, found array"));
  write_file(folder / "config.json", "-----BEGIN KEY-----");
  const auto said = message_of<FormatError>([&] { read_model_json(folder, "config.json"); });
  EXPECT_TRUE(said.starts_with(text(folder / "config.json", ": it is not valid JSON"))) << said;
}

}  // namespace
}  // namespace shade::io
