// SPDX-License-Identifier: Apache-2.0
#include "src/loader/label_count.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/loader/loader_run.h"

namespace bascule::test_label_count {
namespace {

using test::LoaderRun;

// Texts without pictures, some with one masked token and some with two, in the second share of two ranks' batches.
LoaderSettings text_only(const Manifest& manifest) {
  LoaderSettings settings = test::emoji_settings(manifest);
  settings.fields = test::loader_fields(test::Task::kMasking);
  const auto is_of_pictures = [](const Field& field) {
    return field.source == FieldSource::kPixels || field.source == FieldSource::kImageRowKeys;
  };
  settings.fields.erase(std::remove_if(settings.fields.begin(), settings.fields.end(), is_of_pictures),
                        settings.fields.end());
  settings.texts[0].max_length = 16;
  settings.streams[0].world_size = 2;
  settings.streams[0].rank = 1;
  settings.counts_labels_ahead = true;
  return settings;
}

TEST(LabelCount, IsOfTheBatchesThatFollowAcrossEpochsAndShorterOnes) {
  const Manifest manifest = Manifest::load(test::emoji_folder() + "/test.jsonl", {"", "caption", ""});
  const LoaderSettings settings = text_only(manifest);
  LoaderRun run(settings);
  const std::int64_t end = 2 * run.stream().batches_per_epoch();
  run.stream().start(0, end);
  std::vector<std::int64_t> ahead, counts;
  int with_more = 0;  // of the batches
  const Batch* batch = nullptr;
  while (run.stream().next(&batch).ok()) {
    ahead.push_back(
        run.stream().labelled_ahead(std::min<std::int64_t>(3, end - static_cast<std::int64_t>(ahead.size()))));
    counts.push_back(batch->counts[test::kMasked]);
    with_more += counts.back() > batch->counts.samples() ? 1 : 0;
    run.stream().release();
  }
  ASSERT_EQ(static_cast<std::int64_t>(counts.size()), end);
  EXPECT_GT(with_more, 0) << "else every row counts the same, and any would do";
  for (std::size_t i = 0; i < counts.size(); ++i) {
    std::int64_t sum = 0;
    for (std::size_t k = i; k < std::min(counts.size(), i + 3); ++k) sum += counts[k];
    EXPECT_EQ(ahead[i], sum) << i;
  }
}

TEST(LabelCount, TakesNoMemoryWhereItIsNotAskedFor) {
  const Manifest manifest = Manifest::load(test::emoji_folder() + "/test.jsonl", {"", "caption", ""});
  LoaderSettings settings = text_only(manifest);
  const std::size_t with = plan_loader(settings).total_bytes();
  settings.counts_labels_ahead = false;
  EXPECT_EQ(plan_loader(settings).label_count_bytes, 0u);
  EXPECT_LT(plan_loader(settings).total_bytes(), with);
}

}  // namespace
}  // namespace bascule::test_label_count
