// SPDX-License-Identifier: Apache-2.0
// Hand-made logs of two runs of one tensor, which is trained.
#include "src/reproduce/hash_log.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "src/json/json.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test {
namespace {

struct Update {
  std::int64_t step;
  std::uint64_t value, gradient;
};

// The log as a run leaves it, in a folder of its own.
HashLog log_of(const TemporaryFolder& folder, const std::vector<Update>& updates) {
  Json header = Json::object();
  header["format"] = kTensorHashesFormat;
  header["values"] = Json::array();
  header["values"].push_back("w");
  header["elements"] = Json::array();
  header["elements"].push_back(std::int64_t{6});
  header["gradients"] = Json::array();
  header["gradients"].push_back("w");
  std::string bytes = json_text(header) + "\n";
  for (const Update& update : updates) {
    std::uint64_t words[] = {static_cast<std::uint64_t>(update.step), 1, 8, 1, update.value, update.gradient, 0};
    words[6] = update_checksum({words, 7});
    bytes.append(reinterpret_cast<const char*>(words), sizeof words);
  }
  folder.write(kTensorHashesFile, bytes);
  return HashLog(folder.path());
}

Parting parting_of(const std::vector<Update>& a, const std::vector<Update>& b) {
  const TemporaryFolder of_a, of_b;
  return find_parting(log_of(of_a, a), log_of(of_b, b));
}

TEST(FindParting, NamesTheFirstAndTheLastUpdateThatBothHaveHashed) {
  const Parting parting =
      parting_of({{1, 1, 1}, {2, 2, 2}, {4, 4, 4}, {6, 6, 6}, {7, 7, 7}}, {{2, 2, 2}, {3, 3, 3}, {4, 4, 4}, {6, 6, 6}});
  EXPECT_EQ(parting.first_common, 2);
  EXPECT_EQ(parting.last_common, 6);
  EXPECT_EQ(parting.equal_updates, 3);
  EXPECT_EQ(parting.step, 0);
}

TEST(FindParting, IsTheFirstUpdateThatDiffers) {
  const Parting parting = parting_of({{2, 2, 2}, {4, 4, 9}, {6, 9, 9}}, {{2, 2, 2}, {4, 4, 4}, {6, 6, 6}});
  EXPECT_EQ(parting.first_common, 2);
  EXPECT_EQ(parting.equal_updates, 1);
  EXPECT_EQ(parting.step, 4);
  EXPECT_TRUE(parting.is_gradient);
  EXPECT_EQ(parting.tensor, "w");
}

// A bit of a hash would be taken for a difference of the runs, one of a number for an update that was not hashed.
TEST(FindParting, HashesWithABitChangedAreRefused) {
  const TemporaryFolder folder;
  log_of(folder, {{1, 1, 1}, {2, 2, 2}});
  const std::string whole = read_file(folder.path() + "/" + kTensorHashesFile);
  for (const std::size_t from_end : {1, 17, 49}) {
    std::string changed = whole;
    changed[changed.size() - from_end] = static_cast<char>(changed[changed.size() - from_end] ^ 4);
    folder.write(kTensorHashesFile, changed);
    EXPECT_NE(
        error_of([&] { HashLog log(folder.path()); }).find("is damaged: hashed update 2 does not have its checksum"),
        std::string::npos);
  }
}

TEST(FindParting, RunsWithoutACommonUpdateAreRefused) {
  EXPECT_NE(error_of([] {
              parting_of({{1, 1, 1}}, {{2, 2, 2}});
            }).find("no hashed update in common"),
            std::string::npos);
}

}  // namespace
}  // namespace bascule::test
