// SPDX-License-Identifier: Apache-2.0
#include "src/checkpoint/torch_pickle.h"

#include <filesystem>

#include "src/checkpoint/safetensors.h"
#include "tests/checkpoint/files.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test_torch_pickle {
namespace {

using test::expect_data_error;
using test::fixture;

TensorSource open_torch(const std::string& path) {
  std::vector<InputFile> files;
  files.emplace_back(path);
  std::vector<StoredTensor> tensors = read_torch_archive(files.front());
  return TensorSource(std::move(files), std::move(tensors));
}

void open_bytes(const std::string& bytes) {
  const test::TemporaryFolder folder;
  open_torch(folder.write("made_up.bin", bytes));
}

// The archive with its first `from` (which must be there) replaced by `to`, of the same length.
std::string with(std::string bytes, const std::string& from, const std::string& to) {
  const std::size_t at = bytes.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  EXPECT_EQ(from.size(), to.size());
  return bytes.replace(at, to.size(), to);
}

void expect_equal_to_torch(const std::string& path) {
  const TensorSource ours = open_torch(path);
  const TensorSource expected = open_safetensors(fixture("torch_float32.safetensors"));
  EXPECT_EQ(ours.tensors().size(), expected.tensors().size());
  for (const StoredTensor& wanted : expected.tensors()) {
    const StoredTensor* stored = ours.find(wanted.name);
    ASSERT_NE(stored, nullptr) << wanted.name;
    EXPECT_EQ(stored->shape, wanted.shape) << wanted.name;
    EXPECT_EQ(test::read_all(ours, *stored), test::read_all(expected, wanted)) << wanted.name;
  }
}

TEST(TorchPickle, EveryTypeViewAndParameterReadsAsTorchSavedIt) { expect_equal_to_torch(fixture("torch.bin")); }

TEST(TorchPickle, Zip64DirectoriesAreRead) { expect_equal_to_torch(fixture("torch_zip64.bin")); }

TEST(TorchPickle, StridedTensorsReadInAnyRun) {
  const TensorSource source = open_torch(fixture("torch.bin"));
  for (const char* name : {"transposed", "columns_of_base", "expanded", "rows_of_base"}) {
    const StoredTensor& stored = *source.find(name);
    const std::vector<float> whole = test::read_all(source, stored);
    for (std::size_t first = 0; first < whole.size(); ++first) {
      float value = 0.0f;
      source.read_float32(&value, stored, static_cast<std::int64_t>(first), 1);
      EXPECT_EQ(value, whole[first]) << name << " " << first;
    }
    std::vector<float> bytes(whole.size());
    source.read_bytes(bytes.data(), stored);
    EXPECT_EQ(bytes, whole) << name;
  }
  EXPECT_FALSE(source.find("transposed")->strides.empty());
  EXPECT_TRUE(source.find("rows_of_base")->strides.empty());
}

TEST(TorchPickle, APlainDictionaryIsRead) {
  EXPECT_EQ(open_torch(fixture("torch_plain_dict.bin")).find("weight")->shape, (std::vector<std::int64_t>{2, 2}));
}

TEST(TorchPickle, CodeIsRefusedByNameAndNeverRun) {
  expect_data_error("names \"posix system\"", [] { open_torch(fixture("torch_runs_code.bin")); });
  EXPECT_FALSE(std::filesystem::exists("this-must-not-appear"));
}

TEST(TorchPickle, RefusesWhatIsNoDictionaryOfTensors) {
  expect_data_error("\"epoch\" is not a tensor", [] { open_torch(fixture("torch_not_a_tensor.bin")); });
  expect_data_error("\"state_dict\" is not a tensor", [] { open_torch(fixture("torch_nested.bin")); });
  expect_data_error("does not contain a dictionary of tensors", [] { open_torch(fixture("torch_list.bin")); });
  expect_data_error("ComplexFloatStorage", [] { open_torch(fixture("torch_complex.bin")); });
}

TEST(TorchPickle, RefusesOtherFormatsWithAClearLine) {
  expect_data_error("was written by torch before 1.6", [] { open_torch(fixture("torch_before_1_6.bin")); });
  expect_data_error("has protocol 4; torch.save writes 2", [] { open_torch(fixture("torch_protocol_4.bin")); });
  expect_data_error("is compressed", [] { open_torch(fixture("torch_compressed.bin")); });
  expect_data_error("no zip directory at its end", [] { open_torch(fixture("all_dtypes.safetensors")); });
  expect_data_error("no zip directory at its end", [] { open_bytes(""); });
}

TEST(TorchPickle, RefusesUnknownOpcodesByNumber) {
  const std::string archive = test::read_file(fixture("torch_plain_dict.bin"));
  expect_data_error("has opcode 0x93", [&] { open_bytes(with(archive, "\x80\x02}", "\x80\x02\x93")); });
}

TEST(TorchPickle, RefusesContradictionsBetweenPickleAndArchive) {
  const std::string archive = test::read_file(fixture("torch_plain_dict.bin"));
  // The storage's key is '0' and it has 4 elements: X 01 00 00 00 '0' ... K 04 ... Q.
  expect_data_error("storage \"7\" is missing", [&] {
    open_bytes(with(archive, std::string("X\1\0\0\0", 5) + "0", std::string("X\1\0\0\0", 5) + "7"));
  });
  expect_data_error("has 16 bytes, but the pickle says 9 elements",
                    [&] { open_bytes(with(archive, "K\x04tq", "K\x09tq")); });
  expect_data_error("reaches beyond its storage",
                    [&] { open_bytes(with(archive, "K\x02K\x02\x86", "K\x02K\x03\x86")); });
  expect_data_error("big-endian", [&] { open_bytes(with(archive, "little", "bigbig")); });
}

TEST(TorchPickle, EveryTruncationAndEveryChangedByteIsAnErrorOrATensor) {
  const std::string archive = test::read_file(fixture("torch_plain_dict.bin"));
  const test::TemporaryFolder folder;
  for (std::size_t bytes = 0; bytes < archive.size(); ++bytes) {
    const std::string path = folder.write("cut.bin", archive.substr(0, bytes));
    EXPECT_NE(test::error_of([&] { open_torch(path); }), "no error") << bytes;
    std::filesystem::remove(path);  // writing over an existing file is slow: some file systems then sync it
  }
  for (std::size_t at = 0; at < archive.size(); ++at) {
    std::string changed = archive;
    changed[at] = static_cast<char>(~changed[at]);
    const std::string path = folder.write("changed.bin", changed);
    test::error_of([&] { open_torch(path); });  // fails by itself if it is not Error{kData}
    std::filesystem::remove(path);
  }
}

TEST(ZipEntries, AreFoundBesideACommentAndWithoutZip64) {
  std::string archive = test::read_file(fixture("torch.bin"));
  const std::size_t end64 = archive.rfind("PK\6\6");
  archive.erase(end64, archive.rfind("PK\5\6") - end64);
  archive.replace(archive.size() - 2, 2, std::string("\2\0hi", 4));
  const test::TemporaryFolder folder;
  expect_equal_to_torch(folder.write("comment.bin", archive));
}

TEST(ZipEntries, RefusesDirectoriesThatPointOutside) {
  const std::string archive = test::read_file(fixture("torch_plain_dict.bin"));
  const std::size_t end = archive.rfind("PK\6\6");  // torch always writes a zip64 end as well
  ASSERT_NE(end, std::string::npos);
  std::string changed = archive;
  changed.replace(end + 48, 4, std::string("\xff\xff\xff\x7f", 4));
  expect_data_error("with an offset of 2147483647", [&] { open_bytes(changed); });
  changed = archive;
  changed.replace(archive.find("PK\1\2") + 42, 4, std::string("\1\0\0\0", 4));
  expect_data_error("is not where the zip directory places it", [&] { open_bytes(changed); });
  changed = archive;
  const std::string size = {static_cast<char>(archive.size() & 255), static_cast<char>(archive.size() >> 8), '\0',
                            '\0'};
  changed.replace(archive.rfind("PK\1\2") + 20, 8, size + size);
  expect_data_error("reaches beyond the end", [&] { open_bytes(changed); });
}

}  // namespace
}  // namespace bascule::test_torch_pickle
