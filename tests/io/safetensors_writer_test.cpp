#include "shade/io/safetensors_writer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sys/resource.h>

#include <csignal>

#include "scratch.h"
#include "shade/io/dtype.h"
#include "shade/io/errors.h"
#include "shade/io/safetensors.h"

namespace shade::io {
namespace {

// Equal in bits: NaN and the types ATen can't compare included.
void expect_same(const at::Tensor& a, const at::Tensor& b) {
  ASSERT_EQ(a.scalar_type(), b.scalar_type());
  ASSERT_EQ(a.sizes(), b.sizes());
  const auto x = a.contiguous(), y = b.contiguous();
  EXPECT_EQ(std::string_view(static_cast<const char*>(x.const_data_ptr()), x.nbytes()),
            std::string_view(static_cast<const char*>(y.const_data_ptr()), y.nbytes()));
}

at::Tensor random_bits(Dtype dtype, std::vector<int64_t> shape) {
  auto wide = shape;
  wide.push_back(size_of(dtype));
  const auto bytes = at::randint(0, dtype == Dtype::boolean ? 2 : 256, wide, at::kByte);
  return bytes.view(scalar_type(dtype)).reshape(shape);
}

std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder) {
  return {std::filesystem::directory_iterator(folder), {}};
}

TEST(SafetensorsWriter, EveryDtypeComesBackBitForBit) {
  const Scratch scratch;
  TensorMap tensors;
  for (const auto& [name, dtype] : names_of(Dtype{})) {
    tensors.emplace(name, random_bits(dtype, {3, 5}));
    tensors.emplace(text(name, ".scalar"), random_bits(dtype, {}));
    tensors.emplace(text(name, ".empty"), random_bits(dtype, {2, 0, 3}));
  }
  const Metadata metadata{{"format", "pt"}, {"quote \" and \n", "größe"}};
  write_safetensors(scratch.path() / "f", tensors, metadata);
  const SafetensorsFile file(scratch.path() / "f");
  EXPECT_EQ(file.header().metadata, metadata);
  EXPECT_EQ(file.header().tensors.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) expect_same(file.tensor(name), tensor);
}

TEST(SafetensorsWriter, TheDataBeginsAndEveryTensorLiesAligned) {
  const Scratch scratch;
  for (size_t length = 1; length <= 8; ++length) {
    write_safetensors(scratch.path() / "f", {{"half", at::ones(3, at::kHalf)},
                                             {std::string(length, 'n'), at::ones(1, at::kByte)},
                                             {"long", at::ones(1, at::kLong)},
                                             {"float", at::ones(1)}});
    const SafetensorsFile file(scratch.path() / "f");
    EXPECT_EQ(file.header().data_begin % 8, 0U);
    for (const auto& [name, info] : file.header().tensors)
      EXPECT_EQ(file.tensor(name).const_data_ptr(), file.bytes(name).data()) << "not a view: " << name;
  }
}

// The reference implementation wrote these files; reading and writing one again must give the same bytes.
TEST(SafetensorsWriter, WritesTheBytesOfTheReference) {
  const Scratch scratch;
  int compared = 0;
  for (const auto& path : files_in(corpus())) {
    if (!path.filename().string().starts_with("python_")) continue;
    SCOPED_TRACE(path);
    const SafetensorsFile file(path);
    TensorMap tensors;
    for (const auto& [name, info] : file.header().tensors) tensors.emplace(name, file.tensor(name));
    write_safetensors(scratch.path() / "f", tensors, file.header().metadata);
    EXPECT_EQ(content(scratch.path() / "f"), content(path));
    ++compared;
  }
  EXPECT_GE(compared, 6);
}

RC_GTEST_PROP(SafetensorsWriter, AnyTensorsComeBack, ()) {
  const auto names =
      *rc::gen::container<std::set<std::string>>(rc::gen::container<std::string>(rc::gen::inRange<char>(1, 127)));
  TensorMap tensors;
  for (const auto& name : names) {
    const auto shape = *rc::gen::resize(4, rc::gen::container<std::vector<int64_t>>(rc::gen::inRange<int64_t>(0, 4)));
    const auto dtype =
        (*rc::gen::elementOf(std::vector<Name<Dtype>>(names_of(Dtype{}).begin(), names_of(Dtype{}).end()))).value;
    tensors.emplace(name, random_bits(dtype, shape));
  }
  const Scratch scratch;
  write_safetensors(scratch.path() / "f", tensors);
  const SafetensorsFile file(scratch.path() / "f");
  RC_ASSERT(file.header().tensors.size() == tensors.size());
  for (const auto& [name, tensor] : tensors) expect_same(file.tensor(name), tensor);
}

TEST(SafetensorsWriter, AnyStridesAreWrittenRowMajor) {
  const Scratch scratch;
  const auto base = at::randn({4, 6, 5});
  const TensorMap tensors{
      {"transposed", base.transpose(0, 2)},           {"strided", base.slice(1, 0, 6, 2)},
      {"expanded", at::randn({1, 3}).expand({7, 3})}, {"scalar", base[1][2][3]},
      {"empty", base.slice(0, 0, 0).transpose(0, 1)}, {"grad", base.clone().requires_grad_().transpose(0, 1)}};
  write_safetensors(scratch.path() / "f", tensors);
  const SafetensorsFile file(scratch.path() / "f");
  for (const auto& [name, tensor] : tensors) expect_same(file.tensor(name), tensor.detach());
}

TEST(SafetensorsWriter, LargeStridedTensorsAreWrittenInPieces) {
  const Scratch scratch;
  const auto wide = at::randint(0, 100, {1000, 180000}, at::kByte).t();  // 180 MB, three pieces
  write_safetensors(scratch.path() / "f", {{"wide", wide}});
  EXPECT_TRUE(SafetensorsFile(scratch.path() / "f").tensor("wide").equal(wide));
}

TEST(SafetensorsWriter, TensorsArePutInAnyOrder) {
  const Scratch scratch;
  const auto path = scratch.path() / "f";
  SafetensorsWriter writer(path, {{"a", Dtype::f32, {2}}, {"b", Dtype::i64, {1}}, {"c", Dtype::u8, {3}}});
  writer.put("c", at::full(3, 7, at::kByte));
  writer.put("a", at::full(2, 1.5));
  EXPECT_FALSE(std::filesystem::exists(path)) << "nothing is seen before commit";
  writer.put("b", at::full(1, 9, at::kLong));
  writer.commit();
  EXPECT_EQ(SafetensorsFile(path).tensor("b").item<int64_t>(), 9);
  EXPECT_EQ(files_in(scratch.path()).size(), 1U) << "no temporary file is left";
}

TEST(SafetensorsWriter, RefusesWhatDoesNotFitTheDeclaration) {
  const Scratch scratch;
  const auto path = scratch.path() / "f";
  {
    SafetensorsWriter writer(path, {{"a", Dtype::f32, {2}}, {"b", Dtype::f32, {1}}});
    const auto refused = [&](const std::string& name, const at::Tensor& tensor) {
      return message_of<UsageError>([&] { writer.put(name, tensor); });
    };
    EXPECT_EQ(refused("c", at::ones(2)), text("tensor 'c' was not declared for ", path));
    EXPECT_EQ(refused("a", at::ones(3)), "tensor 'a' was declared as F32 [2], but is F32 [3]");
    EXPECT_EQ(refused("a", at::ones(2, at::kHalf)), "tensor 'a' was declared as F32 [2], but is F16 [2]");
    EXPECT_EQ(refused("a", at::ones(2, at::kMeta)), "tensor 'a' is on the meta device and has no data to write");
    EXPECT_EQ(refused("a", at::ones(2).to_sparse()),
              "tensor 'a' is Sparse; only dense tensors are written, call to_dense() first");
    EXPECT_EQ(refused("a", at::Tensor()), "tensor 'a' is undefined");
    writer.put("a", at::ones(2));
    EXPECT_EQ(refused("a", at::ones(2)), text("tensor 'a' is put twice into ", path));
    EXPECT_EQ(message_of<UsageError>([&] { writer.commit(); }),
              text("tensor 'b' was declared for ", path, " and never put; 1 of 2 are missing"));
  }
  EXPECT_TRUE(files_in(scratch.path()).empty()) << "an abandoned file leaves nothing";
}

TEST(SafetensorsWriter, RefusesNamesTheFormatCannotHold) {
  const Scratch scratch;
  const auto path = scratch.path() / "f";
  const auto refused = [&](std::vector<TensorSpec> specs) {
    return message_of<UsageError>([&] { SafetensorsWriter(path, specs); });
  };
  EXPECT_EQ(refused({{"__metadata__", Dtype::u8, {1}}}),
            "a tensor can't be named __metadata__: safetensors keeps that name");
  EXPECT_EQ(refused({{"\xff", Dtype::u8, {1}}}), "the name or metadata '\\xff' is not UTF-8, as safetensors wants it");
  EXPECT_EQ(refused({{"a", Dtype::u8, {1}}, {"a", Dtype::f32, {1}}}), text("tensor 'a' is declared twice for ", path));
  EXPECT_EQ(message_of<FormatError>([&] { SafetensorsWriter(path, {{"a", Dtype::f32, {int64_t{1} << 61}}}); }),
            "tensor 'a': shape [2305843009213693952] of F32 overflows 64 bits");
  EXPECT_TRUE(files_in(scratch.path()).empty());
}

TEST(SafetensorsWriter, AFailedWriteKeepsTheOldFileAndNamesIt) {
  const Scratch scratch;
  const auto path = scratch.write("f", "what was there");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 4096, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto message = message_of<Error>([&] { write_safetensors(path, {{"a", at::ones(4096)}}); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(message,
            text("cannot write ", path, ": File too large; the limit of file sizes is reached: raise it (ulimit -f)"));
  EXPECT_EQ(content(path), "what was there");
  EXPECT_EQ(files_in(scratch.path()).size(), 1U);
}

TEST(SafetensorsWriter, AMissingFolderIsNamed) {
  const Scratch scratch;
  const auto path = scratch.path() / "none" / "f";
  EXPECT_EQ(message_of<Error>([&] { write_safetensors(path, {}); }),
            text("cannot create ", path, ": No such file or directory; make its folder first"));
}

}  // namespace
}  // namespace shade::io
