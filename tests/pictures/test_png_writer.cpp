// SPDX-License-Identifier: Apache-2.0
// The writer of PNG files as sealed code uses it: its memory, its bounds, what it leaves on a disk. test_png_file.cpp
// reads what it writes.
#include "src/pictures/png_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <zlib.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "src/base/span.h"
#include "src/files/durable_write.h"
#include "src/runtime/guard.h"
#include "tests/support/files.h"
#include "tests/support/guarded_buffer.h"
#include "tests/support/png_checksums.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test {
namespace {

using Bytes = std::vector<std::uint8_t>;
using Names = std::vector<std::string>;

// Noise, which cannot be packed, is what needs most room in a file.
Bytes noise(std::size_t count) {
  Bytes bytes(count);
  std::uint32_t state = 12345;
  for (std::uint8_t& byte : bytes) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<std::uint8_t>(state >> 24);
  }
  return bytes;
}

// With the memory that it asks for and an unreadable page behind it (up to 15 bytes behind it, as memory is aligned).
struct PlacedWriter {
  explicit PlacedWriter(const PngLimits& limits) : writer(limits), memory(align_up<std::size_t>(writer.bytes(), 16)) {
    std::memset(memory.data(), 0xA5, memory.size());
    writer.seal(memory.data());
  }
  PngWriter* operator->() { return &writer; }
  std::string content(const RgbPicture& picture, const std::vector<PngTextView>& texts = {}) {
    std::string_view file;
    const Status status = writer.encode(picture, texts, &file);
    EXPECT_TRUE(status.ok()) << status.detail[0];
    return std::string(file);
  }

  PngWriter writer;
  GuardedBuffer<std::byte> memory;
};

const std::string kLongKey(79, 'k');
const std::string kLongValue(100, 'v');

std::string big_endian(std::size_t number) {
  std::string text;
  for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(number >> shift & 255);
  return text;
}

std::string chunk(const std::string& type, const std::string& data) {
  const std::string summed = type + data;
  const std::uint32_t sum = crc32_of(reinterpret_cast<const std::uint8_t*>(summed.data()), summed.size());
  return big_endian(data.size()) + summed + big_endian(sum);
}

// Every row with the Paeth filter (PNG specification, 9.4).
std::string filtered_rows(const RgbPicture& picture) {
  const auto row = static_cast<std::size_t>(3 * picture.width);
  const auto at = [&](std::size_t y, std::size_t i) { return static_cast<int>(picture.pixels[y * row + i]); };
  std::string rows;
  for (std::size_t y = 0; y < static_cast<std::size_t>(picture.height); ++y) {
    rows += '\x04';
    for (std::size_t i = 0; i < row; ++i) {
      const int left = i < 3 ? 0 : at(y, i - 3), above = y == 0 ? 0 : at(y - 1, i);
      const int corner = i < 3 || y == 0 ? 0 : at(y - 1, i - 3), estimate = left + above - corner;
      const int to_left = std::abs(estimate - left), to_above = std::abs(estimate - above);
      const int to_corner = std::abs(estimate - corner);
      const int guess = to_left <= to_above && to_left <= to_corner ? left : to_above <= to_corner ? above : corner;
      rows += static_cast<char>(at(y, i) - guess);
    }
  }
  return rows;
}

// Put together by the specification, packed by zlib in one go.
std::string expected_file(const RgbPicture& picture) {
  const std::string rows = filtered_rows(picture);
  std::string packed(compressBound(rows.size()), '\0');
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 15, 8, Z_FILTERED), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(rows.data()));
  stream.avail_in = static_cast<uInt>(rows.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  std::string file = "\x89PNG\r\n\x1a\n";
  file += chunk("IHDR", big_endian(static_cast<std::size_t>(picture.width)) +
                            big_endian(static_cast<std::size_t>(picture.height)) + std::string("\x08\x02\0\0\0", 5));
  file += chunk("tEXt", std::string("seed\0"
                                    "42",
                                    7));
  file += chunk("iTXt", std::string("prompt\0\0\0\0\0", 11) + "caf\xC3\xA9");
  for (std::size_t begin = 0; begin < packed.size(); begin += 8192) file += chunk("IDAT", packed.substr(begin, 8192));
  return file + chunk("IEND", "");
}

