// SPDX-License-Identifier: Apache-2.0
// Samples of two texts, a source and a target, and loaders of them.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "src/loader/loader_parts.h"
#include "tests/loader/loader_run.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test {

inline constexpr std::int64_t kSourceLength = 9, kTargetLength = 6;

class TwoTexts : public testing::Test {
 protected:
  // Sources of 1 to 12 letters and targets of 12 to 1: with two special tokens each, some of both are cut, and targets
  // are shorter than their sources, as long, and longer.
  static std::string rows() {
    std::string lines = "source,target\n";
    for (int row = 0; row < 12; ++row) lines += letters(row + 1, row) + "," + letters(12 - row, 5 * row + 3) + "\n";
    return lines;
  }
  // Words of one token each.
  static std::string letters(int count, int from) {
    std::string text;
    for (int i = 0; i < count; ++i) text += std::string(1, static_cast<char>('a' + (from + 7 * i) % 26)) + " ";
    text.pop_back();
    return text;
  }

  Manifest manifest(const std::string& lines) {
    return Manifest::load(folder_.write("pairs.csv", lines), ManifestColumns{"", "source", "", 2, "target"});
  }

  static LoaderSettings settings(const Manifest& manifest, Reads source = Reads::kAttended,
                                 Reads target = Reads::kPredicted) {
    LoaderSettings settings = emoji_settings(manifest);
    settings.fields = text_fields(0, source);
    for (const Field& field : text_fields(1, target)) settings.fields.push_back(field);
    settings.texts[0].max_length = kSourceLength;
    settings.texts[1].vocabulary_size = 3000;
    settings.texts[1].max_length = kTargetLength;
    settings.text_columns[0] = "source";
    settings.text_columns[1] = "target";
    settings.streams[0].batch_per_rank = 5;
    return settings;
  }

  template <typename T>
  static std::vector<T> values(const Batch& batch, const Fields& fields, const std::string& name) {
    const int number = field_named(fields, name);
    const T* const first = batch.field<T>(number);
    return std::vector<T>(first, first + fields[static_cast<std::size_t>(number)].elements(batch.counts));
  }

  // Calls check(batch) for every batch of an epoch.
  template <typename Check>
  static void for_each_batch(const LoaderSettings& settings, Check check) {
    LoaderRun run(settings);
    run.stream().start(0, run.stream().batches_per_epoch());
    const Batch* batch = nullptr;
    Status status;
    while ((status = run.stream().next(&batch)).ok()) {
      check(*batch);
      run.stream().release();
    }
    EXPECT_EQ(status.code, StatusCode::kEndOfEpoch);
  }

  static std::string refusal(const LoaderSettings& settings, ErrorKind kind = ErrorKind::kData) {
    return test::error_of([&] { plan_loader(settings); }, kind);
  }

  TemporaryFolder folder_;
};

}  // namespace bascule::test
