// SPDX-License-Identifier: Apache-2.0
// Bad pictures, files that go or grow, a device that goes.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "src/base/error.h"
#include "src/base/paths.h"
#include "src/loader/loader.h"
#include "src/loader/sampler.h"
#include "tests/loader/loader_run.h"
#include "tests/loader/wrapped_engine.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test_loader_faults {
namespace {

using test::emoji_settings;
using test::LoaderRun;
using test::TemporaryFolder;

constexpr std::int64_t kRows = 40;

// A folder with the first pictures of the emoji data, of which some are cut short.
class Pictures {
 public:
  explicit Pictures(const std::set<std::int64_t>& bad, std::int64_t rows = kRows) {
    const Manifest source = Manifest::load(test::emoji_folder() + "/train.jsonl", ManifestColumns());
    std::string lines;
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::string name = std::to_string(row) + ".jpg";
      std::filesystem::copy_file(test::emoji_folder() + "/" + std::string(source.row(row % kRows).image_path),
                                 folder_.path() + "/" + name);
      if (bad.count(row) != 0) std::filesystem::resize_file(folder_.path() + "/" + name, 700);
      lines += "{\"image\": \"" + name + "\", \"caption\": \"number " + std::to_string(row) + "\"}\n";
    }
    folder_.write("train.jsonl", lines);
  }
  Manifest manifest() const { return Manifest::load(folder_.path() + "/train.jsonl", ManifestColumns()); }
  std::string file(std::int64_t row) const { return folder_.path() + "/" + std::to_string(row) + ".jpg"; }

 private:
  TemporaryFolder folder_;
};

// The status that next() ends with, and after how many batches.
struct End {
  Status status;
  std::int64_t batches = 0;
};

End run_to_end(Stream& stream, std::int64_t first, std::int64_t end) {
  stream.start(first, end);
  const Batch* batch = nullptr;
  End result;
  for (result.status = stream.next(&batch); result.status.ok(); result.status = stream.next(&batch)) {
    ++result.batches;
    stream.release();
  }
  return result;
}

std::int64_t position_of(std::int64_t row, std::uint64_t seed, std::int64_t epoch, std::int64_t rows) {
  const EpochOrder order(seed, epoch, rows);
  for (std::int64_t position = 0; position < rows; ++position) {
    if (order.row(position) == row) return position;
  }
  return -1;
}

TEST(LoaderFaults, ABadPictureStopsTheStreamAtItsBatchAndIsNamed) {
  const Pictures pictures({11});
  const Manifest manifest = pictures.manifest();
  LoaderSettings settings = emoji_settings(manifest);
  const std::int64_t batch = position_of(11, settings.seed, 0, kRows) / 7;
  for (const std::int64_t workers : {0, 1, 4}) {
    settings.workers = workers;
    LoaderRun run(settings);
    const End end = run_to_end(run.stream(), 0, 100);
    EXPECT_EQ(end.batches, batch);
    EXPECT_EQ(end.status.code, StatusCode::kBadSample);
    const std::string line = describe(end.status, manifest);
    EXPECT_NE(line.find("train.jsonl:12: " + shown_path(pictures.file(11)) + ": the JPEG file is truncated"),
              std::string::npos)
        << line;
    const Batch* none = nullptr;
    EXPECT_EQ(run.stream().next(&none).detail[0], 11);  // and says so again
  }
}

TEST(LoaderFaults, TheAdviceForAPictureThatNeedsMoreMemoryIsMoreMemory) {
  const Manifest manifest = Pictures({}).manifest();
  const auto line_of = [&](media_engine_status status) {
    media_engine_completion completion = {};
    completion.status = status;
    completion.detail = MEDIA_ENGINE_DETAIL_WEBP;
    return describe(Status{StatusCode::kBadSample, {3, picture_reason(completion)}}, manifest);
  };
  const std::string others = ", remove the row, or set data.on_bad_sample = \"skip\"";
  const auto ends_with = [](const std::string& line, const std::string& end) {
    return line.size() > end.size() && line.compare(line.size() - end.size(), end.size(), end) == 0;
  };
  const std::string large = line_of(MEDIA_ENGINE_PICTURE_TOO_LARGE), broken = line_of(MEDIA_ENGINE_PICTURE_DAMAGED);
  EXPECT_TRUE(ends_with(large, "; increase media_engine.memory_mib, make the picture smaller" + others)) << large;
  EXPECT_TRUE(ends_with(broken, "; repair it" + others)) << broken;
}

