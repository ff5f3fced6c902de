// SPDX-License-Identifier: Apache-2.0
#include "src/checkpoint/checkpoint.h"

#include <cerrno>
#include <filesystem>
#include <vector>

#include "tests/checkpoint/files.h"
#include "tests/support/count_allocations.h"
#include "tests/support/temporary_folder.h"

namespace bascule {
namespace {

// Two trained tensors with a gap between them, and one that lies elsewhere.
class ReadBack : public testing::Test {
 protected:
  HfFolderPlan plan(std::int64_t max_shard_bytes = kMaxShardBytes) {
    HfFolderContents contents;
    contents.config_json = "{}\n";
    contents.tensors = {{"b.second", DType::kFloat32, {300000}, trained_.data() + 64},
                        {"a.first", DType::kFloat32, {5, 10}, trained_.data()},
                        {"c.fixed", DType::kFloat32, {7}, fixed_.data()}};
    contents.max_shard_bytes = max_shard_bytes;
    return HfFolderPlan(std::move(contents));
  }
  void fill(float first) {
    for (std::size_t i = 0; i < trained_.size(); ++i) trained_[i] = first + static_cast<float>(i);
    for (float& value : fixed_) value = first;
  }

  test::TemporaryFolder folder_;
  std::vector<float> trained_ = std::vector<float>(64 + 300000);
  std::vector<float> fixed_ = std::vector<float>(7);
};

TEST_F(ReadBack, TheTrainedTensorsAreWhatTheyWereAndNothingElseChanges) {
  for (const std::int64_t shard_bytes : {kMaxShardBytes, std::int64_t{1000}}) {
    const HfFolderPlan written = plan(shard_bytes);
    const WeightsReader reader(written, Span<float>(trained_));
    fill(1.0f);
    ASSERT_TRUE(written.write_into(folder_.path().c_str()).ok());
    const std::vector<float> then = trained_;
    fill(-3.0f);
    const std::int64_t before = test::allocations();
    ASSERT_TRUE(reader.read(folder_.path().c_str()).ok());
    EXPECT_EQ(test::allocations(), before);
    for (std::size_t i = 0; i < trained_.size(); ++i) {
      const bool is_gap = i >= 50 && i < 64;
      ASSERT_EQ(trained_[i], is_gap ? -3.0f + static_cast<float>(i) : then[i]) << i;
    }
    EXPECT_EQ(fixed_[0], -3.0f);
  }
}

TEST_F(ReadBack, FilesOfAnotherPlanAreRefused) {
  const HfFolderPlan written = plan();
  const WeightsReader reader(written, Span<float>(trained_));
  const std::string file = folder_.path() + "/model.safetensors";
  EXPECT_EQ(reader.read(folder_.path().c_str()).detail[1], ENOENT);
  ASSERT_TRUE(written.write_into(folder_.path().c_str()).ok());
  std::string bytes = test::read_file(file);
  bytes[20] = static_cast<char>(bytes[20] ^ 1);
  folder_.write("model.safetensors", bytes);
  const Status other = reader.read(folder_.path().c_str());
  EXPECT_EQ(other.code, StatusCode::kReadFailed);
  EXPECT_EQ(other.detail[0], WeightsReader::kUnreadable);
  EXPECT_EQ(other.detail[1], 0);
  ASSERT_TRUE(written.write_into(folder_.path().c_str()).ok());
  std::filesystem::resize_file(file, 1000);
  EXPECT_FALSE(reader.read(folder_.path().c_str()).ok());
}

}  // namespace
}  // namespace bascule
