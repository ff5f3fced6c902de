// SPDX-License-Identifier: Apache-2.0
// Files that data comes from, with bytes changed, cut, doubled and swapped: shards, manifests of each kind, kept
// indexes. Each gives rows or one Error, in bounded time. BASCULE_MUTATIONS says how many of each (300 by default);
// BASCULE_TEST_SEED which.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "src/base/error.h"
#include "src/index/manifest.h"
#include "src/index/open_manifest.h"
#include "src/index/picture_folder.h"
#include "tests/index/tar_writer.h"
#include "tests/support/seeded.h"
#include "tests/support/temporary_folder.h"

namespace bascule {
namespace {

using test::kTarBlock;
using test::Seeded;
using test::TemporaryFolder;

int mutations_wanted() {
  const char* const wanted = std::getenv("BASCULE_MUTATIONS");
  return wanted != nullptr && *wanted != '\0' ? std::atoi(wanted) : 300;
}

std::size_t place(Seeded& random, const std::string& bytes) {
  return static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(bytes.size()) - 1));
}

void mutate_once(std::string* bytes, Seeded& random) {
  if (bytes->empty()) bytes->push_back('x');
  const std::size_t at = place(random, *bytes);
  const std::size_t run = static_cast<std::size_t>(random.integer(1, 40));
  switch (random.integer(0, 6)) {
    case 0: (*bytes)[at] = static_cast<char>((*bytes)[at] ^ (1 << random.integer(0, 7))); break;
    case 1: (*bytes)[at] = static_cast<char>(random.bits()); break;
    case 2: (*bytes)[at] = "\"\\{}[],\r\n\t \0\xFF"[random.integer(0, 12)]; break;
    case 3: bytes->erase(at, run); break;
    case 4: bytes->insert(at, run, static_cast<char>(random.bits())); break;
    case 5: bytes->insert(place(random, *bytes), std::string(*bytes, at, run)); break;
    default: bytes->resize(at);
  }
}

// All of it: every row, every picture.
void use(const Manifest& manifest) {
  ASSERT_GT(manifest.rows(), 0);
  for (std::int64_t i = 0; i < manifest.rows(); ++i) {
    const ManifestRow row = manifest.row(i);
    ASSERT_LE(row.text.size(), manifest.longest_text_bytes());
    ASSERT_LT(row.image_id, manifest.pictures());
    ASSERT_FALSE(manifest.where(i).empty() || manifest.picture_location(row.image_id).empty());
  }
  if (manifest.shards().empty()) return;
  const PictureFolder folder(manifest);
  std::vector<std::uint8_t> memory(folder.largest_file_bytes() + 1);
  std::size_t bytes = 0;
  for (std::int64_t i = 0; i < manifest.rows(); ++i) ASSERT_EQ(folder.read(i, Span<std::uint8_t>(memory), &bytes), 0);
}

// Returns how many of the mutated files were taken.
int load_all(const std::string& name, const std::vector<std::string>& originals,
             void (*mutate)(std::string* bytes, Seeded& random)) {
  const TemporaryFolder folder;
  Seeded random;
  ManifestColumns columns;
  int taken = 0;
  for (int i = 0; i < mutations_wanted(); ++i) {
    std::string bytes = originals[static_cast<std::size_t>(i) % originals.size()];
    for (std::int64_t n = random.integer(1, 4); n > 0; --n) mutate(&bytes, random);
    columns.label = random.chance(0.5) ? "label" : "";
    try {
      use(Manifest::load(folder.write(name, bytes), columns));
      ++taken;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kData) << error.what();
    }
  }
  return taken;
}

const std::string kArray =
    R"([{"image": "a.jpg", "caption": "c\u00e9", "label": 0}, {"image": "b.jpg", "caption": "d", "label": 1}])";
const std::string kLines = R"({"image": "a.jpg", "caption": "c\u00e9", "label": 0})"
                           "\n"
                           R"({"image": "b.jpg", "caption": "d", "label": 1})"
                           "\n";
const std::string kCsv = "image,caption,label\r\na.jpg,\"c, \"\"d\"\"\ne\",0\r\nb.jpg,c,1\r\n";

TEST(SourceMutations, OfManifestsGiveRowsOrAnError) {
  std::string tsv = kCsv;
  std::replace(tsv.begin(), tsv.end(), ',', '\t');
  for (const auto& [name, contents] : std::vector<std::pair<std::string, std::string>>{
           {"m.json", kArray}, {"m.jsonl", kLines}, {"m.csv", kCsv}, {"m.tsv", tsv}, {"metadata.jsonl", kLines}}) {
    const int taken = load_all(name, {contents}, &mutate_once);
    EXPECT_GT(taken, 0) << name;
    EXPECT_LT(taken, mutations_wanted()) << name;
  }
}