// Of more than 16 KiB: for smaller ones libpng chooses a smaller window.
TEST(PngWriter, WritesTheBytesThatTheSpecificationAndZlibGive) {
  Bytes pixels = noise(3 * 200 * 150);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i / 600 + pixels[i] % 8);
  const RgbPicture picture{pixels.data(), 200, 150};
  PlacedWriter writer({200, 150, 2, 100});
  const std::string file = writer.content(picture, {{"seed", "42"}, {"prompt", "caf\xC3\xA9"}});
  EXPECT_GT(file.size(), 3u * 8192);
  EXPECT_TRUE(file == expected_file(picture));
}

// Both in the memory measured for that size, and in that for the largest.
TEST(PngWriter, MemorySufficesForEveryWidth) {
  constexpr std::int64_t kMost = 4096;
  const std::vector<PngTextView> texts = {{kLongKey, kLongValue}, {kLongKey, kLongValue}};
  const Bytes pixels = noise(std::size_t{3} * kMost * 3);
  PlacedWriter largest({kMost, 3, texts.size(), kLongValue.size()});
  for (std::int64_t width = 1; width <= kMost; ++width) {
    const RgbPicture picture{pixels.data(), width, 1 + width % 3};
    PlacedWriter own({width, picture.height, texts.size(), kLongValue.size()});
    ASSERT_TRUE(largest.content(picture, texts) == own.content(picture, texts)) << width << " x " << picture.height;
    ASSERT_LE(own->bytes(), largest->bytes());
  }
}

TEST(PngWriter, MemorySufficesForTallPicturesOfNoise) {
  for (const auto& [width, height] :
       {std::pair<std::int64_t, std::int64_t>{1, 65535}, {1, 5000}, {30, 181}, {512, 512}}) {
    const Bytes pixels = noise(static_cast<std::size_t>(3 * width * height));
    PlacedWriter writer({width, height, 0, 0});
    EXPECT_GT(writer.content({pixels.data(), width, height}).size(), pixels.size());
  }
}

// The wider a picture, the earlier it lacks memory: at the last allocation of zlib, at the first row of libpng, and at
// all between.
TEST(PngWriter, RunningOutOfMemoryIsAStatus) {
  const Bytes pixels = noise(std::size_t{3} * 65535 * 2);
  PlacedWriter writer({2, 2, 1, 10});
  const RgbPicture small{pixels.data(), 2, 2};
  const std::string expected = writer.content(small);
  bool ran_out = false;
  for (std::int64_t width = 3; width <= 65535; width += 1 + width / 200) {
    std::string_view file;
    const Status status = writer->encode({pixels.data(), width, 2}, {}, &file);
    if (!status.ok()) {
      EXPECT_EQ(status.code, StatusCode::kDiskFailed);
      EXPECT_TRUE(status.detail[0] == ENOMEM || status.detail[0] == EOVERFLOW) << status.detail[0];
    }
    ran_out = ran_out || status.detail[0] == ENOMEM;
    ASSERT_TRUE(!ran_out || status.detail[0] == ENOMEM) << width;
    ASSERT_EQ(writer.content(small), expected) << "after a width of " << width;
  }
  EXPECT_TRUE(ran_out);
}

TEST(PngWriter, AFileThatDoesNotFitIsAStatus) {
  const Bytes pixels = noise(3 * 4 * 4);
  PlacedWriter writer({4, 4, 1, 100});
  const RgbPicture picture{pixels.data(), 4, 4};
  std::vector<PngTextView> texts;
  const std::string expected = writer.content(picture);
  Status status;
  std::string_view file;
  for (int i = 0; i < 1000 && status.ok(); ++i) {
    texts.push_back({"k", kLongValue});
    status = writer->encode(picture, texts, &file);
  }
  EXPECT_EQ(status.code, StatusCode::kDiskFailed);
  EXPECT_EQ(status.detail[0], EOVERFLOW);
  EXPECT_EQ(writer.content(picture), expected);
}