TEST(LoaderFaults, TheFirstOfSeveralBadPicturesInOrderOfPositionIsTheOneReported) {
  const Pictures pictures({1, 5, 11, 12, 30, 31});
  const Manifest manifest = pictures.manifest();
  LoaderSettings settings = emoji_settings(manifest);
  settings.streams[0].batch_per_rank = 20;
  const EpochOrder order(settings.seed, 0, kRows);
  std::int64_t first_bad = 0;
  while (std::set<std::int64_t>{1, 5, 11, 12, 30, 31}.count(order.row(first_bad)) == 0) ++first_bad;
  for (int round = 0; round < 10; ++round) {
    settings.workers = round % 5;
    LoaderRun run(settings);
    EXPECT_EQ(run_to_end(run.stream(), 0, 100).status.detail[0], order.row(first_bad));
  }
}

// The expectation of an epoch with skipping: rows by position, and the replacements among them.
struct Skipped {
  std::vector<std::int64_t> rows;
  std::vector<ReplacedSample> replaced;
};

Skipped skip_by_hand(std::uint64_t seed, std::int64_t epoch, const std::set<std::int64_t>& bad) {
  const EpochOrder order(seed, epoch, kRows);
  Skipped result;
  for (std::int64_t position = 0; position < kRows; ++position) {
    std::int64_t taken = position;
    while (bad.count(order.row(taken % kRows)) != 0) ++taken;
    result.rows.push_back(order.row(taken % kRows));
    if (taken != position) {
      result.replaced.push_back(
          {epoch, position, result.rows.back(), order.row(position), MEDIA_ENGINE_PICTURE_TRUNCATED});
    }
  }
  return result;
}

void expect_equal(Span<const ReplacedSample> got, const std::vector<ReplacedSample>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(got[i].epoch, expected[i].epoch);
    EXPECT_EQ(got[i].position, expected[i].position);
    EXPECT_EQ(got[i].row, expected[i].row);
    EXPECT_EQ(got[i].bad_row, expected[i].bad_row);
    EXPECT_EQ(got[i].reason, expected[i].reason);
  }
}

TEST(LoaderFaults, SkippingTakesTheNextGoodSampleAndListsItWhateverTheWorkers) {
  const EpochOrder order(42, 0, kRows);
  // Two in a row, and the last position of the epoch, whose replacement is at its beginning.
  const std::set<std::int64_t> bad = {order.row(10), order.row(11), order.row(kRows - 1), 3};
  const Pictures pictures(bad);
  const Manifest manifest = pictures.manifest();
  LoaderSettings settings = emoji_settings(manifest);
  settings.on_bad_sample = OnBadSample::kSkip;
  std::vector<std::int64_t> rows;
  std::vector<ReplacedSample> replaced;
  for (const std::int64_t epoch : {0, 1}) {
    const Skipped expected = skip_by_hand(settings.seed, epoch, bad);
    rows.insert(rows.end(), expected.rows.begin(), expected.rows.end());
    replaced.insert(replaced.end(), expected.replaced.begin(), expected.replaced.end());
  }
  for (const std::int64_t workers : {0, 1, 2, 4}) {
    settings.workers = workers;
    settings.media.driver = workers == 2 ? test::reordering_engine() : nullptr;
    LoaderRun run(settings);
    run.stream().start(0, 12);
    std::vector<std::int64_t> got;
    const Batch* batch = nullptr;
    while (run.stream().next(&batch).ok()) {
      got.insert(got.end(), batch->rows, batch->rows + batch->counts.samples());
      run.stream().release();
    }
    EXPECT_EQ(got, rows);
    expect_equal(run.stream().replacements(), replaced);
    EXPECT_EQ(run.stream().statistics().bad_samples, static_cast<std::int64_t>(replaced.size()));
  }
}