std::string some_shard(bool with_extensions) {
  std::string tar;
  const std::string far = std::string(120, 'n');
  for (int i = 0; i < 3; ++i) {
    const std::string key = std::to_string(i);
    if (with_extensions && i == 1)
      test::add_pax(&tar, test::pax_record("path", far + ".jpg") + test::pax_record("size", "700"));
    test::add_member(&tar, key + ".jpg", std::string(700, static_cast<char>('a' + i)));
    if (with_extensions && i == 1) test::add_long_name(&tar, far + ".json");
    test::add_member(&tar, key + (i == 0 ? ".txt" : ".json"),
                     i == 0 ? "a caption\n" : R"({"caption": "another", "label": 1})");
    test::add_member(&tar, (with_extensions && i == 1 ? "k" : key) + ".cls", "1");
  }
  return test::with_end(tar);
}

// As mutate_once, mostly within headers, whose sum is then made right, so that what is behind it is reached.
void mutate_shard(std::string* bytes, Seeded& random) {
  if (bytes->size() < kTarBlock || random.chance(0.3)) return mutate_once(bytes, random);
  const std::size_t blocks = bytes->size() / kTarBlock;
  const auto block = [&] {
    return static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(blocks) - 1)) * kTarBlock;
  };
  const std::size_t at = block();
  static constexpr int kFields[] = {0, 1, 2, 100, 124, 125, 130, 134, 135, 156, 156, 156, 257, 263, 345};
  const auto field = [&] { return at + static_cast<std::size_t>(kFields[random.integer(0, 14)]); };
  switch (random.integer(0, 5)) {
    case 0: (*bytes)[field()] = static_cast<char>(random.bits()); break;
    case 1: (*bytes)[field()] = static_cast<char>('0' + random.integer(0, 8)); break;
    case 2:
      (*bytes)[at + 156] =
          "0\0"
          "1234567gxKLSX"[random.integer(0, 14)];
      break;
    case 3: bytes->replace(at, kTarBlock, std::string(*bytes, block(), kTarBlock)); return;
    case 4: bytes->erase(at, kTarBlock); return;
    default: bytes->insert(at, std::string(*bytes, block(), kTarBlock)); return;
  }
  test::seal_header(bytes, at);
}

TEST(SourceMutations, OfShardsGiveRowsOrAnError) {
  const int taken = load_all("s.tar", {some_shard(false), some_shard(true)}, &mutate_shard);
  EXPECT_GT(taken, 0);
  EXPECT_LT(taken, mutations_wanted());
}

// Opening a kept index checks only its header and bounds: whatever the tables say, rows stay within
// them.
TEST(SourceMutations, OfKeptIndexesAreMadeAnewOrStayWithinBounds) {
  const TemporaryFolder data, kept;
  data.write("a.jpg", "1");
  data.write("b.jpg", "22");
  const IndexCache cache{kept.path(), 1};
  PathsSetting several(data.write("m.jsonl", kLines));
  several.written.push_back(data.write("m.csv", kCsv));
  const std::vector<PathsSetting> sources = {several.written.front(), data.write("s.tar", some_shard(true)), several};
  Seeded random;
  ManifestColumns columns;
  for (const PathsSetting& source : sources) {
    for (const auto& entry : std::filesystem::directory_iterator(kept.path())) std::filesystem::remove(entry.path());
    columns.label = random.chance(0.5) ? "label" : "";
    if (source.written == sources[1].written) columns.label = "";
    open_manifest(source, columns, cache);
    const std::string index = std::filesystem::directory_iterator(kept.path())->path().string();
    std::ifstream file(index, std::ios::binary);
    const std::string whole{std::istreambuf_iterator<char>(file), {}};
    int mapped = 0;
    for (int i = 0; i < mutations_wanted(); ++i) {
      std::string bytes = whole;
      const std::size_t tables = 320;
      for (std::int64_t n = random.integer(1, 4); n > 0; --n) {
        if (random.chance(0.7)) {
          const std::size_t at = tables + place(random, bytes.substr(tables));
          bytes[at] = random.chance(0.5) ? static_cast<char>(random.bits()) : '\xFF';
        } else {
          mutate_once(&bytes, random);
          if (bytes.size() < tables + 1) bytes.resize(tables + 1);
        }
      }
      std::filesystem::remove(index);
      std::ofstream(index, std::ios::binary) << bytes;
      const OpenedManifest opened = open_manifest(source, columns, cache);
      ASSERT_GT(opened.manifest.rows(), 0);
      mapped += opened.note.empty() ? 1 : 0;
      const PictureFolder folder(opened.manifest);
      std::vector<std::uint8_t> memory(4096);
      std::size_t got = 0;
      for (std::int64_t row = 0; row < opened.manifest.rows(); ++row) {
        const ManifestRow one = opened.manifest.row(row);
        for (const char c : std::string(one.text) + std::string(one.image_path))
          got += static_cast<std::size_t>(c == 'x');
        (void)folder.read(row, Span<std::uint8_t>(memory), &got);
        (void)opened.manifest.where(row);
      }
    }
    EXPECT_GT(mapped, 0);
  }
}

}  // namespace
}  // namespace bascule
