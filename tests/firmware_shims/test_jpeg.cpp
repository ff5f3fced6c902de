// SPDX-License-Identifier: Apache-2.0
// Reading only a window gives the samples that reading everything gives, for every kind of file.
#include "firmware_shims/codec/jpeg.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/firmware_shims/encode_jpeg.h"
#include "tests/firmware_shims/engine_on_test.h"
#include "tests/support/reference_dir.h"
#include "tests/support/seeded.h"

namespace bascule::codec {
namespace {

using test::Bytes;

constexpr Limits kLimits = {40'000'000, 500, 2000};

struct Rows {
  Window window;
  std::int64_t columns_begin;
  std::vector<Bytes> rows;  // of the window's columns
};

void keep_rows(void* context, const std::uint8_t* data, std::int64_t stride, std::int64_t first, std::int64_t count) {
  Rows& kept = *static_cast<Rows*>(context);
  EXPECT_EQ(first, kept.window.y_begin + static_cast<std::int64_t>(kept.rows.size()));
  for (std::int64_t r = 0; r < count; ++r) {
    const std::uint8_t* const row = data + r * stride;
    kept.rows.emplace_back(row + 4 * (kept.window.x_begin - kept.columns_begin),
                           row + 4 * (kept.window.x_end - kept.columns_begin));
  }
}

class Reader {
 public:
  Reader() : memory_(std::size_t{96} << 20) {
    arena_.base = memory_.data() + (64 - reinterpret_cast<std::uintptr_t>(memory_.data()) % 64);
    arena_.size_bytes = memory_.size() - 64;
  }
  Verdict header(const Bytes& file) {
    arena_.used_bytes = 0;
    return reader_.read_header(&arena_, file.data(), file.size(), kLimits, nullptr);
  }
  Verdict rows(Rows* kept) {
    const Verdict begun = reader_.begin(1, kept->window);
    if (!begun.ok()) return begun;
    kept->columns_begin = reader_.columns_begin();
    return reader_.read_rows({kept, keep_rows});
  }
  JpegReader& get() { return reader_; }

 private:
  Bytes memory_;
  Arena arena_;
  JpegReader reader_;
};

void expect_windows_exact(Reader& reader, const Bytes& file, const std::string& name, test::Seeded& random) {
  if (!reader.header(file).ok()) {
    reader.get().end();
    return;
  }
  const std::int64_t width = reader.get().width();
  const std::int64_t height = reader.get().height();
  Rows whole{{0, width, 0, height}, 0, {}};
  const Verdict verdict = reader.rows(&whole);
  reader.get().end();
  if (!verdict.ok()) return;
  for (int trial = 0; trial < 12; ++trial) {
    Rows part{};
    part.window.x_begin = random.integer(0, width - 1);
    part.window.x_end = random.integer(part.window.x_begin + 1, width);
    part.window.y_begin = random.integer(0, height - 1);
    part.window.y_end = random.integer(part.window.y_begin + 1, height);
    ASSERT_TRUE(reader.header(file).ok()) << name;
    ASSERT_TRUE(reader.rows(&part).ok()) << name;
    reader.get().end();
    ASSERT_EQ(static_cast<std::int64_t>(part.rows.size()), part.window.y_end - part.window.y_begin) << name;
    for (std::size_t r = 0; r < part.rows.size(); ++r) {
      const Bytes& full = whole.rows[static_cast<std::size_t>(part.window.y_begin) + r];
      for (std::size_t i = 0; i < part.rows[r].size(); ++i) {
        if (i % 4 == 3) continue;  // the fourth byte means nothing
        ASSERT_EQ(part.rows[r][i], full[4 * static_cast<std::size_t>(part.window.x_begin) + i])
            << name << " window x " << part.window.x_begin << ".." << part.window.x_end << " y " << part.window.y_begin
            << ".." << part.window.y_end << " row " << r << " value " << i;
      }
    }
  }
}

TEST(JpegReader, AWindowHasTheSamplesOfTheWholePicture) {
  Reader reader;
  test::Seeded random;
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(test::reference_dir() + "/images/jpeg"))
    paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  ASSERT_GT(paths.size(), 100u);
  for (const auto& path : paths) {
    if (path.filename() == "big_6000x4000.jpg") continue;
    expect_windows_exact(reader, test::read_bytes(path.string()), path.filename().string(), random);
  }
  for (const bool subsampled : {false, true}) {
    expect_windows_exact(reader, test::encode_jpeg(701, 333, {false, subsampled}), "made", random);
    expect_windows_exact(reader, test::encode_jpeg(640, 480, {true, subsampled}), "made progressive", random);
  }
}

// Tables and tallies of one picture must not be there for the next.
TEST(JpegReader, APictureWithoutTablesDoesNotGetThoseOfTheOneBefore) {
  Reader reader;
  const auto verdict_of = [&](const char* name) {
    const Bytes file = test::read_bytes(test::reference_dir() + "/images/jpeg/" + name);
    Verdict verdict = reader.header(file);
    if (verdict.ok()) {
      Rows whole{{0, reader.get().width(), 0, reader.get().height()}, 0, {}};
      verdict = reader.rows(&whole);
    }
    reader.get().end();
    return verdict.status;
  };
  EXPECT_EQ(verdict_of("base_420.jpg"), MEDIA_ENGINE_OK);
  EXPECT_EQ(verdict_of("bad_dqt_missing.jpg"), MEDIA_ENGINE_PICTURE_BROKEN);
  EXPECT_EQ(verdict_of("no_dht_mjpeg.jpg"), MEDIA_ENGINE_OK);
}

TEST(JpegReader, DamageBelowTheWindowIsFound) {
  Reader reader;
  Bytes file = test::encode_jpeg(640, 480);
  file.resize(file.size() - 2);
  ASSERT_TRUE(reader.header(file).ok());
  Rows part{{0, 640, 0, 8}, 0, {}};
  EXPECT_EQ(reader.rows(&part).status, MEDIA_ENGINE_PICTURE_TRUNCATED);
  reader.get().end();
}

}  // namespace
}  // namespace bascule::codec
