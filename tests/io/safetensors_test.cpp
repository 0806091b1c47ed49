#include "shade/io/safetensors.h"

#include <ATen/ATen.h>

#include "scratch.h"
#include "shade/io/dtype.h"
#include "shade/io/errors.h"
#include "shade/io/safetensors_writer.h"

namespace shade::io {
namespace {

constexpr const char* kTwo = R"({"a":{"dtype":"I32","shape":[2],"data_offsets":[0,8]},)"
                             R"("b":{"dtype":"U8","shape":[3],"data_offsets":[8,11]}})";
const std::string kTwoData("\1\0\0\0\2\0\0\0\7\x8\x9", 11);

// Pads the header so that the data begins `remainder` bytes beyond a multiple of 8.
std::string padded(std::string header, size_t remainder) {
  while ((8 + header.size()) % 8 != remainder) header += ' ';
  return header;
}

int64_t resident_bytes() {
  std::ifstream in("/proc/self/statm");
  int64_t all = 0, resident = 0;
  in >> all >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

TEST(Safetensors, TensorsAreViewsOfTheMap) {
  const Scratch scratch;
  const SafetensorsFile file(scratch.write("f", safetensors(padded(kTwo, 0), kTwoData)));
  const auto a = file.tensor("a");
  EXPECT_TRUE(a.equal(at::tensor({1, 2}, at::kInt)));
  EXPECT_EQ(a.const_data_ptr(), file.bytes("a").data());
  EXPECT_EQ(file.tensor("a").const_data_ptr(), a.const_data_ptr());
  EXPECT_EQ(file.tensor("b").const_data_ptr(), static_cast<const std::byte*>(a.const_data_ptr()) + 8);
}

TEST(Safetensors, ATensorOutlivesTheFile) {
  const Scratch scratch;
  at::Tensor a;
  {
    const auto path = scratch.write("f", safetensors(padded(kTwo, 0), kTwoData));
    a = SafetensorsFile(path).tensor("a").narrow(0, 1, 1);
    std::filesystem::remove(path);
  }
  EXPECT_EQ(a.item<int>(), 2);
}

TEST(Safetensors, DataThatIsNotAlignedIsCopied) {
  const Scratch scratch;
  for (size_t remainder = 0; remainder < 8; ++remainder) {
    const SafetensorsFile file(scratch.write("f", safetensors(padded(kTwo, remainder), kTwoData)));
    const auto a = file.tensor("a");
    EXPECT_TRUE(a.equal(at::tensor({1, 2}, at::kInt)));
    EXPECT_EQ(a.const_data_ptr() == file.bytes("a").data(), remainder % 4 == 0) << remainder;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(a.const_data_ptr()) % 4, 0U);
    EXPECT_EQ(file.tensor("b").const_data_ptr(), file.bytes("b").data()) << "bytes are always aligned";
  }
}

TEST(Safetensors, ScalarsAndEmptyTensors) {
  const Scratch scratch;
  const SafetensorsFile file(
      scratch.write("f", safetensors(padded(R"({"s":{"dtype":"BF16","shape":[],"data_offsets":[0,2]},)"
                                            R"("e":{"dtype":"F32","shape":[3,0,2],"data_offsets":[2,2]}})",
                                            0),
                                     std::string_view("\x20\x40", 2))));
  EXPECT_EQ(file.tensor("s").dim(), 0);
  EXPECT_EQ(file.tensor("s").item<float>(), 2.5F);
  EXPECT_EQ(file.tensor("e").sizes(), (at::IntArrayRef{3, 0, 2}));
  EXPECT_EQ(file.tensor("e").scalar_type(), at::kFloat);
}

TEST(Safetensors, EveryDtypeHasTheSizeOfItsScalarType) {
  for (const auto& [name, dtype] : names_of(Dtype{})) {
    EXPECT_EQ(static_cast<size_t>(size_of(dtype)), c10::elementSize(scalar_type(dtype))) << name;
    EXPECT_EQ(dtype_of(scalar_type(dtype), "a"), dtype) << name;
  }
  EXPECT_EQ(message_of<UsageError>([] { dtype_of(at::kComplexFloat, "a"); }),
            "tensor 'a': ComplexFloat can't be written; convert it to one of BOOL, U8, I8, F8_E5M2, F8_E4M3, I16, U16, "
            "F16, BF16, I32, U32, F32, F64, I64, U64");
}

TEST(Safetensors, AByteThatIsNoBoolIsRefused) {
  const Scratch scratch;
  const auto path = scratch.write(
      "f", safetensors(R"({"a":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}})", std::string_view("\0\1\2", 3)));
  const SafetensorsFile file(path);
  EXPECT_EQ(message_of<FormatError>([&] { file.tensor("a"); }),
            text(path, ": tensor 'a': BOOL element 2 is 2; only 0 and 1 are booleans"));
}

TEST(Safetensors, AnUnknownNameIsToldWithTheNearestOne) {
  const Scratch scratch;
  const auto path =
      scratch.write("f", safetensors(R"({"model.weight":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})"));
  const SafetensorsFile file(path);
  EXPECT_TRUE(file.contains("model.weight"));
  EXPECT_FALSE(file.contains("model.wieght"));
  EXPECT_EQ(message_of<UsageError>([&] { file.tensor("model.wieght"); }),
            text("there is no tensor 'model.wieght' in ", path, "; did you mean 'model.weight'?"));
}

TEST(Safetensors, MetadataIsRead) {
  const Scratch scratch;
  const SafetensorsFile file(scratch.write("f", safetensors(R"({"__metadata__":{"format":"pt","k":"größe"}})")));
  EXPECT_EQ(file.header().metadata, (Metadata{{"format", "pt"}, {"k", "größe"}}));
}

// 64 GiB of zeros that take no room on the disk: what is opened and read must be the header and the tensor asked for.
TEST(Safetensors, OnlyThePagesThatAreUsedAreRead) {
  const Scratch scratch;
  constexpr int64_t kLarge = int64_t{64} << 30;
  const auto path = scratch.write(
      "f", safetensors(
               padded(text(R"({"large":{"dtype":"U8","shape":[)", kLarge, R"(],"data_offsets":[0,)", kLarge,
                           R"(]},"last":{"dtype":"I64","shape":[1],"data_offsets":[)", kLarge, ",", kLarge + 8, "]}}"),
                      0)));
  const auto data_begin = std::filesystem::file_size(path);
  std::filesystem::resize_file(path, data_begin + kLarge);
  std::ofstream(path, std::ios::binary | std::ios::app) << std::string_view("\5\0\0\0\0\0\0\0", 8);

  const auto before = resident_bytes();
  const SafetensorsFile file(path);
  EXPECT_EQ(file.tensor("last").item<int64_t>(), 5);
  EXPECT_EQ(file.tensor("large").narrow(0, kLarge / 2, 1000).sum().item<int64_t>(), 0);
  EXPECT_EQ(file.tensor("large").numel(), kLarge);
  EXPECT_LT(resident_bytes() - before, int64_t{16} << 20);
}

// Several pieces and a rest that fills no page.
TEST(SafetensorsFile, ReadCopiesAndConvertsInPieces) {
  const Scratch scratch;
  const auto path = scratch.path() / "file";
  const auto large = at::arange(10'000'019, at::kInt).to(at::kFloat);
  write_safetensors(path, {{"large", large}, {"none", at::empty({0, 3})}, {"scalar", at::full({}, 3.5)}});
  const SafetensorsFile file(path);
  EXPECT_TRUE(file.read("large", at::kFloat).equal(large));
  EXPECT_TRUE(file.read("large", at::kBFloat16).equal(large.to(at::kBFloat16)));
  EXPECT_TRUE(file.tensor("large").equal(large)) << "dropped pages are read again";
  EXPECT_EQ(file.read("none", at::kDouble).sizes(), at::IntArrayRef({0, 3}));
  EXPECT_EQ(file.read("scalar", at::kDouble).item<double>(), 3.5);
}

}  // namespace
}  // namespace shade::io
