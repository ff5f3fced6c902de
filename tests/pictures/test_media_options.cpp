// SPDX-License-Identifier: Apache-2.0
#include "src/pictures/picture_decoder.h"

#include <gtest/gtest.h>

#include "firmware_shims/hpu_sim/driver.h"
#include "src/base/error.h"
#include "tests/settings/read_text.h"

namespace bascule {
namespace {

Settings with_simulation(const std::string& lines) { return settings_of(least_with("media_engine.simulation", lines)); }

std::string options_of(const Settings& settings, const media_engine_driver* engine) {
  return media_options(settings.media_engine.simulation, settings.origin, engine);
}

TEST(MediaOptions, AreTheWordsThatTheEngineUnderstands) {
  const Settings settings = with_simulation(
      "pictures_per_second = 12.5\nlatency_ms = 3\npolling = true\ntimeout_ms = 70\nfault_seed = 9\n"
      "faults = [\"short_dma:0.25\", \"device_gone@7\"]");
  EXPECT_EQ(options_of(settings, media_engine_hpu_sim()),
            "rate=12.5 latency_ms=3 polling=1 timeout_ms=70 seed=9 fault=short_dma:0.25 fault=device_gone@7");
  EXPECT_EQ(options_of(settings_of(kLeast), media_engine_hpu_sim()), "");
  EXPECT_EQ(options_of(settings_of(kLeast), media_engine_host()), "");
}

TEST(MediaOptions, ATableForADeviceThatIsNotBuiltInIsNamedWithItsPlace) {
  try {
    options_of(with_simulation("units = 4"), media_engine_host());
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kSettings);
    EXPECT_EQ(error.where().find("test.toml:"), 0U) << error.what();
    EXPECT_NE(std::string(error.what()).find("-Dmedia_engine=hpu_sim"), std::string::npos) << error.what();
  }
}

TEST(MediaOptions, AFaultThatIsNoneIsNamedWithItsPlace) {
  try {
    options_of(with_simulation("units = 4\nfaults = [\"broken_fan:0.1\"]"), media_engine_hpu_sim());
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kSettings);
    EXPECT_EQ(error.where().find("test.toml:"), 0U) << error.what();
    EXPECT_NE(std::string(error.what()).find("broken_fan:0.1"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("lost_completion"), std::string::npos) << error.what();
  }
}

TEST(MediaOptions, MoreFaultsThanThereIsRoomForAreRefusedWithTheirPlace) {
  std::string faults = "\"short_dma@1\"";
  for (int i = 1; i < 32; ++i) faults += ", \"short_dma@1\"";
  EXPECT_NO_THROW(options_of(with_simulation("faults = [" + faults + "]"), media_engine_hpu_sim()));
  try {
    options_of(with_simulation("faults = [" + faults + ", \"short_dma@1\"]"), media_engine_hpu_sim());
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kSettings);
    EXPECT_EQ(error.where().find("test.toml:"), 0U) << error.what();
    EXPECT_NE(std::string(error.what()).find("at most 32"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace bascule
