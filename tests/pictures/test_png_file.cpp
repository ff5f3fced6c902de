// SPDX-License-Identifier: Apache-2.0
// PNG files as the PNG specification reads them: chunks, checksums, filters. tests/tools/test_png_files.py has Pillow
// read them too.
#include "src/pictures/png_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "src/base/error.h"
#include "tests/support/files.h"
#include "tests/support/png_checksums.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test {
namespace {

using Bytes = std::vector<std::uint8_t>;

struct Picture {
  std::int64_t width, height;
  Bytes pixels;

  RgbPicture view() const { return {pixels.data(), width, height}; }
};

// A slope with some noise, so that every branch of the filter is taken.
Picture sample(std::int64_t width, std::int64_t height) {
  Picture picture{width, height, {}};
  for (std::int64_t i = 0; i < 3 * width * height; ++i) {
    const std::int64_t x = i / 3 % width, y = i / 3 / width;
    picture.pixels.push_back(static_cast<std::uint8_t>((x * 5 + y * 3 + i % 3 * 60 + i * i % 23) % 256));
  }
  return picture;
}

const std::vector<NamedText> kTexts = {{"Software", "Bascule"},
                                       {"prompt", "a fox, \"quoted\"\nand a second line"},
                                       {"negative prompt", "na\xC3\xAFve \xF0\x9F\xA6\x8A"},
                                       {"seed", ""}};

struct Chunk {
  std::string type, data;
};

std::uint32_t number_at(const std::string& bytes, std::size_t at) {
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < 4; ++i) number = number << 8 | static_cast<unsigned char>(bytes.at(at + i));
  return number;
}

std::vector<Chunk> chunks_of(const std::string& file) {
  EXPECT_EQ(file.substr(0, 8), "\x89PNG\r\n\x1a\n");
  std::vector<Chunk> chunks;
  for (std::size_t at = 8; at < file.size();) {
    const std::size_t length = number_at(file, at);
    chunks.push_back({file.substr(at + 4, 4), file.substr(at + 8, length)});
    const Bytes summed(file.begin() + static_cast<std::ptrdiff_t>(at + 4),
                       file.begin() + static_cast<std::ptrdiff_t>(at + 8 + length));
    EXPECT_EQ(number_at(file, at + 8 + length), crc32_of(summed.data(), summed.size())) << chunks.back().type;
    at += length + 12;
  }
  return chunks;
}

int paeth(int left, int above, int corner) {
  const int estimate = left + above - corner;
  const int to_left = std::abs(estimate - left), to_above = std::abs(estimate - above),
            to_corner = std::abs(estimate - corner);
  return to_left <= to_above && to_left <= to_corner ? left : to_above <= to_corner ? above : corner;
}

// The pixels of a file. All rows have the Paeth filter, or none where the picture has one row or one column.
Bytes pixels_of(const std::vector<Chunk>& chunks, std::int64_t width, std::int64_t height) {
  std::string packed;
  for (const Chunk& chunk : chunks)
    if (chunk.type == "IDAT") packed += chunk.data;
  const auto row = static_cast<std::size_t>(3 * width), rows = static_cast<std::size_t>(height);
  const bool is_filtered = width > 1 && height > 1;
  Bytes filtered((row + 1) * rows + 1);
  uLongf size = filtered.size();
  EXPECT_EQ(uncompress(filtered.data(), &size, reinterpret_cast<const Bytef*>(packed.data()), packed.size()), Z_OK);
  EXPECT_EQ(size, (row + 1) * rows);
  Bytes pixels(row * rows);
  const auto pixel = [&](std::size_t y, std::size_t i) { return static_cast<int>(pixels[y * row + i]); };
  for (std::size_t y = 0; y < rows; ++y) {
    EXPECT_EQ(filtered[y * (row + 1)], is_filtered ? 4 : 0) << "the filter of row " << y;
    for (std::size_t i = 0; i < row; ++i) {
      const int left = i < 3 ? 0 : pixel(y, i - 3), above = y == 0 ? 0 : pixel(y - 1, i);
      const int corner = i < 3 || y == 0 ? 0 : pixel(y - 1, i - 3);
      const int guess = is_filtered ? paeth(left, above, corner) : 0;
      pixels[y * row + i] = static_cast<std::uint8_t>(filtered[y * (row + 1) + 1 + i] + guess);
    }
  }
  return pixels;
}

TEST(PngFile, HoldsThePixels) {
  for (const auto& [width, height] :
       {std::pair<std::int64_t, std::int64_t>{1, 1}, {3, 1}, {1, 5}, {24, 16}, {301, 77}}) {
    const Picture picture = sample(width, height);
    const std::vector<Chunk> chunks = chunks_of(png_content(picture.view()));
    ASSERT_GE(chunks.size(), 3u);
    EXPECT_EQ(chunks.front().type, "IHDR");
    EXPECT_EQ(number_at(chunks.front().data, 0), static_cast<std::uint32_t>(width));
    EXPECT_EQ(number_at(chunks.front().data, 4), static_cast<std::uint32_t>(height));
    EXPECT_EQ(chunks.front().data.substr(8), std::string("\x08\x02\0\0\0", 5)) << "8 bits, RGB, not interlaced";
    EXPECT_EQ(pixels_of(chunks, width, height), picture.pixels);
    EXPECT_EQ(chunks.back().type, "IEND");
  }
}