TEST(LoaderFaults, ReplacementsOfAnEarlierProcessAreKept) {
  const Pictures pictures({7});
  const Manifest manifest = pictures.manifest();
  LoaderSettings settings = emoji_settings(manifest);
  settings.on_bad_sample = OnBadSample::kSkip;
  LoaderRun whole(settings);
  run_to_end(whole.stream(), 0, 12);
  const Span<const ReplacedSample> all = whole.stream().replacements();
  ASSERT_EQ(all.size(), 2u);
  LoaderRun resumed(settings);
  resumed.stream().restore_replacements(all.first(1), 1);
  run_to_end(resumed.stream(), 6, 12);
  expect_equal(resumed.stream().replacements(), std::vector<ReplacedSample>(all.begin(), all.end()));
  EXPECT_EQ(resumed.stream().statistics().bad_samples, 2);
}

TEST(LoaderFaults, ASampleThatIsGivenAgainIsListedOnce) {
  const Pictures pictures({7});
  const Manifest manifest = pictures.manifest();
  LoaderSettings settings = emoji_settings(manifest);
  settings.on_bad_sample = OnBadSample::kSkip;
  LoaderRun run(settings);
  for (int time = 0; time < 3; ++time) run_to_end(run.stream(), 0, 6);
  EXPECT_EQ(run.stream().replacements().size(), 1u);
  EXPECT_EQ(run.stream().statistics().bad_samples, 1);
}

// Everything of the batches of an evaluation that leaves rows out, by row.
struct LeftOut {
  std::vector<std::int64_t> rows, samples;
  std::vector<float> first_pixels, last_pixels;
  std::vector<std::int32_t> first_tokens, lengths;
  std::vector<std::uint64_t> keys;
};

LeftOut evaluate(Stream& stream, const LoaderSettings& settings, std::int64_t batches) {
  LeftOut all;
  const std::int64_t pixels = 3 * settings.media.image_side * settings.media.image_side;
  stream.start(0, batches);
  const Batch* batch = nullptr;
  while (stream.next(&batch).ok()) {
    const test::FilledBatch filled(*batch, settings.fields);
    all.samples.push_back(batch->counts.samples());
    EXPECT_EQ(batch->positions, std::min<std::int64_t>(7, kRows - batch->first_position));
    EXPECT_EQ(filled.text_offsets[batch->counts.samples()], batch->counts[test::kTokens]);
    for (std::int64_t b = 0; b < batch->counts.samples(); ++b) {
      all.rows.push_back(batch->rows[b]);
      all.first_pixels.push_back(filled.pixels[b * pixels]);
      all.last_pixels.push_back(filled.pixels[(b + 1) * pixels - 1]);
      all.lengths.push_back(filled.text_offsets[b + 1] - filled.text_offsets[b]);
      all.first_tokens.push_back(filled.token_ids[filled.text_offsets[b] + 1]);
      all.keys.push_back(filled.sample_keys[b]);
    }
    stream.release();
  }
  return all;
}

template <typename T>
std::vector<T> without(std::vector<T> all, const std::set<std::int64_t>& bad) {
  for (auto row = bad.rbegin(); row != bad.rend(); ++row) all.erase(all.begin() + *row);
  return all;
}

