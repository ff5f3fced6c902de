// SPDX-License-Identifier: Apache-2.0
// Measures what the index of a manifest of millions of rows costs. Runs only with BASCULE_LARGE=<rows>, say 5000000
// (1 GB of temporary files, half a minute), alone on the machine and without sanitizers; prints what it measured.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "src/index/open_manifest.h"
#include "src/loader/label_count.h"
#include "src/loader/sampler.h"
#include "tests/loader/loader_run.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test_large_manifest {
namespace {

namespace fs = std::filesystem;

// As many paths as there are rows, of few files: links to one folder of links to one picture.
constexpr std::int64_t kPerFolder = 2500;

std::string path_of(std::int64_t row) {
  char text[64];
  std::snprintf(text, sizeof text, "images/%05d/%05d.jpg", static_cast<int>(row / kPerFolder),
                static_cast<int>(row % kPerFolder));
  return text;
}

void make_pictures(const test::TemporaryFolder& folder, std::int64_t rows) {
  const fs::path images = folder.path() + "/images";
  fs::create_directories(images / "00000");
  folder.write("images/00000/00000.jpg", "a picture");
  for (std::int64_t i = 1; i < kPerFolder; ++i) {
    fs::create_hard_link(images / "00000/00000.jpg", fs::path(folder.path()) / path_of(i));
  }
  for (std::int64_t i = kPerFolder; i < rows; i += kPerFolder) {
    fs::create_directory_symlink("00000", fs::path(folder.path() + "/" + path_of(i)).parent_path());
  }
}

template <typename Do>
double seconds_of(const Do& what) {
  const auto begin = std::chrono::steady_clock::now();
  what();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

TEST(LargeManifest, CostsWhatIsStated) {
  const char* const wanted = std::getenv("BASCULE_LARGE");
  const std::int64_t rows = wanted != nullptr ? std::atoll(wanted) : 0;
  if (rows < 100'000) GTEST_SKIP() << "set BASCULE_LARGE=5000000";
  const test::TemporaryFolder data, kept;
  make_pictures(data, rows);
  const std::string path = data.path() + "/rows.jsonl";
  {
    std::ofstream file(path, std::ios::binary);
    for (std::int64_t i = 0; i < rows; ++i) {
      file << R"({"image": ")" << path_of(i) << R"(", "caption": "a photograph of thing )" << i * 7919 % 10007
           << " beside another\"}\n";
    }
  }
  const double load_seconds = seconds_of([&] { Manifest::load(path, ManifestColumns()); });
  const IndexCache cache{kept.path()};
  const double first_seconds = seconds_of([&] { open_manifest(path, ManifestColumns(), cache); });
  double open_seconds = 1e9;
  for (int i = 0; i < 3; ++i) {
    open_seconds = std::min(open_seconds, seconds_of([&] { open_manifest(path, ManifestColumns(), cache); }));
  }
  Manifest manifest = open_manifest(path, ManifestColumns(), cache).manifest;
  const double own_seconds = seconds_of([&] { EXPECT_TRUE(manifest.read_into_memory()); });
  std::size_t caption_bytes = 0;
  for (std::int64_t row = 0; row < rows; ++row) caption_bytes += manifest.row(row).text.size();
  const double row_bytes =
      static_cast<double>(manifest.resident_bytes() - caption_bytes) / static_cast<double>(manifest.rows());
  TextSettings text;
  text.tokenizer = &test::emoji_tokenizer();
  text.shape.max_length = 64;
  text.shape.vocabulary_size = 3000;
  const double lengths_seconds = seconds_of([&] { text_lengths(manifest, text, cache); });
  const double kept_lengths_seconds = seconds_of([&] { text_lengths(manifest, text, cache); });
  std::size_t seen = 0;
  const double seek_seconds = seconds_of([&] {
    const EpochOrder order(42, 3, rows);
    for (std::int64_t i = 0; i < 1000; ++i) seen += manifest.row(order.row((rows / 2 + i) % rows)).text.size();
  });
  std::printf(
      "%lld rows: read at %.0f rows/s; with sizes of pictures and written in %.1f s; opened again in %.2f ms, read "
      "through in %.0f ms; %.1f bytes a row beside captions; captions tokenised in %.1f s, again in %.2f ms; "
      "1000 samples from the middle of an epoch in %.2f ms (%zu)\n",
      static_cast<long long>(rows), static_cast<double>(rows) / load_seconds, first_seconds, 1e3 * open_seconds,
      1e3 * own_seconds, row_bytes, lengths_seconds, 1e3 * kept_lengths_seconds, 1e3 * seek_seconds, seen);
  EXPECT_GE(static_cast<double>(rows) / load_seconds, 300e3);
  EXPECT_LT(open_seconds, 0.05);
  EXPECT_LE(row_bytes, 64.0);
  EXPECT_LT(own_seconds + seek_seconds, 1.0);
}

}  // namespace
}  // namespace bascule::test_large_manifest
