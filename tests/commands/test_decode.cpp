// SPDX-License-Identifier: Apache-2.0
#include "src/commands/commands.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/checkpoint/safetensors.h"
#include "src/json/json.h"
#include "tests/support/reference_dir.h"

namespace bascule {
namespace {

std::string picture(const std::string& name) { return test::reference_dir() + "/images/jpeg/" + name; }

class DecodeCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("bascule_decode." + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
    arguments_.output = folder_ / "pixels.safetensors";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Runs the command and keeps its lines.
  int run() {
    testing::internal::CaptureStdout();
    const int code = decode_command(arguments_);
    std::istringstream text(testing::internal::GetCapturedStdout());
    for (std::string line; std::getline(text, line);) lines_.push_back(parse_json(line, "standard output"));
    return code;
  }
  ErrorKind refused() {
    try {
      decode_command(arguments_);
    } catch (const Error& error) {
      return error.kind();
    }
    ADD_FAILURE() << "taken";
    return ErrorKind::kInternal;
  }

  std::filesystem::path folder_;
  DecodeArguments arguments_;
  std::vector<Json> lines_;
};

TEST_F(DecodeCommand, GoesOnAfterARefusedFileAndSaysSoWithExitCode3) {
  arguments_.size = 64;
  arguments_.files = {picture("exif_o6_long.jpg"), picture("bad_trunc_50.jpg"), folder_ / "missing.jpg",
                      picture("grey.jpg")};
  EXPECT_EQ(run(), 3);
  ASSERT_EQ(lines_.size(), 4u);
  EXPECT_EQ(lines_[0]["file"], arguments_.files[0]);
  EXPECT_EQ(lines_[0]["ok"], true);
  EXPECT_EQ(lines_[0]["width"], 43) << "upright";
  EXPECT_EQ(lines_[0]["height"], 61) << "upright";
  EXPECT_TRUE(lines_[0]["error"].is_null());
  EXPECT_EQ(lines_[1]["ok"], false);
  EXPECT_EQ(lines_[1]["error"], "the JPEG file is truncated");
  EXPECT_EQ(lines_[2]["ok"], false);
  EXPECT_TRUE(lines_[2]["width"].is_null());
  EXPECT_EQ(lines_[3]["ok"], true);
  const TensorSource pixels = open_safetensors(arguments_.output);
  ASSERT_EQ(pixels.tensors().size(), 2u);
  ASSERT_NE(pixels.find("grey.jpg"), nullptr);
  EXPECT_EQ(pixels.find("grey.jpg")->shape, (std::vector<std::int64_t>{3, 64, 64}));
  EXPECT_NE(pixels.find("exif_o6_long.jpg"), nullptr);
}

TEST_F(DecodeCommand, ReadsPngsAndNamesWhatIsNeither) {
  arguments_.size = 64;
  const std::string page = folder_ / "page.png";
  std::ofstream(page) << "<!DOCTYPE html><html>404";
  arguments_.files = {picture("bad_really_png.jpg"), BASCULE_TEST_DATA "/images/png/gray_16_adam7.png", page,
                      picture("size_1x1_grey.jpg")};
  EXPECT_EQ(run(), 3);
  ASSERT_EQ(lines_.size(), 4u);
  EXPECT_EQ(lines_[0]["ok"], true);
  EXPECT_EQ(lines_[1]["width"], 23);
  EXPECT_EQ(lines_[2]["error"], "is HTML, not a picture");
  EXPECT_EQ(lines_[3]["width"], 1);
  EXPECT_EQ(lines_[3]["height"], 1);
}

TEST_F(DecodeCommand, NormalisingIsWhatRawLeavesOut) {
  const auto values = [&] {
    EXPECT_EQ(run(), 0);
    const TensorSource source = open_safetensors(arguments_.output);
    std::vector<float> read(3 * 64 * 64);
    source.read_float32(read.data(), source.tensors().front(), 0, static_cast<std::int64_t>(read.size()));
    return read;
  };
  arguments_.size = 64;
  arguments_.preprocessing = "processor";
  arguments_.mean = {0.5, 0.25, 0.0};
  arguments_.std = {0.5, 0.25, 1.0};
  arguments_.files = {picture("base_420.jpg")};
  const std::vector<float> normalised = values();
  arguments_.raw = true;
  const std::vector<float> raw = values();
  for (std::size_t i = 0; i < raw.size(); ++i) {
    const std::size_t channel = i / (64 * 64);
    const double expected = (static_cast<double>(raw[i]) / 255.0 - arguments_.mean[channel]) / arguments_.std[channel];
    ASSERT_NEAR(static_cast<double>(normalised[i]), expected, 1e-6);
  }
}

TEST_F(DecodeCommand, RefusesArgumentsThatMakeNoSense) {
  const DecodeArguments good = arguments_;
  arguments_.size = 0;
  EXPECT_EQ(refused(), ErrorKind::kSettings);
  arguments_ = good;
  arguments_.preprocessing = "none";
  EXPECT_EQ(refused(), ErrorKind::kSettings);
  arguments_ = good;
  arguments_.mean = {0.5};
  EXPECT_EQ(refused(), ErrorKind::kSettings);
  arguments_ = good;
  arguments_.std[1] = 0.0;
  EXPECT_EQ(refused(), ErrorKind::kSettings);
  arguments_ = good;
  arguments_.files = {"a/x.jpg", "b/x.jpg"};
  EXPECT_EQ(refused(), ErrorKind::kSettings);
}

TEST_F(DecodeCommand, AnOutputThatCannotBeWrittenIsADiskError) {
  arguments_.files = {picture("grey.jpg")};
  arguments_.size = 16;
  arguments_.output = folder_ / "no" / "such" / "folder.safetensors";
  EXPECT_EQ(refused(), ErrorKind::kDisk);
}

}  // namespace
}  // namespace bascule
