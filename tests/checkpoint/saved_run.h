// SPDX-License-Identifier: Apache-2.0
// A run of two tensors whose checkpoints the tests save, damage and look for.
#pragma once

#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "src/checkpoint/checkpoint_writer.h"
#include "src/checkpoint/find_checkpoint.h"
#include "tests/checkpoint/files.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test {

class SavedRun : public testing::Test {
 protected:
  static constexpr std::int64_t kCount = 600000;  // 2.4 MB a tensor: several progress calls each

  CheckpointContents contents(std::int64_t limit = 0) {
    CheckpointContents contents;
    contents.output_dir = output_.path();
    contents.save_total_limit = limit;
    contents.model.config_json = "{}\n";
    contents.model.tensors = {{"w", DType::kFloat32, {kCount}, weights_.data()}};
    contents.optimizer = {{"exp_avg.w", DType::kFloat32, {kCount}, moments_.data()},
                          {"exp_avg_sq.w", DType::kFloat32, {kCount}, moments_.data()}};
    contents.settings_digest = "abc123";
    contents.settings = {{"training.learning_rate", "1e-05"}, {"training.seed", "42"}};
    contents.other_settings = {{"machine.threads", "2"}};
    contents.history = {{20, "training.max_steps", "30", "60", "2026-11-22T06:00:00Z"}};
    contents.text_files = {"trainer_state.json"};
    return contents;
  }

  Status save(CheckpointWriter& writer, std::int64_t step, WriteProgress progress = {}) {
    CheckpointMoment moment;
    moment.global_step = step;
    moment.samples_seen = 8 * step;
    moment.epoch = static_cast<double>(step) / 3;
    moment.numbers = Span<const NamedNumber>(numbers_, 2);
    moment.replacements = Span<const ReplacedSample>(&replacement_, 1);
    moment.texts = Span<const std::string_view>(&text_, 1);
    return writer.save(moment, progress);
  }

  std::optional<ResumePoint> newest(const ResumeChoice& choice = {}) {
    notes_.clear();
    return find_checkpoint(output_.path(), choice, CheckpointCheck::kContents, &notes_);
  }
  std::string folder(std::int64_t step) { return output_.path() + "/checkpoint-" + std::to_string(step); }

  // Flips one bit of a file of a checkpoint.
  void flip_bit(const std::string& path, std::size_t byte, int bit) {
    std::string bytes = read_file(path);
    bytes.at(byte) = static_cast<char>(bytes[byte] ^ 1 << bit);
    std::ofstream(path, std::ios::binary) << bytes;
  }

  TemporaryFolder output_;
  std::vector<float> weights_ = std::vector<float>(kCount, 1.5f);
  std::vector<float> moments_ = std::vector<float>(kCount, 0.25f);
  NamedNumber numbers_[2] = {{"loss_sum", 0.1 + 0.2}, {"lost", std::numeric_limits<double>::infinity()}};
  ReplacedSample replacement_{1, 17, 23, 22, 5};
  std::string_view text_ = "{\"log_history\": []}\n";
  std::vector<std::string> notes_;
};

}  // namespace bascule::test