TEST(LoaderFaults, AnEvaluationLeavesBadSamplesOutAndChangesNothingAboutTheOthers) {
  const std::set<std::int64_t> bad = {7, 9, 14, 15, 16, 17, 18, 19, 20, 39};  // the whole third batch, and the last row
  const Pictures good({}), pictures(bad);
  const Manifest good_manifest = good.manifest(), manifest = pictures.manifest();
  LoaderSettings settings = emoji_settings(good_manifest);
  settings.streams[0].shuffled = false;
  LoaderRun good_run(settings);
  const LeftOut whole = evaluate(good_run.stream(), settings, 6);
  ASSERT_EQ(whole.rows.size(), static_cast<std::size_t>(kRows));
  settings.streams[0].manifest = &manifest;
  settings.on_bad_sample = OnBadSample::kSkip;
  for (const std::int64_t workers : {0, 1, 4}) {
    settings.workers = workers;
    LoaderRun run(settings);
    for (int evaluation = 0; evaluation < 2; ++evaluation) {
      const LeftOut left_out = evaluate(run.stream(), settings, 6);
      EXPECT_EQ(left_out.samples, (std::vector<std::int64_t>{7, 5, 0, 7, 7, 4}));
      EXPECT_EQ(left_out.rows, without(whole.rows, bad));
      EXPECT_EQ(left_out.first_pixels, without(whole.first_pixels, bad));
      EXPECT_EQ(left_out.last_pixels, without(whole.last_pixels, bad));
      EXPECT_EQ(left_out.lengths, without(whole.lengths, bad));
      EXPECT_EQ(left_out.first_tokens, without(whole.first_tokens, bad));
      EXPECT_EQ(left_out.keys, without(whole.keys, bad));
      ASSERT_EQ(run.stream().replacements().size(), bad.size()) << "those of this evaluation alone";
      EXPECT_EQ(run.stream().statistics().bad_samples, static_cast<std::int64_t>(bad.size()));
      EXPECT_EQ(run.stream().replacements()[1].bad_row, 9);
      EXPECT_EQ(run.stream().replacements()[1].row, -1);
    }
  }
  EXPECT_EQ(bad_picture_text({0, 7, -1, 7, MEDIA_ENGINE_PICTURE_TRUNCATED}), "the JPEG file is truncated");
}

TEST(LoaderFaults, WhatTheListHasNoRoomForIsCountedOnceAnEvaluation) {
  const Pictures pictures({7, 9});
  const Manifest manifest = pictures.manifest();
  LoaderSettings settings = emoji_settings(manifest);
  settings.on_bad_sample = OnBadSample::kSkip;
  settings.streams[0].shuffled = false;
  settings.max_replacements = 1;
  LoaderRun run(settings);
  for (int evaluation = 0; evaluation < 3; ++evaluation) run_to_end(run.stream(), 0, 6);
  EXPECT_EQ(run.stream().replacements().size(), 1u);
  EXPECT_EQ(run.stream().statistics().bad_samples, 2);
}

TEST(LoaderFaults, SkippingGivesUpWhenEverySampleIsBad) {
  std::set<std::int64_t> all;
  for (std::int64_t row = 0; row < 5; ++row) all.insert(row);
  const Pictures pictures(all, 5);
  const Manifest manifest = pictures.manifest();
  LoaderSettings settings = emoji_settings(manifest);
  settings.on_bad_sample = OnBadSample::kSkip;
  LoaderRun run(settings);
  const End end = run_to_end(run.stream(), 0, 1);
  EXPECT_EQ(end.status.code, StatusCode::kBadSample);
  EXPECT_NE(describe(end.status, manifest).find("and the samples tried before it failed too"), std::string::npos);
}

TEST(LoaderFaults, SkippingGivesUpAfterAThousandBadSamplesInARow) {
  std::set<std::int64_t> all;
  for (std::int64_t row = 0; row < 1001; ++row) all.insert(row);
  const Pictures pictures(all, 1001);
  const Manifest manifest = pictures.manifest();
  LoaderSettings settings = emoji_settings(manifest);
  settings.on_bad_sample = OnBadSample::kSkip;
  settings.workers = 0;
  settings.streams[0].batch_per_rank = 1;
  LoaderRun run(settings);
  const End end = run_to_end(run.stream(), 0, 1);
  EXPECT_EQ(end.status.code, StatusCode::kBadSample);
  EXPECT_EQ(end.status.detail[0], EpochOrder(settings.seed, 0, 1001).row(999));
  EXPECT_EQ(run.loader().statistics().media.completed, 1000u);
}

