// SPDX-License-Identifier: Apache-2.0
#include "src/models/pipeline_configs.h"

#include <gtest/gtest.h>

#include <string>

#include "src/json/json.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test {
namespace {

class UnetConfigs : public ::testing::Test {
 protected:
  // Three levels of which the middle one, of 20 channels, has no transformers unless these types say so.
  std::string config(const std::string& heads, const std::string& down, const std::string& up) {
    return folder_.write("config.json", R"({"block_out_channels": [12, 20, 16], "norm_num_groups": 4,
        "attention_head_dim": )" + heads + R"(, "cross_attention_dim": 8,
        "down_block_types": ["CrossAttnDownBlock2D", ")" +
                                            down + R"(", "DownBlock2D"],
        "up_block_types": ["UpBlock2D", ")" +
                                            up + R"(", "CrossAttnUpBlock2D"]})");
  }

  const TemporaryFolder folder_;
};

// As in Diffusers, which makes no attention there.
TEST_F(UnetConfigs, HeadsNeedNotDivideTheChannelsOfALevelWithoutTransformers) {
  const UnetConfig read = read_unet_config(config("[4, 7, 8]", "DownBlock2D", "UpBlock2D"));
  EXPECT_EQ(read.levels[1].channels, 20);
}

TEST_F(UnetConfigs, HeadsDivideTheChannelsOfEveryLevelWithTransformers) {
  const auto refusal = [&](const std::string& path) { return error_of([&] { read_unet_config(path); }); };
  const std::string middle = "7 heads do not divide 20 channels";
  EXPECT_NE(refusal(config("[4, 7, 8]", "CrossAttnDownBlock2D", "UpBlock2D")).find(middle), std::string::npos);
  EXPECT_NE(refusal(config("[4, 7, 8]", "DownBlock2D", "CrossAttnUpBlock2D")).find(middle), std::string::npos);
  // The block in the middle always has one.
  EXPECT_NE(refusal(config("[4, 7, 3]", "DownBlock2D", "UpBlock2D")).find("3 heads do not divide 16 channels"),
            std::string::npos);
}

}  // namespace
}  // namespace bascule::test
