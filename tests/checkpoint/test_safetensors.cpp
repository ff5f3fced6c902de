// SPDX-License-Identifier: Apache-2.0
#include "src/checkpoint/safetensors.h"

#include <cerrno>
#include <cstring>

#include "tests/checkpoint/files.h"
#include "tests/support/reference_dir.h"
#include "tests/support/temporary_folder.h"

namespace bascule {
namespace {

using test::expect_data_error;
using test::TemporaryFolder;

// Opens a file of these bytes.
void open_bytes(const std::string& bytes) {
  const TemporaryFolder folder;
  open_safetensors(folder.write("made_up.safetensors", bytes));
}
void open_header(const std::string& header, std::size_t data_bytes) {
  open_bytes(test::safetensors_bytes(header, data_bytes));
}
std::string tensor(const std::string& name, const std::string& dtype, const std::string& shape,
                   const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
}

TEST(SafetensorsRead, EveryElementTypeOfTheReferenceWriterReadsAsTorchConvertsIt) {
  const TensorSource narrow = open_safetensors(test::fixture("all_dtypes.safetensors"));
  const TensorSource wide = open_safetensors(test::fixture("all_dtypes_float32.safetensors"));
  ASSERT_EQ(narrow.tensors().size(), 12u);
  for (const StoredTensor& stored : narrow.tensors()) {
    const StoredTensor* expected = wide.find(stored.name);
    ASSERT_NE(expected, nullptr) << stored.name;
    EXPECT_EQ(stored.shape, expected->shape) << stored.name;
    EXPECT_EQ(test::read_all(narrow, stored), test::read_all(wide, *expected)) << stored.name;
  }
  EXPECT_EQ(narrow.find("bf16")->dtype, DType::kBFloat16);
  EXPECT_EQ(narrow.find("scalar")->shape, std::vector<std::int64_t>{});
  EXPECT_EQ(narrow.find("absent"), nullptr);
}

TEST(SafetensorsRead, MetadataIsRead) {
  const InputFile file(test::fixture("all_dtypes.safetensors"));
  EXPECT_EQ(read_safetensors_header(file).metadata,
            (std::map<std::string, std::string>{{"format", "pt"}, {"made by", "safetensors"}}));
}

TEST(SafetensorsRead, AnyRunOfElementsEqualsThatPartOfTheWhole) {
  const TensorSource source = open_safetensors(test::fixture("all_dtypes.safetensors"));
  for (const StoredTensor& stored : source.tensors()) {
    const std::vector<float> whole = test::read_all(source, stored);
    for (std::size_t first = 0; first < whole.size(); ++first) {
      std::vector<float> part(whole.size() - first);
      source.read_float32(part.data(), stored, static_cast<std::int64_t>(first),
                          static_cast<std::int64_t>(part.size()));
      EXPECT_EQ(part, std::vector<float>(whole.begin() + static_cast<std::ptrdiff_t>(first), whole.end()));
    }
  }
}

TEST(SafetensorsRead, IntegersKeepTheirBytes) {
  const TensorSource source = open_safetensors(test::fixture("all_dtypes.safetensors"));
  std::vector<std::int64_t> values(15);
  source.read_bytes(values.data(), *source.find("i64"));
  for (std::int64_t i = 0; i < 15; ++i) {
    EXPECT_EQ(values[static_cast<std::size_t>(i)], (i - 7) * ((std::int64_t{1} << 40) + 1));
  }
}

TEST(SafetensorsRead, ReferenceFilesOpen) {
  for (const char* name : {"itc_add/expected", "itc_add/batch", "itc_add/steps", "base_model/model"}) {
    const std::string path = test::reference_dir() + "/goldens/" + name + ".safetensors";
    EXPECT_GT(open_safetensors(path).tensors().size(), 5u) << path;
  }
}

TEST(SafetensorsRead, RefusesAFileWithoutAHeader) {
  expect_data_error("too few for a header", [] { open_bytes(""); });
  expect_data_error("too few for a header", [] { open_bytes("1234567"); });
  expect_data_error("does not start with {", [] { open_header("", 0); });
  expect_data_error("does not start with {", [] { open_header(" {}", 0); });
  expect_data_error("header:1:2: not JSON", [] { open_header("{", 0); });
  expect_data_error("cannot be opened", [] { open_safetensors("/nonexistent/model.safetensors"); });
  expect_data_error("is not a file", [] { open_safetensors("/"); });
}

TEST(SafetensorsRead, RefusesALyingHeaderLengthBeforeAllocatingIt) {
  expect_data_error("declares a header of 18446744073709551615 bytes", [] { open_bytes(std::string(16, '\xff')); });
  expect_data_error("the limit is 100000000", [] { open_bytes(std::string("\1\xe1\xf5\5\0\0\0\0{}", 10)); });
  expect_data_error("declares a header of 100000000 bytes, but has 10",
                    [] { open_bytes(std::string("\0\xe1\xf5\5\0\0\0\0{}", 10)); });
  expect_data_error("declares a header of 9223372036854775808",
                    [] { open_bytes(std::string("\0\0\0\0\0\0\0\x80{}", 10)); });
}

TEST(SafetensorsRead, RefusesTensorsThatDoNotCoverTheDataExactly) {
  const auto two = [](const char* first, const char* second) {
    return "{" + tensor("a", "F32", "[2]", first) + "," + tensor("b", "F32", "[2]", second) + "}";
  };
  EXPECT_NO_THROW(open_header(two("[8,16]", "[0,8]"), 16));
  expect_data_error("tensor \"b\" begins at byte 4, which another tensor covers",
                    [&] { open_header(two("[0,8]", "[4,12]"), 12); });
  expect_data_error("which another tensor covers", [&] { open_header(two("[0,8]", "[0,8]"), 8); });
  expect_data_error("tensor \"b\" begins at byte 12, after a gap", [&] { open_header(two("[0,8]", "[12,20]"), 20); });
  expect_data_error("tensor \"a\" begins at byte 4, after a gap", [&] { open_header(two("[4,12]", "[12,20]"), 20); });
  expect_data_error("but the file holds 15: it is truncated", [&] { open_header(two("[0,8]", "[8,16]"), 15); });
  expect_data_error("holds 17 bytes of data, but its tensors take 16",
                    [&] { open_header(two("[0,8]", "[8,16]"), 17); });
  expect_data_error("holds 4 bytes of data, but its tensors take 0", [] { open_header("{}", 4); });
}

TEST(SafetensorsRead, RefusesTensorsThatContradictThemselves) {
  const auto one = [](const char* dtype, const char* shape, const char* offsets) {
    open_header("{" + tensor("w", dtype, shape, offsets) + "}", 8);
  };
  expect_data_error("has shape [3] of F32, but 8 bytes", [&] { one("F32", "[3]", "[0,8]"); });
  expect_data_error("has shape [4611686018427387904, 4] of F32",
                    [&] { one("F32", "[4611686018427387904,4]", "[0,8]"); });
  expect_data_error("has shape [-2]", [&] { one("F32", "[-2]", "[0,8]"); });
  expect_data_error("which are not a range", [&] { one("F32", "[2]", "[8,0]"); });
  expect_data_error("which are not a range", [&] { one("F32", "[2]", "[-8,0]"); });
  expect_data_error("which are not a range", [&] { one("F32", "[2]", "[0]"); });
  expect_data_error("\"data_offsets\" is 1e+19; it must be a 64-bit integer", [&] { one("F32", "[2]", "[0,1e19]"); });
  expect_data_error("but 9223372036854775807 bytes", [&] { one("F32", "[2]", "[0,9223372036854775807]"); });
  expect_data_error("element type F8_E4M3, which is not supported", [&] { one("F8_E4M3", "[8]", "[0,8]"); });
  expect_data_error("\"shape\" is 2.5", [&] { one("F32", "[2.5]", "[0,8]"); });
}

TEST(SafetensorsRead, RefusesHeadersThatAreNotOfTheFormat) {
  expect_data_error("duplicate key \"w\"", [] {
    open_header("{" + tensor("w", "F32", "[1]", "[0,4]") + "," + tensor("w", "F32", "[1]", "[4,8]") + "}", 8);
  });
  expect_data_error("not JSON", [] { open_header("{" + tensor("\xff", "F32", "[1]", "[0,4]") + "}", 4); });
  expect_data_error("\"dtype\" is missing", [] { open_header("{\"w\":{\"shape\":[],\"data_offsets\":[0,4]}}", 4); });
  expect_data_error("expected an object", [] { open_header("{\"w\":[1]}", 4); });
  open_header("{\"__metadata__\":null}", 0);  // the library reads it as none
  expect_data_error("__metadata__ must hold strings", [] { open_header("{\"__metadata__\":{\"a\":1}}", 0); });
  expect_data_error("nested deeper", [] { open_header("{\"w\":" + std::string(5000, '['), 0); });
}

TEST(SafetensorsRead, EveryTruncationOfAFileIsRefused) {
  const std::string whole = test::read_file(test::fixture("all_dtypes.safetensors"));
  for (std::size_t bytes = 0; bytes < whole.size(); bytes += 7) {
    EXPECT_NE(test::error_of([&] { open_bytes(whole.substr(0, bytes)); }), "no error") << bytes;
  }
}

// --- Writing ---

std::vector<TensorToWrite> three_tensors() {
  static const float floats[6] = {1.0f, -2.0f, 0.5f, 1e-40f, 3.0f, 4.0f};
  static const std::int64_t ids[2] = {5, -6};
  static const std::uint8_t flags[3] = {1, 0, 1};
  return {
      {"z", DType::kFloat32, {2, 3}, floats}, {"flags", DType::kBool, {3}, flags}, {"ids", DType::kInt64, {2}, ids}};
}

TEST(SafetensorsWrite, ReadsBackBitForBit) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/a.safetensors";
  const SafetensorsWritePlan plan(three_tensors(), {{"format", "pt"}, {"a \"key\"", "é"}});
  ASSERT_TRUE(plan.write(path.c_str()).ok());
  EXPECT_EQ(test::read_file(path).size(), static_cast<std::size_t>(plan.file_bytes()));
  const TensorSource source = open_safetensors(path);
  for (const TensorToWrite& written : three_tensors()) {
    const StoredTensor* stored = source.find(written.name);
    ASSERT_NE(stored, nullptr);
    EXPECT_EQ(stored->dtype, written.dtype);
    EXPECT_EQ(stored->shape, written.shape);
    std::string bytes(static_cast<std::size_t>(element_count(stored->shape)) * element_bytes(stored->dtype), '\0');
    source.read_bytes(bytes.data(), *stored);
    EXPECT_EQ(std::memcmp(bytes.data(), written.data, bytes.size()), 0) << written.name;
  }
  EXPECT_EQ(read_safetensors_header(InputFile(path)).metadata.at("a \"key\""), "é");
}

TEST(SafetensorsWrite, TheBytesAreThoseOfTheReferenceWriter) {
  const std::string reference_path = test::fixture("all_dtypes.safetensors");
  const TensorSource source = open_safetensors(reference_path);
  std::vector<std::string> memory;
  std::vector<TensorToWrite> tensors;
  memory.reserve(source.tensors().size());
  for (const StoredTensor& stored : source.tensors()) {
    memory.emplace_back(static_cast<std::size_t>(element_count(stored.shape)) * element_bytes(stored.dtype) + 1, '\0');
    source.read_bytes(memory.back().data(), stored);
    tensors.insert(tensors.begin(), {stored.name, stored.dtype, stored.shape, memory.back().data()});
  }
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/again.safetensors";
  const SafetensorsWritePlan plan(tensors, {{"format", "pt"}, {"made by", "safetensors"}});
  ASSERT_TRUE(plan.write(path.c_str()).ok());
  EXPECT_EQ(test::read_file(path), test::read_file(reference_path));
}

TEST(SafetensorsWrite, TensorsFromASourceAreCopiedAsFloat32) {
  const TensorSource source = open_safetensors(test::fixture("all_dtypes.safetensors"));
  std::vector<TensorToWrite> tensors;
  for (const StoredTensor& stored : source.tensors()) {
    tensors.push_back({stored.name, DType::kFloat32, stored.shape, nullptr, &source, &stored});
  }
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/wide.safetensors";
  ASSERT_TRUE(SafetensorsWritePlan(tensors).write(path.c_str()).ok());
  const TensorSource expected = open_safetensors(test::fixture("all_dtypes_float32.safetensors"));
  const TensorSource copied = open_safetensors(path);
  for (const StoredTensor& stored : expected.tensors()) {
    EXPECT_EQ(test::read_all(copied, *copied.find(stored.name)), test::read_all(expected, stored)) << stored.name;
  }
}

// More than one chunk.
TEST(SafetensorsWrite, TensorsOfAReaderAreAskedForInOrderAndWhole) {
  struct Numbers {
    std::int64_t next = 0;
    static Status read(void* self, float* to, std::int64_t first, std::int64_t count) noexcept {
      std::int64_t& next = static_cast<Numbers*>(self)->next;
      if (first != next) return {StatusCode::kRankFailed, {0, 0}};
      for (; next < first + count; ++next) *to++ = static_cast<float>(next);
      return ok_status();
    }
  } numbers;
  TensorToWrite tensor;
  tensor.name = "n";
  tensor.shape = {700, 1000};
  tensor.reader = {&Numbers::read, &numbers};
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/model.safetensors";
  const SafetensorsWritePlan plan({tensor});
  ASSERT_TRUE(plan.write(path.c_str()).ok());
  const TensorSource source = open_safetensors(path);
  std::vector<float> values(700000);
  source.read_float32(values.data(), *source.find("n"), 0, 700000);
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], static_cast<float>(i));
  EXPECT_EQ(plan.write(path.c_str()).code, StatusCode::kRankFailed);  // it begins at 0 again
}