TEST(LoaderFaults, AMissingPictureIsNamedBeforeAnythingStarts) {
  const Pictures pictures({});
  const Manifest manifest = pictures.manifest();
  std::filesystem::remove(pictures.file(4));
  try {
    plan_loader(emoji_settings(manifest));
    FAIL() << "planned";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    EXPECT_NE(std::string(error.what())
                  .find("train.jsonl:5: " + shown_path(pictures.file(4)) + ": No such file or directory"),
              std::string::npos);
  }
  std::filesystem::create_directory(pictures.file(4));
  EXPECT_THROW(plan_loader(emoji_settings(manifest)), Error);
}

std::vector<std::int64_t> rows_of(Stream& stream, std::int64_t batches) {
  std::vector<std::int64_t> rows;
  stream.start(0, batches);
  const Batch* batch = nullptr;
  while (stream.next(&batch).ok()) {
    rows.insert(rows.end(), batch->rows, batch->rows + batch->counts.samples());
    stream.release();
  }
  return rows;
}

TEST(LoaderFaults, AMissingPictureIsSkippedLikeABadOne) {
  const std::set<std::int64_t> bad = {4, 5, 11, 39};
  const Pictures damaged(bad), pictures({});
  for (const std::int64_t row : bad) std::filesystem::remove(pictures.file(row));
  const Manifest with_damaged = damaged.manifest();
  Manifest manifest = pictures.manifest();
  manifest.measure_pictures(MissingPictures::kAreSkipped);
  for (const bool trains : {true, false}) {
    for (const std::int64_t workers : {0, 3}) {
      LoaderSettings settings = emoji_settings(with_damaged);
      settings.on_bad_sample = OnBadSample::kSkip;
      settings.workers = workers;
      settings.streams[0].shuffled = trains;
      const std::int64_t batches = trains ? 12 : 6;  // two epochs, or one
      LoaderRun expected(settings);
      const std::vector<std::int64_t> rows = rows_of(expected.stream(), batches);
      settings.streams[0].manifest = &manifest;
      LoaderRun run(settings);
      EXPECT_EQ(rows_of(run.stream(), batches), rows);
      ASSERT_EQ(run.stream().replacements().size(), expected.stream().replacements().size());
      for (std::size_t i = 0; i < run.stream().replacements().size(); ++i) {
        const ReplacedSample &one = run.stream().replacements()[i], &other = expected.stream().replacements()[i];
        EXPECT_EQ(std::tie(one.epoch, one.position, one.row, one.bad_row),
                  std::tie(other.epoch, other.position, other.row, other.bad_row));
        EXPECT_EQ(bad_picture_text(one), "the file is missing");
      }
    }
  }
}

TEST(LoaderFaults, AFileThatGoesDuringTheRunStopsItEvenWhereBadSamplesAreSkipped) {
  const Pictures pictures({});
  const Manifest manifest = pictures.manifest();
  LoaderSettings settings = emoji_settings(manifest);
  settings.on_bad_sample = OnBadSample::kSkip;
  LoaderRun run(settings);
  std::filesystem::remove(pictures.file(4));
  const End end = run_to_end(run.stream(), 0, 100);
  EXPECT_EQ(end.status.code, StatusCode::kReadFailed);
  EXPECT_EQ(end.status.detail[0], 4);
  EXPECT_EQ(end.status.detail[1], ENOENT);
  const std::string line = describe(end.status, manifest);
  EXPECT_NE(line.find("train.jsonl:5: " + shown_path(pictures.file(4)) + ": No such file"), std::string::npos) << line;
  EXPECT_NE(line.find("restore it and run the same command again, or remove the row and choose another output_dir"),
            std::string::npos)
      << line;
}

