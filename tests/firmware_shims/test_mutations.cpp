// SPDX-License-Identifier: Apache-2.0
// Pictures with bytes changed, cut, doubled and swapped: each is either taken or refused as a bad picture, in bounded
// time, and never twice differently. BASCULE_MUTATIONS says how many (2,000 by default); BASCULE_TEST_SEED which.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/firmware_shims/engine_on_test.h"
#include "tests/support/png_checksums.h"
#include "tests/support/reference_dir.h"
#include "tests/support/riff_size.h"
#include "tests/support/seeded.h"

namespace bascule::test {
namespace {

constexpr int kDefaultMutations = 2000;
constexpr std::size_t kLargestFile = 70'000;

int mutations_wanted() {
  const char* const wanted = std::getenv("BASCULE_MUTATIONS");
  return wanted != nullptr && *wanted != '\0' ? std::atoi(wanted) : kDefaultMutations;
}

std::size_t place(Seeded& random, const Bytes& bytes) {
  // Half of them within the headers, where most of the structure is.
  const std::size_t end = random.chance(0.5) ? std::min<std::size_t>(bytes.size(), 700) : bytes.size();
  return static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(end) - 1));
}

void mutate_once(Bytes& bytes, Seeded& random) {
  if (bytes.empty()) bytes.push_back(0xFF);
  const std::size_t at = place(random, bytes);
  const std::size_t run = static_cast<std::size_t>(random.integer(1, 24));
  const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(at);
  const auto end = bytes.begin() + static_cast<std::ptrdiff_t>(std::min(bytes.size(), at + run));
  const bool is_png = bytes[0] == 0x89;
  switch (random.integer(0, 7)) {
    case 0: bytes[at] = static_cast<std::uint8_t>(bytes[at] ^ 1u << random.integer(0, 7)); break;
    case 1: bytes[at] = static_cast<std::uint8_t>(random.bits()); break;
    case 2: bytes[at] = random.chance(0.5) ? 0xFF : 0x00; break;
    case 3: bytes.erase(begin, end); break;
    case 4: bytes.insert(begin, run, static_cast<std::uint8_t>(random.bits())); break;
    case 5: {
      const Bytes copy(begin, end);
      bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(place(random, bytes)), copy.begin(), copy.end());
      break;
    }
    case 6: bytes.resize(at); break;
    default:  // a marker, in the middle of things
      if (is_png) return mend_png_checksums(bytes.data(), bytes.size());
      bytes[at] = 0xFF;
      if (at + 1 < bytes.size()) bytes[at + 1] = static_cast<std::uint8_t>(random.integer(0xC0, 0xFE));
  }
}

TEST(Mutations, AreTakenOrRefusedAsBadPicturesAndAlwaysTheSameWay) {
  std::vector<Bytes> originals;
  std::vector<std::filesystem::path> paths;
  for (const std::string& folder : {reference_dir() + "/images/jpeg", std::string(BASCULE_TEST_DATA "/images/png"),
                                    std::string(BASCULE_TEST_DATA "/images/webp")}) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().extension() != ".json") paths.push_back(entry.path());
    }
  }
  std::sort(paths.begin(), paths.end());
  for (const auto& path : paths) {
    if (std::filesystem::file_size(path) <= kLargestFile) originals.push_back(read_bytes(path.string()));
  }
  ASSERT_GT(originals.size(), 100u);
  media_engine_config config = media_engine_default_config(media_engine_builtin());
  config.max_side = 64;
  config.max_pixels = 2'000'000;
  config.max_scan_megapixels = 20;
  config.picture_bytes = std::size_t{16} << 20;
  EngineOnTest engine(config);
  EngineOnTest other(config);
  Seeded random;
  int taken = 0;
  const int wanted = mutations_wanted();
  for (int i = 0; i < wanted; ++i) {
    Bytes bytes =
        originals[static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(originals.size()) - 1))];
    for (std::int64_t n = random.integer(1, 4); n > 0; --n) mutate_once(bytes, random);
    if (random.chance(0.5)) mend_riff_size(bytes.data(), bytes.size());
    const media_engine_preparation preparation = random.chance(0.5)   ? MEDIA_ENGINE_TRAINING
                                                 : random.chance(0.5) ? MEDIA_ENGINE_PROCESSOR
                                                                      : MEDIA_ENGINE_SQUARE_PROCESSOR;
    const Bytes exact(bytes);  // no spare capacity behind it, for the address sanitizer
    const Request first(exact, preparation, 64, false);
    const media_engine_completion done = run_alone(engine.get(), first);
    const bool good = status_of(done) == MEDIA_ENGINE_OK;
    ASSERT_TRUE(good || media_engine_is_bad_picture(status_of(done))) << i << ": " << done.status;
    taken += good ? 1 : 0;
    if (i % 4 != 0) continue;
    const Request again(exact, preparation, 64, false);
    const media_engine_completion same = run_alone(other.get(), again);  // an engine with another past
    ASSERT_EQ(same.status, done.status) << i;
    ASSERT_EQ(same.detail, done.detail) << i;
    if (good) {
      ASSERT_EQ(std::memcmp(first.pixels.data(), again.pixels.data(), first.pixels.size() * sizeof(float)), 0) << i;
    }
  }
  EXPECT_GT(taken, wanted / 20);
  EXPECT_LT(taken, wanted);
}

}  // namespace
}  // namespace bascule::test