TEST(SafetensorsWrite, ProgressAddsUpToTheTensorsBytes) {
  const std::vector<float> values(700001, 0.25f);
  const SafetensorsWritePlan plan({{"w", DType::kFloat32, {700001}, values.data()}});
  struct Told {
    std::int64_t bytes = 0;
    std::int64_t most = 0;
  } told;
  const auto tell = [](void* context, std::int64_t bytes) noexcept {
    auto* sum = static_cast<Told*>(context);
    sum->bytes += bytes;
    sum->most = std::max(sum->most, bytes);
  };
  const TemporaryFolder folder;
  ASSERT_TRUE(plan.write((folder.path() + "/w.safetensors").c_str(), {tell, &told}).ok());
  EXPECT_EQ(told.bytes, 4 * 700001);
  EXPECT_LE(told.most, 1 << 20);
}

TEST(SafetensorsWrite, AFullDiskIsAStatusWithItsErrno) {
  const Status full = SafetensorsWritePlan(three_tensors()).write("/dev/full");
  EXPECT_EQ(full.code, StatusCode::kDiskFailed);
  EXPECT_EQ(full.detail[0], ENOSPC);
  const Status absent = SafetensorsWritePlan(three_tensors()).write("/nonexistent/a");
  EXPECT_EQ(absent.code, StatusCode::kDiskFailed);
  EXPECT_EQ(absent.detail[0], ENOENT);
}

TEST(SafetensorsWriteDeathTest, ANameGivenTwiceIsABugOfOurs) {
  std::vector<TensorToWrite> tensors = three_tensors();
  tensors[1].name = tensors[0].name;
  EXPECT_DEATH(SafetensorsWritePlan{tensors}, "names.insert");
}

}  // namespace
}  // namespace bascule
