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
    const std::int64_t numbers[] = {update.step, 1, 8, 1};
    const std::uint64_t hashes[] = {update.value, update.gradient};
    bytes.append(reinterpret_cast<const char*>(numbers), sizeof numbers);
    bytes.append(reinterpret_cast<const char*>(hashes), sizeof hashes);
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

TEST(FindParting, RunsWithoutACommonUpdateAreRefused) {
  EXPECT_NE(error_of([] {
              parting_of({{1, 1, 1}}, {{2, 2, 2}});
            }).find("no hashed update in common"),
            std::string::npos);
}

}  // namespace
}  // namespace bascule::test
