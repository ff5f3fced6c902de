// SPDX-License-Identifier: Apache-2.0
// Checks the content of a batch against the files and functions that it is made of.
#include "src/loader/sample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "kernels/dropout.h"
#include "src/base/batch.h"
#include "src/base/error.h"
#include "src/json/json.h"
#include "src/loader/masking.h"
#include "src/loader/sampler.h"
#include "tests/loader/loader_run.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test_sample {
namespace {

using test::emoji_settings;
using test::LoaderRun;

Manifest emoji_test() { return Manifest::load(test::emoji_folder() + "/test.jsonl", ManifestColumns()); }

TEST(RowKey, IsTheKeyThatDropoutTakes) {
  for (const std::uint64_t sample : {std::uint64_t{0}, std::uint64_t{5}, std::uint64_t{1} << 40}) {
    for (const std::uint64_t position : {0u, 1u, 77u, 0xffffu}) {
      EXPECT_EQ(row_key(sample, position), dropout_row_key(sample, position));
    }
  }
}

// Calls check(batch, b, sample number in the run) for every sample of batches first .. end - 1.
template <typename Check>
void for_each_sample(const LoaderSettings& settings, std::int64_t first, std::int64_t end, Check check) {
  LoaderRun run(settings);
  run.stream().start(first, end);
  const Batch* batch = nullptr;
  while (run.stream().next(&batch).ok()) {
    for (std::int64_t b = 0; b < batch->counts.samples(); ++b) {
      check(test::FilledBatch(*batch, settings.fields), b,
            batch->epoch * run.stream().samples_per_epoch() + batch->first_position + b);
    }
    run.stream().release();
  }
}

std::vector<std::int32_t> ids_of(const test::FilledBatch& batch, std::int64_t b) {
  return std::vector<std::int32_t>(batch.token_ids + batch.text_offsets[b],
                                   batch.token_ids + batch.text_offsets[b + 1]);
}

TEST(Batch, HoldsPackedCaptionsPositionsAndKeysOfTheEpochsOrder) {
  const Manifest manifest = emoji_test();
  LoaderSettings settings = emoji_settings(manifest);
  settings.streams[0].world_size = 2;
  settings.streams[0].rank = 1;
  std::int64_t seen = 0;
  for_each_sample(settings, 8, 16, [&](const test::FilledBatch& batch, std::int64_t b, std::int64_t number) {
    ++seen;
    const std::uint64_t sample = static_cast<std::uint64_t>(number);
    EXPECT_EQ(batch.epoch, 1);
    const EpochOrder order(settings.seed, 1, manifest.rows());
    ASSERT_EQ(batch.rows[b], order.row(batch.first_position + b));
    ASSERT_EQ(batch.rows_of_texts[b], batch.rows[b]);
    ASSERT_EQ(ids_of(batch, b), test::emoji_tokenizer().encode(manifest.row(batch.rows[b]).text, 24));
    for (std::int32_t r = batch.text_offsets[b]; r < batch.text_offsets[b + 1]; ++r) {
      const std::int32_t token = r - batch.text_offsets[b];
      ASSERT_EQ(batch.position_ids[r], 2 + token);
      ASSERT_EQ(batch.text_row_keys[r], dropout_row_key(sample, static_cast<std::uint64_t>(token)));
    }
    ASSERT_EQ(batch.sample_keys[b], dropout_row_key(sample, 0));
    for (std::int64_t i = 0; i < 5; ++i) {
      ASSERT_EQ(batch.image_row_keys[b * 5 + i], dropout_row_key(sample, static_cast<std::uint64_t>(i)));
    }
    ASSERT_EQ(batch.labels, nullptr);
    ASSERT_EQ(batch.text_offsets[batch.counts.samples()], batch.counts[test::kTokens]);
  });
  EXPECT_EQ(seen, 50);  // of 100, in batches of 14 of which rank 1 has the second half; the last has 2 samples
}

TEST(Batch, GivesAPadTokenInTheTextThePadPosition) {
  test::TemporaryFolder folder;
  const std::string picture = test::emoji_folder() + "/" + std::string(emoji_test().row(0).image_path);
  const Manifest manifest = Manifest::load(
      folder.write("one.jsonl", "{\"image\": \"" + picture + "\", \"caption\": \"a<pad>b\"}\n"), ManifestColumns());
  for_each_sample(emoji_settings(manifest), 0, 1, [&](const test::FilledBatch& batch, std::int64_t, std::int64_t) {
    ASSERT_EQ(batch.counts[test::kTokens], 5);  // <s> a <pad> b </s>
    EXPECT_EQ(batch.token_ids[2], 1);
    const std::vector<std::int32_t> expected = {2, 3, 1, 4, 5};
    EXPECT_EQ(std::vector<std::int32_t>(batch.position_ids, batch.position_ids + 5), expected);
  });
}

TEST(Batch, MasksAsMaskTokensDoesAndListsTheSelectedRows) {
  const Manifest manifest = emoji_test();
  LoaderSettings settings = emoji_settings(manifest);
  settings.fields = test::loader_fields(test::Task::kMasking);
  MaskingSettings masking;
  masking.seed = settings.seed;
  masking.mask_id = test::emoji_tokenizer().mask_id();
  masking.vocabulary_size = test::emoji_tokenizer().vocabulary_size();
  masking.special_ids = test::emoji_tokenizer().special_ids();
  std::int64_t next_selected = 0;
  for_each_sample(settings, 15, 30, [&](const test::FilledBatch& batch, std::int64_t b, std::int64_t) {
    if (b == 0) next_selected = 0;
    std::vector<std::int32_t> ids = test::emoji_tokenizer().encode(manifest.row(batch.rows[b]).text, 24);
    std::vector<std::int32_t> labels(ids.size());
    mask_tokens(Span<std::int32_t>(ids), Span<std::int32_t>(labels), masking, 1, batch.rows[b]);
    ASSERT_EQ(ids_of(batch, b), ids);
    for (std::size_t i = 0; i < labels.size(); ++i) {
      if (labels[i] == kUnlabelled) continue;
      ASSERT_LT(next_selected, batch.counts[test::kMasked]);
      ASSERT_EQ(batch.selected_rows[next_selected], batch.text_offsets[b] + static_cast<std::int32_t>(i));
      ASSERT_EQ(batch.labels[next_selected++], labels[i]);
    }
    if (b + 1 == batch.counts.samples()) {
      ASSERT_EQ(next_selected, batch.counts[test::kMasked]);
    }
  });
}

TEST(Batch, ExchangesCaptionsForMatchingAsMatchingSampleSays) {
  const Manifest manifest = emoji_test();
  LoaderSettings settings = emoji_settings(manifest);
  settings.fields = test::loader_fields(test::Task::kMatching);
  const NegativeSettings negatives{settings.seed, settings.negative_fraction};
  std::int64_t foreign = 0;
  for_each_sample(settings, 0, 15, [&](const test::FilledBatch& batch, std::int64_t b, std::int64_t) {
    const MatchingSample expected = matching_sample(manifest, negatives, 0, batch.rows[b]);
    ASSERT_EQ(batch.rows_of_texts[b], expected.caption_row);
    ASSERT_EQ(batch.labels[b], expected.label);
    ASSERT_EQ(ids_of(batch, b), test::emoji_tokenizer().encode(manifest.row(expected.caption_row).text, 24));
    foreign += expected.label == 0 ? 1 : 0;
  });
  EXPECT_GT(foreign, 20);
  EXPECT_LT(foreign, 80);
}

TEST(Batch, ReadsLabelsForMatchingWhereTheManifestHasThem) {
  test::TemporaryFolder folder;
  const std::string picture = test::emoji_folder() + "/" + std::string(emoji_test().row(0).image_path);
  std::string lines;
  for (int row = 0; row < 10; ++row) {
    lines += "{\"image\": \"" + picture + "\", \"caption\": \"a\", \"match\": " + std::to_string(row % 3 == 0) + "}\n";
  }
  ManifestColumns columns;
  columns.label = "match";
  const Manifest manifest = Manifest::load(folder.write("labelled.jsonl", lines), columns);
  LoaderSettings settings = emoji_settings(manifest);
  settings.fields = test::loader_fields(test::Task::kMatching);
  for_each_sample(settings, 0, 2, [&](const test::FilledBatch& batch, std::int64_t b, std::int64_t) {
    ASSERT_EQ(batch.rows_of_texts[b], batch.rows[b]);
    ASSERT_EQ(batch.labels[b], batch.rows[b] % 3 == 0 ? 1 : 0);
  });
}

// Without pictures nothing is opened or decoded, and the loader needs no memory for it.
TEST(Batch, HoldsTextsAndClassesWithoutPictures) {
  test::TemporaryFolder folder;
  std::string lines;
  for (int row = 0; row < 10; ++row)
    lines += "{\"text\": \"" + std::string(static_cast<std::size_t>(row + 1), 'a') +
             "\", \"class\": " + std::to_string(row % 5) + "}\n";
  const Manifest manifest = Manifest::load(folder.write("texts.jsonl", lines), ManifestColumns{"", "text", "class", 5});
  EXPECT_FALSE(manifest.has_pictures());
  LoaderSettings settings = emoji_settings(manifest);
  Fields& fields = settings.fields;
  fields.erase(fields.begin());  // pixels
  fields.push_back({"labels", DType::kInt32, rows_per_sample(1), 1, FieldSource::kClassLabels});
  for (const std::int64_t workers : {0, 1, 3}) {
    settings.workers = workers;
    const LoaderPlan plan = plan_loader(settings);
    EXPECT_EQ(plan.media_engine_bytes + plan.encoded_bytes, 0u);
    std::int64_t seen = 0;
    for_each_sample(settings, 0, 2, [&](const test::FilledBatch& batch, std::int64_t b, std::int64_t) {
      ++seen;
      ASSERT_EQ(batch.pixels, nullptr);
      ASSERT_EQ(batch.labels[b], batch.rows[b] % 5);
      ASSERT_EQ(ids_of(batch, b), test::emoji_tokenizer().encode(manifest.row(batch.rows[b]).text, 24));
    });
    EXPECT_EQ(seen, 10);
  }
}

TEST(Batch, HoldsPairsOfTextsWithTheTypesOfTheirTokens) {
  test::TemporaryFolder folder;
  Json document = read_json_file(test::emoji_folder() + "/tokenizer/tokenizer.json");
  document["post_processor"]["type"] = "BertProcessing";
  folder.write("tokenizer.json", json_text(document));
  const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(folder.path());
  std::string lines = "a,b\n";
  for (int row = 0; row < 10; ++row)
    lines +=
        std::string(static_cast<std::size_t>(3 * row), 'a') + ",a dog and " + std::to_string(row * row) + " cats\n";
  const Manifest manifest = Manifest::load(folder.write("pairs.csv", lines), ManifestColumns{"", "a", "", 2, "b"});
  LoaderSettings settings = emoji_settings(manifest);
  settings.tokenizer = tokenizer.get();
  settings.texts[0].max_length = 12;
  settings.fields.erase(settings.fields.begin());  // pixels
  settings.fields.push_back({"types", DType::kInt32, rows_of_stream(test::kTokens), 1, FieldSource::kTokenTypes});
  std::vector<std::byte> scratch(tokenizer->scratch_bytes(manifest.longest_text_bytes()));
  std::int64_t cut = 0;
  for_each_sample(settings, 0, 2, [&](const test::FilledBatch& batch, std::int64_t b, std::int64_t) {
    const ManifestRow row = manifest.row(batch.rows[b]);
    std::vector<std::int32_t> ids(12);
    Encoded encoded;
    ASSERT_TRUE(tokenizer->encode_into({row.text, row.second_text}, ids, &encoded, scratch).ok());
    cut += encoded.tokens == 12 ? 1 : 0;
    ids.resize(static_cast<std::size_t>(encoded.tokens));
    ASSERT_EQ(ids_of(batch, b), ids);
    const auto* const types = batch.field<std::int32_t>(field_named(settings.fields, "types")) + batch.text_offsets[b];
    for (std::int64_t t = 0; t < encoded.tokens; ++t) ASSERT_EQ(types[t], t < encoded.second_begin ? 0 : 1);
  });
  EXPECT_GT(cut, 0);
  settings.texts[0].max_length = 2;
  EXPECT_THROW(plan_loader(settings), Error) << "no room for three special tokens";
}

TEST(Batch, HoldsPicturesAndClassesWithoutTexts) {
  test::TemporaryFolder folder;
  const std::string picture = test::emoji_folder() + "/" + std::string(emoji_test().row(0).image_path);
  std::string lines = "image,class\n";
  for (int row = 0; row < 10; ++row) lines += picture + "," + std::to_string(row) + "\n";
  const Manifest manifest =
      Manifest::load(folder.write("classes.csv", lines), ManifestColumns{"image", "", "class", 10});
  LoaderSettings settings = emoji_settings(manifest);
  settings.tokenizer = nullptr;
  settings.fields = {settings.fields.front(),
                     {"labels", DType::kInt32, rows_per_sample(1), 1, FieldSource::kClassLabels}};
  std::int64_t seen = 0;
  for_each_sample(settings, 0, 2, [&](const test::FilledBatch& batch, std::int64_t b, std::int64_t) {
    ++seen;
    ASSERT_EQ(batch.token_ids, nullptr);
    ASSERT_NE(batch.pixels, nullptr);
    ASSERT_EQ(batch.labels[b], batch.rows[b]);
  });
  EXPECT_EQ(seen, 10);
}

// The host engine alone.
class Direct {
 public:
  Direct() {
    media_engine_config config = media_engine_default_config(media_engine_host());
    config.picture_bytes = std::size_t{4} << 20;
    config.memory_bytes = media_engine_memory_needed(&config);
    memory_.resize(config.memory_bytes + 64);
    config.memory = memory_.data() + 64 - reinterpret_cast<std::uintptr_t>(memory_.data()) % 64;
    EXPECT_EQ(media_engine_open(&engine_, &config), MEDIA_ENGINE_OK);
  }
  ~Direct() { media_engine_close(engine_); }
  Direct(const Direct&) = delete;
  Direct& operator=(const Direct&) = delete;

