// SPDX-License-Identifier: Apache-2.0
// Hand-made logs of two runs of one tensor, which is trained.
#include "src/finish/judge_repeat.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
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

std::string header_of(const std::vector<std::string>& values, const std::vector<std::int64_t>& elements,
                      const std::vector<std::string>& gradients, std::int64_t format = kTensorHashesFormat) {
  Json header = Json::object();
  header["format"] = format;
  for (const char* list : {"values", "elements", "gradients"}) header[list] = Json::array();
  for (const std::string& value : values) header["values"].push_back(value);
  for (const std::int64_t count : elements) header["elements"].push_back(count);
  for (const std::string& gradient : gradients) header["gradients"].push_back(gradient);
  return json_text(header) + "\n";
}

// The log as a run leaves it, in a folder of its own.
HashLog log_of(const TemporaryFolder& folder, const std::vector<Update>& updates) {
  std::string bytes = header_of({"w"}, {6}, {"w"});
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
  for (const std::size_t from_end : {1U, 17U, 49U}) {
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

TEST(FindParting, CountsTheTensorsThatDifferAndNamesTheFirst) {
  const TemporaryFolder of_a, of_b;
  const auto log = [](const TemporaryFolder& folder, const std::vector<std::uint64_t>& hashes) {
    std::vector<std::uint64_t> words = {5, 2, 16, 4};
    words.insert(words.end(), hashes.begin(), hashes.end());
    words.push_back(0);
    words.back() = update_checksum({words.data(), words.size()});
    folder.write(kTensorHashesFile, header_of({"u", "v", "w"}, {1, 2, 3}, {"v", "w"}) +
                                        std::string(reinterpret_cast<const char*>(words.data()), 8 * words.size()));
    return HashLog(folder.path());
  };
  const HashLog a = log(of_a, {1, 2, 3, 4, 5});
  EXPECT_EQ(a.steps(), (std::vector<std::int64_t>{5}));
  EXPECT_EQ(a.hashes(0), (std::vector<std::uint64_t>{1, 2, 3, 4, 5}));
  const Parting both = find_parting(a, log(of_b, {1, 9, 9, 4, 9}));
  EXPECT_EQ(both.tensor, "v");
  EXPECT_FALSE(both.is_gradient);
  EXPECT_EQ(both.values, 2U);
  EXPECT_EQ(both.gradients, 1U);
  EXPECT_EQ(both.first_common, 5);
  EXPECT_EQ(both.last_common, 5);
  EXPECT_EQ(both.equal_updates, 0);
  const Parting gradient = find_parting(a, log(of_b, {1, 2, 3, 4, 9}));
  EXPECT_EQ(gradient.tensor, "w");
  EXPECT_TRUE(gradient.is_gradient);
  EXPECT_EQ(gradient.values, 0U);
  EXPECT_EQ(gradient.gradients, 1U);
}

TEST(FindParting, RunsOfDifferentModelsAreRefusedWithTheFirstDifference) {
  const std::vector<std::string> names = {"u", "v"};
  const std::string ours = header_of(names, {1, 2}, {"u", "v"});
  for (const auto& [theirs, said] :
       {std::pair<std::string, const char*>{header_of({"u", "x"}, {1, 2}, {}), ": tensor 2 is x, not v"},
        {header_of({"u"}, {1}, {}), ": tensor 2 is no tensor, not v"},
        {header_of({"u", "v", "w"}, {1, 2, 3}, {}), ": tensor 3 is w, not no tensor"},
        {header_of(names, {1, 3}, {"u", "v"}), ": v has 3 elements, not 2"},
        {header_of(names, {1, 2}, {"u"}), ": it trains no tensor where the other run trains v"},
        {header_of(names, {1, 2}, {"v"}), ": it trains v where the other run trains u"}}) {
    const TemporaryFolder of_a, of_b;
    of_a.write(kTensorHashesFile, ours);
    of_b.write(kTensorHashesFile, theirs);
    const std::string error = error_of([&] { find_parting(HashLog(of_a.path()), HashLog(of_b.path())); });
    EXPECT_NE(error.find(said), std::string::npos) << error;
    EXPECT_NE(error.find("of a different model"), std::string::npos) << error;
  }
}

TEST(HashLog, SaysWhatIsMissingDamagedOrOfAnotherVersion) {
  const TemporaryFolder folder;
  const auto error = [&](const std::string& contents) {
    folder.write(kTensorHashesFile, contents);
    return error_of([&] { HashLog log(folder.path()); });
  };
  EXPECT_NE(error_of([&] { HashLog log(folder.path() + "/none"); }).find("there is no such folder"), std::string::npos);
  EXPECT_NE(error_of([&] { HashLog log(folder.path()); }).find("has no tensor hashes"), std::string::npos);
  EXPECT_NE(error("").find("has no line that names its tensors"), std::string::npos);
  EXPECT_NE(error(header_of({}, {}, {}).substr(0, 20)).find("has no line that names its tensors"), std::string::npos);
  EXPECT_NE(error(header_of({"w"}, {6}, {"w"}, kTensorHashesFormat + 1)).find("has format"), std::string::npos);
  EXPECT_NE(error_of([&] {
              log_of(folder, {{2, 1, 1}, {2, 2, 2}});
            }).find("its updates are not in order"),
            std::string::npos);
  EXPECT_NE(error_of([&] { log_of(folder, {{0, 1, 1}}); }).find("its updates are not in order"), std::string::npos);
}

// Format 2, and an update that a killed run did not write to its end. The line of names is longer than a block.
TEST(HashLog, ReadsOneWithoutChecksumsUpToItsLastWholeUpdate) {
  const TemporaryFolder folder;
  const std::string name(70'000, 'w');
  const std::uint64_t words[] = {3, 2, 16, 4, 11, 12, 9, 0};
  folder.write(kTensorHashesFile,
               header_of({name}, {6}, {name}, 2) + std::string(reinterpret_cast<const char*>(words), sizeof words - 1));
  const HashLog log(folder.path());
  EXPECT_EQ(log.values(), std::vector<std::string>{name});
  EXPECT_EQ(log.elements(), std::vector<std::int64_t>{6});
  EXPECT_EQ(log.steps(), std::vector<std::int64_t>{3});
  EXPECT_EQ(log.hashes(0), (std::vector<std::uint64_t>{11, 12}));
}

}  // namespace
}  // namespace bascule::test
