// SPDX-License-Identifier: Apache-2.0
#include "src/loader/loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/loader/masking.h"
#include "src/loader/sampler.h"
#include "src/loader/worker.h"
#include "tests/loader/loader_run.h"
#include "tests/loader/wrapped_engine.h"
#include "tests/support/count_allocations.h"

namespace bascule::test_loader {
namespace {

using test::emoji_settings;
using test::fingerprints;
using test::LoaderRun;

Manifest emoji(const std::string& split) {
  return Manifest::load(test::emoji_folder() + "/" + split + ".jsonl", ManifestColumns());
}

constexpr std::int64_t kTwoEpochs = 2 * 29;  // 200 rows, batches of 7

TEST(Loader, GivesTheSameBitsForAnyNumberOfWorkersSlotsAndJobsInTheQueue) {
  const Manifest manifest = emoji("validation");
  LoaderSettings settings = emoji_settings(manifest);
  settings.workers = 0;
  const std::vector<std::uint64_t> expected = fingerprints(settings, 0, kTwoEpochs);
  ASSERT_EQ(expected.size(), static_cast<std::size_t>(kTwoEpochs));
  constexpr std::int64_t kDepths[] = {1, 3, 16};
  int turn = 0;
  for (const std::int64_t workers : {0, 1, 2, 4}) {
    for (const std::int64_t slots : {2, 3, 8}) {
      const std::int64_t depth = kDepths[(turn++ + workers) % 3];
      settings.workers = workers;
      settings.streams[0].ring_slots = slots;
      settings.media.queue_depth = depth;
      ASSERT_EQ(fingerprints(settings, 0, kTwoEpochs), expected) << workers << " " << slots << " " << depth;
    }
  }
}

TEST(Loader, GivesTheSameBitsForEveryTaskAndWhenJobsComeBackOutOfOrder) {
  const Manifest manifest = emoji("validation");
  int turn = 0;
  for (const test::Task task : {test::Task::kPairs, test::Task::kMatching, test::Task::kMasking}) {
    LoaderSettings settings = emoji_settings(manifest);
    settings.fields = test::loader_fields(task);
    settings.workers = 0;
    const std::vector<std::uint64_t> expected = fingerprints(settings, 0, kTwoEpochs);
    settings.media.driver = test::reordering_engine();
    for (const std::int64_t workers : {0, 1, 4}) {
      settings.workers = workers;
      settings.media.queue_depth = turn++ % 2 == 0 ? 16 : 1;
      ASSERT_EQ(fingerprints(settings, 0, kTwoEpochs), expected) << workers << " " << settings.media.queue_depth;
    }
  }
}

// The rows that all ranks are given in one epoch, in order of rank and batch.
std::vector<std::int64_t> rows_of_epoch(LoaderSettings settings, std::int64_t epoch) {
  std::vector<std::int64_t> rows;
  StreamSettings& stream = settings.streams[0];
  for (stream.rank = 0; stream.rank < stream.world_size; ++stream.rank) {
    LoaderRun run(settings);
    const std::int64_t batches = run.stream().batches_per_epoch();
    run.stream().start(epoch * batches, (epoch + 1) * batches);
    const Batch* batch = nullptr;
    while (run.stream().next(&batch).ok()) {
      EXPECT_EQ(batch->epoch, epoch);
      rows.insert(rows.end(), batch->rows, batch->rows + batch->counts.samples());
      run.stream().release();
    }
  }
  return rows;
}

TEST(Loader, GivesEverySampleExactlyOnceAnEpochForAnyBatchAndWorld) {
  const Manifest manifest = emoji("test");
  LoaderSettings settings = emoji_settings(manifest);
  settings.workers = 2;
  for (const bool shuffled : {true, false}) {
    for (const std::int64_t world_size : {1, 2, 3, 5}) {
      for (const std::int64_t batch : {1, 3, 33, 200}) {
        settings.streams[0].shuffled = shuffled;
        settings.streams[0].world_size = world_size;
        settings.streams[0].batch_per_rank = batch;
        std::vector<std::int64_t> rows = rows_of_epoch(settings, 1);
        std::sort(rows.begin(), rows.end());
        ASSERT_EQ(rows.size(), static_cast<std::size_t>(manifest.rows())) << world_size << " " << batch;
        for (std::size_t i = 0; i < rows.size(); ++i) ASSERT_EQ(rows[i], static_cast<std::int64_t>(i));
      }
    }
  }
}

TEST(Loader, ResumesAtAnyBatchAsIfItHadNeverStopped) {
  const Manifest manifest = emoji("test");
  LoaderSettings settings = emoji_settings(manifest);
  settings.fields = test::loader_fields(test::Task::kMasking);
  settings.workers = 2;
  constexpr std::int64_t kBatches = 2 * 15;  // two epochs
  const std::vector<std::uint64_t> whole = fingerprints(settings, 0, kBatches);
  LoaderRun run(settings);
  for (std::int64_t first = kBatches; first >= 0; --first) {
    const std::vector<std::uint64_t> rest(whole.begin() + first, whole.end());
    ASSERT_EQ(fingerprints(run.stream(), settings, first, kBatches), rest) << first;
  }
}

TEST(Loader, StartsElsewhereWhileWorkersAreAhead) {
  const Manifest manifest = emoji("test");
  LoaderSettings settings = emoji_settings(manifest);
  settings.workers = 3;
  const std::vector<std::uint64_t> whole = fingerprints(settings, 0, 15);
  LoaderRun run(settings);
  for (std::int64_t first = 0; first < 15; ++first) {
    run.stream().start(0, 1000);
    ASSERT_EQ(fingerprints(run.stream(), settings, first, first + 1)[0], whole[static_cast<std::size_t>(first)]);
  }
}

TEST(Loader, ServesEvaluationWhileTrainingWaits) {
  const Manifest train = emoji("validation");
  const Manifest validation = emoji("test");
  LoaderSettings settings = emoji_settings(train);
  LoaderSettings alone = emoji_settings(validation);
  alone.streams[0].shuffled = false;
  settings.streams.push_back(alone.streams[0]);
  for (const std::int64_t workers : {0, 2}) {
    settings.workers = workers;
    const std::vector<std::uint64_t> expected_train = fingerprints(emoji_settings(train), 0, 20);
    const std::vector<std::uint64_t> expected_validation = fingerprints(alone, 0, 15);
    LoaderRun run(settings);
    run.stream(0).start(0, 20);
    for (std::size_t number = 0; number < 20; ++number) {
      const Batch* batch = nullptr;
      ASSERT_TRUE(run.stream(0).next(&batch).ok());
      if (number % 8 == 3) {
        ASSERT_EQ(fingerprints(run.stream(1), settings, 0, 15), expected_validation);
      }
      ASSERT_EQ(test::fingerprint(*batch, settings), expected_train[number]);
      run.stream(0).release();
    }
  }
}

TEST(Loader, ClosesWhileWorkersAreBusy) {
  const Manifest manifest = emoji("train");
  LoaderSettings settings = emoji_settings(manifest);
  settings.streams[0].ring_slots = 8;
  for (const std::int64_t workers : {0, 1, 4}) {
    for (int taken = 0; taken < 4; ++taken) {
      settings.workers = workers;
      LoaderRun run(settings);
      run.stream().start(0, 1000);
      for (int i = 0; i < taken; ++i) {
        const Batch* batch = nullptr;
        ASSERT_TRUE(run.stream().next(&batch).ok());
        run.stream().release();
      }
      run.loader().close();
      EXPECT_EQ(run.stream().statistics().batches, taken);
      EXPECT_GE(run.loader().statistics().media.completed, static_cast<std::uint64_t>(7 * taken));
    }
  }
}

TEST(Loader, AllocatesNothingOnceItIsMade) {
  const Manifest manifest = emoji("validation");
  for (const test::Task task : {test::Task::kPairs, test::Task::kMatching, test::Task::kMasking}) {
    for (const std::int64_t workers : {0, 2}) {
      LoaderSettings settings = emoji_settings(manifest);
      settings.fields = test::loader_fields(task);
      settings.workers = workers;
      LoaderRun run(settings);
      const std::int64_t before = test::allocations();
      run.stream().start(0, kTwoEpochs);
      const Batch* batch = nullptr;
      while (run.stream().next(&batch).ok()) run.stream().release();
      run.stream().start(3, 5);
      run.loader().close();
      EXPECT_EQ(test::allocations() - before, 0) << workers;
    }
  }
}

TEST(Loader, CountsSamplesAndWhoWaitedForWhom) {
  const Manifest manifest = emoji("test");
  LoaderSettings settings = emoji_settings(manifest);
  settings.workers = 2;
  LoaderRun run(settings);
  fingerprints(run.stream(), settings, 0, 15);
  const StreamStatistics stream = run.stream().statistics();
  EXPECT_EQ(stream.batches, 15);
  EXPECT_EQ(stream.samples, 100);
  EXPECT_EQ(stream.bad_samples, 0);
  EXPECT_GE(stream.mean_occupancy, 0.0);
  EXPECT_LE(stream.mean_occupancy, 3.0);
  const LoaderStatistics loader = run.loader().statistics();
  EXPECT_EQ(loader.loaded_samples, 100);
  EXPECT_EQ(loader.media.completed, 100u);
  EXPECT_EQ(stream.loaded_samples, 100);
  EXPECT_GT(stream.loading_seconds, 0.0);
  EXPECT_DOUBLE_EQ(deliverable_samples_per_second({}, stream), 100.0 / stream.loading_seconds);
  StreamStatistics earlier;
  earlier.loaded_samples = 40;
  earlier.loading_seconds = 0.25 * stream.loading_seconds;
  EXPECT_DOUBLE_EQ(deliverable_samples_per_second(earlier, stream), 60.0 / (0.75 * stream.loading_seconds));
  EXPECT_TRUE(std::isnan(deliverable_samples_per_second(stream, stream)));
  StreamStatistics nothing = stream;  // in which time passed and nothing was loaded or taken
  nothing.loading_seconds += 1.0;
  EXPECT_TRUE(std::isnan(deliverable_samples_per_second(stream, nothing)));
  earlier.loaded_samples = 60;
  earlier.samples = 20;
  EXPECT_DOUBLE_EQ(deliverable_samples_per_second(earlier, stream), 40.0 / (0.75 * stream.loading_seconds));
  earlier.samples = 19;  // and more than half of what was taken since then had been loaded before
  EXPECT_TRUE(std::isnan(deliverable_samples_per_second(earlier, stream)));
}

// "could deliver" counts training alone, without what evaluations read.
TEST(Loader, MeasuresEachStreamByItself) {
  const Manifest train = emoji("test"), validation = emoji("validation");
  LoaderSettings settings = emoji_settings(train);
  settings.streams.push_back(settings.streams[0]);
  settings.streams[1].manifest = &validation;
  settings.streams[1].shuffled = false;
  for (const std::int64_t workers : {0, 2}) {
    settings.workers = workers;
    LoaderRun run(settings);
    fingerprints(run.stream(0), settings, 0, 15);
    const double seconds = run.stream(0).statistics().loading_seconds;
    EXPECT_EQ(run.stream(1).statistics().loaded_samples, 0);
    EXPECT_EQ(run.stream(1).statistics().loading_seconds, 0.0);
    fingerprints(run.stream(1), settings, 0, 5);
    EXPECT_EQ(run.stream(1).statistics().loaded_samples, 35);
    EXPECT_GT(run.stream(1).statistics().loading_seconds, 0.0);
    EXPECT_EQ(run.stream(0).statistics().loaded_samples, 100);
    EXPECT_LT(run.stream(0).statistics().loading_seconds, 1.5 * seconds + 0.01) << workers;
  }
}

// In a status of a worker, in a checkpoint, and as a double between ranks.
TEST(PictureReason, IsOneNumberThatStillSaysWhatTheFileIs) {
  const auto reason_of = [](media_engine_status status, std::uint32_t detail) {
    return picture_reason({0, status, detail, 10, 20, 1});
  };
  const std::int64_t gif = reason_of(MEDIA_ENGINE_PICTURE_OTHER_FORMAT, MEDIA_ENGINE_FORMAT_GIF);
  EXPECT_EQ(picture_reason_text(gif), "is GIF; convert it to JPEG or PNG");
  const std::int64_t png = reason_of(MEDIA_ENGINE_PICTURE_TRUNCATED, MEDIA_ENGINE_DETAIL_PNG);
  EXPECT_EQ(picture_reason_text(png), "the PNG file is truncated");
  const std::int64_t webp = reason_of(MEDIA_ENGINE_PICTURE_TRUNCATED, MEDIA_ENGINE_DETAIL_WEBP);
  EXPECT_EQ(picture_reason_text(webp), "the WebP file is truncated");
  EXPECT_EQ(static_cast<std::int64_t>(static_cast<double>(png)), png);
  EXPECT_EQ((gif | png | webp) & kGaveUp, 0);
  EXPECT_EQ(reason_of(MEDIA_ENGINE_PICTURE_TRUNCATED, 123), MEDIA_ENGINE_PICTURE_TRUNCATED) << "as always";
}

TEST(PictureReason, HasTheSizeOfAPictureThatIsTooElongated) {
  const auto reason_of = [](std::uint32_t width, std::uint32_t height, std::uint32_t limit) {
    return picture_reason({0, MEDIA_ENGINE_PICTURE_TOO_ELONGATED, limit | MEDIA_ENGINE_DETAIL_PNG, width, height, 1});
  };
  EXPECT_EQ(picture_reason_text(reason_of(1000, 65, 15)),
            "is 1000 x 65 pixels, which is too elongated: the longer side may be at most 15 times the shorter one");
  EXPECT_EQ(picture_reason_text(reason_of(3, 70000, 3)),
            "is 3 x 70000 pixels, which is too elongated: the longer side may be at most 3 times the shorter one");
  EXPECT_EQ(picture_reason_text(reason_of(13377, 13000, 1)).rfind("is 13377 x 13000 pixels, ", 0), 0u);
  EXPECT_EQ(picture_reason_text(reason_of(1, 131072, 3)).rfind("is 1 x 131071 or more pixels, ", 0), 0u);
  EXPECT_EQ(picture_reason_text(reason_of(20, 10, 0)), "the picture is too elongated") << "whatever its sides";
  const std::int64_t largest = reason_of(~0u, ~0u, 1000000);
  EXPECT_EQ(static_cast<std::int64_t>(static_cast<double>(largest)), largest);
  EXPECT_EQ(largest & (kGaveUp | kAllLeftOut | kTakenOut), 0);
}

// A row that was taken out has no picture, and the one behind it has not failed.
TEST(PictureReason, NamesNoOtherPictureForARowThatWasRemoved) {
  Manifest manifest = emoji("validation");
  manifest.take_out({2});
  const std::string text = describe(Status{StatusCode::kBadSample, {2, kTakenOut | kGaveUp}}, manifest);
  EXPECT_NE(text.find(": row 3, which was removed: "), std::string::npos) << text;
  EXPECT_EQ(text.find(".jpg"), std::string::npos) << text;
}

TEST(LoaderPlan, HoldsEveryBatchAndNothingMore) {
  const Manifest manifest = emoji("validation");
  LoaderSettings settings = emoji_settings(manifest);
  settings.fields = test::loader_fields(test::Task::kMasking);
  settings.texts[0].max_length = 64;
  const LoaderPlan plan = plan_loader(settings);
  std::int64_t longest = 0;
  for (std::int64_t row = 0; row < manifest.rows(); ++row) {
    const std::vector<std::int32_t> ids = test::emoji_tokenizer().encode(manifest.row(row).text);
    longest = std::max(longest, static_cast<std::int64_t>(ids.size()));
  }
  EXPECT_EQ(plan.longest_text, longest);
  EXPECT_EQ(plan.streams[0].bounds.samples(), 7);
  EXPECT_EQ(plan.streams[0].bounds[test::kTokens], 7 * longest);
  EXPECT_EQ(plan.streams[0].bounds[test::kMasked], 7 * masked_count(longest - 2, 0.15));
  EXPECT_EQ(plan.streams[0].bounds.longest[test::kTokens], longest);
  EXPECT_EQ(plan.streams[0].bounds.longest[test::kMasked], masked_count(longest - 2, 0.15));
  EXPECT_EQ(plan.slots_bytes, 3 * plan.streams[0].slot_bytes);
  EXPECT_GE(plan.streams[0].slot_bytes, std::size_t{7 * 3 * 32 * 32 * 4});
  EXPECT_LE(plan.streams[0].slot_bytes, std::size_t{7 * 3 * 32 * 32 * 4 + 16384});
}

// The kind and the line of the error that planning ends with.
std::string refusal(const LoaderSettings& settings) {
  try {
    plan_loader(settings);
  } catch (const Error& error) {
    return std::to_string(exit_code(error.kind())) + ": " + error.what();
  }
  return "planned";
}

TEST(LoaderPlan, RefusesWhatDoesNotFitTheModelOrTheEngine) {
  const Manifest manifest = emoji("test");
  LoaderSettings settings = emoji_settings(manifest);
  settings.texts[0].max_length = 65;  // 66 positions, of which 0 and 1 stand before the first token
  EXPECT_EQ(
      refusal(settings),
      "2: data.max_seq_length: 65: the model has positions for at most 64 tokens; lower it, or begin with a model "
      "that has more positions");
  settings = emoji_settings(manifest);
  settings.texts[0].vocabulary_size = 1000;
  EXPECT_NE(refusal(settings).find("test.jsonl:1: the tokenizer gives token "), std::string::npos) << refusal(settings);
  settings = emoji_settings(manifest);
  settings.media.memory_bytes = std::size_t{1} << 20;
  EXPECT_EQ(refusal(settings).rfind("2: media_engine.memory_mib: 1: ", 0), 0u) << refusal(settings);
  settings = emoji_settings(manifest);
  settings.media.queue_depth = 1000000;
  EXPECT_EQ(refusal(settings).rfind("2: media_engine.queue_depth: 1000000: ", 0), 0u) << refusal(settings);
  settings = emoji_settings(manifest);
  settings.streams[0].ring_slots = 1;
  EXPECT_EQ(refusal(settings).rfind("2: data.ring_slots: 1: ", 0), 0u) << refusal(settings);
  settings = emoji_settings(manifest);
  settings.streams[0].batch_per_rank = 101;
  settings.streams[0].drop_last = true;
  EXPECT_EQ(refusal(settings).rfind("3: ", 0), 0u) << refusal(settings);
}

}  // namespace
}  // namespace bascule::test_loader