// Nothing but header, texts and pixels: no time above all, so that the same picture has the same bytes.
TEST(PngFile, HasNoOtherChunksAndTheSameBytesEveryTime) {
  const Picture picture = sample(64, 48);
  const std::string file = png_content(picture.view(), kTexts);
  for (const Chunk& chunk : chunks_of(file))
    EXPECT_NE(std::string("IHDR tEXt iTXt IDAT IEND").find(chunk.type), std::string::npos) << chunk.type;
  EXPECT_EQ(png_content(picture.view(), kTexts), file);
}

TEST(PngFile, HoldsTexts) {
  std::vector<std::pair<std::string, std::string>> found;
  for (const Chunk& chunk : chunks_of(png_content(sample(5, 4).view(), kTexts)))
    if (chunk.type == "tEXt" || chunk.type == "iTXt") found.emplace_back(chunk.type, chunk.data);
  const auto joined = [](const NamedText& text, const std::string& between) {
    return text.name + between + text.value;
  };
  const std::string zero(1, '\0'), five(5, '\0');  // of iTXt: key 0, not packed, no method, no language, no other key
  ASSERT_EQ(found.size(), kTexts.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    const bool is_utf8 = i == 2;
    EXPECT_EQ(found[i].first, is_utf8 ? "iTXt" : "tEXt");
    EXPECT_EQ(found[i].second, joined(kTexts[i], is_utf8 ? five : zero));
  }
}

TEST(PngFile, IsReadBackAndNotWithAnyBitChanged) {
  const Picture picture = sample(9, 7);
  const std::string file = png_content(picture.view(), kTexts);
  EXPECT_EQ(png_pixels(file, 9, 7), picture.pixels);
  EXPECT_TRUE(png_pixels(file, 7, 9).empty()) << "of another size";
  for (std::size_t i = 0; i < file.size(); ++i) {
    std::string changed = file;
    changed[i] = static_cast<char>(changed[i] ^ 1 << i % 8);
    EXPECT_TRUE(png_pixels(changed, 9, 7).empty()) << "byte " << i;
    EXPECT_TRUE(png_pixels(file.substr(0, i), 9, 7).empty()) << "cut to " << i;
  }
  EXPECT_TRUE(png_pixels(file + "\n", 9, 7).empty()) << "with a byte behind it";
}

TEST(PngFile, RefusesTextsThatPngCannotHold) {
  const Picture picture = sample(2, 2);
  const auto refusal = [&](const std::string& value) {
    return error_of([&] { png_content(picture.view(), {{"prompt", value}}); });
  };
  EXPECT_EQ(refusal("caf\xE9"), "PNG text \"prompt\": is not UTF-8");
  EXPECT_EQ(refusal(std::string("a\0b", 3)), "PNG text \"prompt\": has a byte 0");
  EXPECT_EQ(refusal("caf\xC3\xA9"), "no error");
}

TEST(PngFile, IsWrittenWholeOrNotAtAll) {
  const TemporaryFolder folder;
  const Picture picture = sample(20, 10);
  const std::string path = folder.path() + "/0001.png";
  write_png(path, picture.view(), kTexts);
  EXPECT_EQ(read_file(path), png_content(picture.view(), kTexts));
  write_png(path, sample(10, 20).view());
  EXPECT_EQ(read_file(path), png_content(sample(10, 20).view())) << "replaced";
  const std::string line = error_of([&] { write_png("/dev/full", picture.view()); }, ErrorKind::kDisk);
  EXPECT_NE(line.find("/dev/full: is not a regular file"), std::string::npos) << line;
  const std::string absent = folder.path() + "/absent/0001.png";
  EXPECT_NE(error_of([&] { write_png(absent, picture.view()); }, ErrorKind::kDisk).find("cannot be written"),
            std::string::npos);
  std::vector<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    left.push_back(entry.path().filename().string());
  EXPECT_EQ(left, std::vector<std::string>{"0001.png"});
}

// For tests/tools/test_png_files.py: the pictures, and their pixels as they are.
TEST(PngFile, IsWrittenForOtherReaders) {
  const char* const folder = std::getenv("BASCULE_PNG_SAMPLES");
  if (folder == nullptr) GTEST_SKIP() << "only where another program reads them";
  for (const auto& [width, height] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {24, 16}, {512, 512}}) {
    const Picture picture = sample(width, height);
    const std::string stem = std::string(folder) + "/" + std::to_string(width) + "x" + std::to_string(height);
    write_png(stem + ".png", picture.view(), kTexts);
    std::ofstream(stem + ".rgb", std::ios::binary)
        .write(reinterpret_cast<const char*>(picture.pixels.data()),
               static_cast<std::streamsize>(picture.pixels.size()));
  }
}

}  // namespace
}  // namespace bascule::test