TEST(PngWriter, AValueIsCutBetweenTwoCharacters) {
  const Bytes pixels = noise(3);
  const RgbPicture picture{pixels.data(), 1, 1};
  PlacedWriter cutting({1, 1, 1, 5}), whole({1, 1, 1, 100});
  const auto shown_as = [&](std::string_view value, std::string_view cut) {
    EXPECT_EQ(cutting.content(picture, {{"prompt", value}}), whole.content(picture, {{"prompt", cut}})) << value;
  };
  shown_as("abcde", "abcde");
  shown_as("abcdef", "abcde");
  shown_as("abc\xC3\xA9", "abc\xC3\xA9");
  shown_as("abcd\xC3\xA9", "abcd");
  shown_as("\xF0\x9F\xA6\x8A\xF0\x9F\xA6\x8A", "\xF0\x9F\xA6\x8A");
}

std::uint64_t foreign_calls() {
  ForeignAllocations found[64];
  std::uint64_t calls = 0;
  for (std::size_t i = foreign_allocations(found, 64); i > 0; --i) calls += found[i - 1].calls;
  return calls;
}

TEST(PngWriter, NeitherItNorLibpngNorZlibAllocatesAfterTheSeal) {
  if (!guard_is_active()) GTEST_SKIP() << "a sanitizer's allocator is in place";
  const TemporaryFolder folder;
  const Bytes pixels = noise(std::size_t{3} * (96 + 50) * 64);
  PlacedWriter writer({96, 64, 2, 20});
  const PngTextView texts[] = {{"prompt", "a fox named na\xC3\xAFve \xF0\x9F\xA6\x8A"}, {"seed", "42"}};
  const std::string path = folder.path();
  int failed = 0;
  seal_memory();
  const std::uint64_t before = foreign_calls();
  for (int i = 0; i < 50; ++i) {
    PathBuffer name;
    name.append(i).append(".png");
    const RgbPicture picture{pixels.data() + 3 * 64 * i, 96, 64};
    failed += writer->write(path.c_str(), name.text(), picture, Span<const PngTextView>(texts, 2)).ok() ? 0 : 1;
  }
  const std::uint64_t after = foreign_calls();
  open_memory();
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(after - before, 0u);
  EXPECT_EQ(folder_entries(folder.path()).size(), 50u);
  EXPECT_EQ(read_file(folder.path() + "/49.png"),
            writer.content({pixels.data() + 3 * 64 * 49, 96, 64}, {texts[0], texts[1]}));
}

TEST(PngWriter, AFullDiskIsAStatusAndLeavesTheFormerPicture) {
  const TemporaryFolder folder;
  const Bytes pixels = noise(3 * 64 * 64);
  PlacedWriter writer({64, 64, 0, 0});
  const RgbPicture large{pixels.data(), 64, 64}, small{pixels.data(), 8, 8};
  ASSERT_TRUE(writer->write(folder.path().c_str(), "0.png", small, {}).ok());
  struct rlimit usual {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &usual), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit few = usual;
  few.rlim_cur = 5000;
  ::setrlimit(RLIMIT_FSIZE, &few);
  const Status replacing = writer->write(folder.path().c_str(), "0.png", large, {});
  const Status another = writer->write(folder.path().c_str(), "1.png", large, {});
  ::setrlimit(RLIMIT_FSIZE, &usual);
  std::signal(SIGXFSZ, handler);
  for (const Status& status : {replacing, another}) {
    EXPECT_EQ(status.code, StatusCode::kDiskFailed);
    EXPECT_EQ(status.detail[0], EFBIG);
  }
  EXPECT_EQ(folder_entries(folder.path()), Names{"0.png"});
  EXPECT_EQ(read_file(folder.path() + "/0.png"), writer.content(small));
  EXPECT_EQ(writer->write((folder.path() + "/absent").c_str(), "0.png", small, {}).detail[0], ENOENT);
}

class PngWriterDeathTest : public ::testing::Test {
 protected:
  void SetUp() override { ::testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

TEST_F(PngWriterDeathTest, AKeyThatPngDoesNotPermitIsABug) {
  const Bytes pixels = noise(3);
  PlacedWriter writer({1, 1, 1, 1});
  for (const char* key : {"", " a", "a  b", "caf\xC3\xA9"})
    EXPECT_EXIT(writer.content({pixels.data(), 1, 1}, {{key, ""}}), ::testing::ExitedWithCode(1), "is_key");
}

}  // namespace
}  // namespace bascule::test