  std::vector<float> pixels(const std::string& file, const LoaderSettings& settings) {
    std::ifstream stream(file, std::ios::binary);
    const std::vector<char> bytes((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
    std::vector<float> pixels(static_cast<std::size_t>(3 * settings.media.image_side * settings.media.image_side));
    media_engine_job job = {};
    job.encoded = static_cast<const std::uint8_t*>(static_cast<const void*>(bytes.data()));
    job.encoded_bytes = bytes.size();
    job.pixels = pixels.data();
    job.side = static_cast<std::uint32_t>(settings.media.image_side);
    const bool is_training = settings.media.preprocessing == Preprocessing::kTraining;
    job.preparation = is_training ? MEDIA_ENGINE_TRAINING : MEDIA_ENGINE_PROCESSOR;
    job.element = MEDIA_ENGINE_FLOAT32;
    std::copy(settings.media.mean, settings.media.mean + 3, job.mean);
    std::copy(settings.media.std, settings.media.std + 3, job.std);
    job.shortest_edge = job.side;
    job.size_divisor = 32;
    job.levels = 255.0;
    media_engine_completion completion = {};
    EXPECT_EQ(media_engine_submit(engine_, &job), MEDIA_ENGINE_OK);
    EXPECT_EQ(media_engine_wait(engine_, &completion, 1'000'000'000), MEDIA_ENGINE_OK);
    EXPECT_EQ(completion.status, MEDIA_ENGINE_OK);
    return pixels;
  }

 private:
  std::vector<char> memory_;
  media_engine* engine_ = nullptr;
};

TEST(Batch, HoldsThePixelsThatTheEngineMakesOfEachRowsPicture) {
  const Manifest manifest = emoji_test();
  Direct direct;
  for (const Preprocessing preprocessing : {Preprocessing::kTraining, Preprocessing::kProcessor}) {
    LoaderSettings settings = emoji_settings(manifest);
    settings.media.preprocessing = preprocessing;
    settings.media.image_side = 64;
    settings.fields = test::loader_fields(test::Task::kPairs, 64);
    const double mean[3] = {0.48145466, 0.4578275, 0.40821073};
    const double std[3] = {0.26862954, 0.26130258, 0.27577711};
    std::copy(mean, mean + 3, settings.media.mean);
    std::copy(std, std + 3, settings.media.std);
    for_each_sample(settings, 0, 2, [&](const test::FilledBatch& batch, std::int64_t b, std::int64_t) {
      const std::string file = manifest.folder() + "/" + std::string(manifest.row(batch.rows[b]).image_path);
      const std::vector<float> expected = direct.pixels(file, settings);
      const float* const got = batch.pixels + b * 3 * 64 * 64;
      ASSERT_EQ(std::vector<float>(got, got + 3 * 64 * 64), expected) << file;
    });
  }
}

}  // namespace
}  // namespace bascule::test_sample