TEST(LoaderFaults, APictureThatBecomesAPipeIsNamedAndNotWaitedFor) {
  const Pictures pictures({});
  const Manifest manifest = pictures.manifest();
  const LoaderSettings settings = emoji_settings(manifest);
  LoaderRun run(settings);
  std::filesystem::remove(pictures.file(4));
  ASSERT_EQ(::mkfifo(pictures.file(4).c_str(), 0600), 0);
  const End end = run_to_end(run.stream(), 0, 100);
  EXPECT_EQ(end.status.code, StatusCode::kReadFailed);
  EXPECT_NE(describe(end.status, manifest)
                .find("train.jsonl:5: " + shown_path(pictures.file(4)) + ": is no longer a file; restore it"),
            std::string::npos);
}

TEST(LoaderFaults, ACaptionLongerThanPlannedEndsTheStreamInsteadOfBeingCut) {
  const Pictures pictures({});
  const Manifest manifest = pictures.manifest();
  const LoaderSettings settings = emoji_settings(manifest);
  LoaderPlan plan = plan_loader(settings);
  StreamPlan& stream = plan.streams[0];
  plan.longest_text = --stream.texts[0].longest;
  stream.bounds[test::kTokens] = stream.bounds.samples() * stream.texts[0].longest;
  LoaderRun run(settings, plan);
  const End end = run_to_end(run.stream(), 0, 100);
  EXPECT_EQ(end.status.code, StatusCode::kLongText);
  EXPECT_EQ(end.status.detail[1], stream.texts[0].longest);
  EXPECT_NE(describe(end.status, manifest).find("the text has more than"), std::string::npos);
}

TEST(LoaderFaults, AFileThatGrowsDuringTheRunIsNamedAndOverflowsNothing) {
  const Pictures pictures({});
  const Manifest manifest = pictures.manifest();
  const LoaderSettings settings = emoji_settings(manifest);
  LoaderRun run(settings);
  std::filesystem::resize_file(pictures.file(4), run.plan().largest_file_bytes + 100000);
  const End end = run_to_end(run.stream(), 0, 100);
  EXPECT_EQ(end.status.code, StatusCode::kReadFailed);
  EXPECT_EQ(end.status.detail[1], EFBIG);
  EXPECT_NE(
      describe(end.status, manifest).find("train.jsonl:5: " + shown_path(pictures.file(4)) + ": the file is larger"),
      std::string::npos);
}

TEST(LoaderFaults, AnEmptyFileIsABadPicture) {
  const Pictures pictures({});
  const Manifest manifest = pictures.manifest();
  const LoaderSettings settings = emoji_settings(manifest);
  std::filesystem::resize_file(pictures.file(4), 0);
  LoaderRun run(settings);
  const End end = run_to_end(run.stream(), 0, 100);
  EXPECT_EQ(end.status.code, StatusCode::kBadSample);
  EXPECT_EQ(end.status.detail[1], MEDIA_ENGINE_PICTURE_EMPTY);
}

TEST(LoaderFaults, ADeviceThatGoesEndsTheStreamAndTheLoaderStillCloses) {
  const Pictures pictures({});
  const Manifest manifest = pictures.manifest();
  for (const std::int64_t workers : {0, 1, 4}) {
    for (const int jobs : {0, 5, 17}) {
      LoaderSettings settings = emoji_settings(manifest);
      settings.workers = workers;
      settings.on_bad_sample = OnBadSample::kSkip;
      settings.media.driver = test::vanishing_engine(jobs);
      LoaderRun run(settings);
      const End end = run_to_end(run.stream(), 0, 1000);
      EXPECT_EQ(end.status.code, StatusCode::kDeviceFailed) << workers << " " << jobs;
      EXPECT_EQ(end.status.detail[1], MEDIA_ENGINE_DEVICE_GONE);
      EXPECT_EQ(describe(end.status, manifest).find("media engine: the device does not respond"), 0u);
      EXPECT_EQ(describe(end.status, manifest).find(".jpg"), std::string::npos) << "no picture is at fault";
    }
  }
}

}  // namespace
}  // namespace bascule::test_loader_faults
