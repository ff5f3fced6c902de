// SPDX-License-Identifier: Apache-2.0
// A padded batch is packed into the fields that a loader gives of the same samples.
#include "src/session/packed_batch.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "src/loader/masking.h"
#include "tests/loader/loader_run.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test_packed_batch {
namespace {

using test::Reads;

constexpr std::int64_t kLength[2] = {10, 7};

LoaderSettings two_texts(const Manifest& manifest, Reads source, Reads target) {
  LoaderSettings settings = test::emoji_settings(manifest);
  settings.fields = test::text_fields(0, source);
  for (const Field& field : test::text_fields(1, target)) settings.fields.push_back(field);
  settings.fields.push_back({"sample_keys", DType::kInt64, rows_per_sample(1), 1, FieldSource::kSampleKeys});
  settings.texts[0].max_length = kLength[0];
  settings.texts[1] = {3000, kLength[1], 40, {5, 1}, 1};
  settings.streams[0].batch_per_rank = 4;
  return settings;
}

// The samples of a loader's batch, padded as the reference takes them.
PaddedBatch padded(const Batch& batch, const LoaderSettings& settings, std::int64_t samples_of_epoch) {
  const Manifest& manifest = *settings.streams[0].manifest;
  PaddedBatch padded;
  padded.samples = batch.counts.samples();
  padded.first_sample = batch.epoch * samples_of_epoch + batch.first_position;
  for (std::size_t number = 0; number < 2; ++number) {
    PaddedText& text = padded.texts[number];
    text.length = kLength[number];
    const bool masks = field_from(settings.fields, FieldSource::kMaskedRows, static_cast<int>(number)) >= 0;
    MaskingSettings masking;
    masking.seed = settings.seed;
    masking.text = static_cast<std::uint32_t>(number);
    masking.mask_id = settings.tokenizer->mask_id();
    masking.vocabulary_size = settings.tokenizer->vocabulary_size();
    masking.special_ids = settings.tokenizer->special_ids();
    for (std::int64_t b = 0; b < padded.samples; ++b) {
      const ManifestRow row = manifest.row(batch.rows[b]);
      std::vector<std::int32_t> ids =
          settings.tokenizer->encode(number == 0 ? row.text : *row.second_text, text.length);
      std::vector<std::int32_t> labels(ids.size());
      if (masks) mask_tokens(ids, labels, masking, batch.epoch, batch.rows[b]);
      for (std::size_t t = 0; t < static_cast<std::size_t>(text.length); ++t) {
        text.input_ids.push_back(t < ids.size() ? ids[t] : 1);
        text.attention_mask.push_back(t < ids.size() ? 1 : 0);
        if (masks) text.token_labels.push_back(t < ids.size() ? labels[t] : -100);
      }
    }
  }
  return padded;
}

TEST(PackedBatch, EqualsTheLoadersBatchOfTwoTexts) {
  test::TemporaryFolder folder;
  std::string lines = "a,b\n";
  for (int row = 0; row < 11; ++row)
    lines += std::string("word ") + std::string(static_cast<std::size_t>(row), 'x') + ",some cats " +
             std::to_string(row * row * row) + "\n";
  const Manifest manifest = Manifest::load(folder.write("pairs.csv", lines), ManifestColumns{"", "a", "", 2, "b"});
  for (const Reads source : {Reads::kAttended, Reads::kPredicted}) {
    const Reads target = source == Reads::kAttended ? Reads::kPredicted : Reads::kAttended;
    const LoaderSettings settings = two_texts(manifest, source, target);
    ModelInputs inputs;
    for (int text = 0; text < 2; ++text) inputs.texts[text] = settings.texts[text];
    test::LoaderRun run(settings);
    run.stream().start(0, 2 * run.stream().batches_per_epoch());
    const Batch* batch = nullptr;
    int batches = 0;
    while (run.stream().next(&batch).ok()) {
      const PackedBatch packed(padded(*batch, settings, run.stream().samples_per_epoch()), inputs, false, "here");
      const Batch ours = packed.batch(settings.fields);
      for (int stream = 0; stream < kMaxStreams; ++stream)
        ASSERT_EQ(ours.counts[stream], batch->counts[stream]) << stream;
      for (std::size_t i = 0; i < settings.fields.size(); ++i) {
        const Field& field = settings.fields[i];
        const auto bytes = static_cast<std::size_t>(field.elements(batch->counts)) * element_bytes(field.dtype);
        ASSERT_EQ(std::memcmp(ours.fields[i], batch->fields[i], bytes), 0) << field.name;
      }
      ++batches;
      run.stream().release();
    }
    EXPECT_EQ(batches, 6);
  }
}

TEST(PackedBatch, ChecksEachTextByItsOwnShape) {
  ModelInputs inputs;
  inputs.texts[0] = {10, 0, 8, {}, 1};
  inputs.texts[1] = {20, 0, 2, {}, 1};
  PaddedBatch batch;
  batch.samples = 1;
  batch.texts[0] = {3, {1, 2, 9}, {1, 1, 1}, {}, {}};
  batch.texts[1] = {2, {19, 3}, {1, 1}, {}, {}};
  EXPECT_EQ(PackedBatch(batch, inputs, false, "here").samples(), 1);
  const auto refusal = [&] { return test::error_of([&] { PackedBatch(batch, inputs, false, "here"); }); };
  batch.texts[1] = {2, {20, 3}, {1, 1}, {}, {}};
  EXPECT_EQ(refusal(), "here: sample 0: token id 20 is outside the vocabulary of 20");
  batch.texts[1] = {3, {19, 3, 4}, {1, 1, 1}, {}, {}};
  EXPECT_EQ(refusal(), "here: sample 0: more tokens than max_position_embeddings = 2 allows");
  inputs.texts[1].max_positions = 0;
  EXPECT_EQ(refusal(), "no error") << "without a table of positions a text is of any length";
  batch.texts[1].attention_mask = {0, 0, 0};
  EXPECT_EQ(refusal(), "here: sample 0: every token is masked");
  batch.texts[1].attention_mask = {1, 0, 1};
  EXPECT_EQ(refusal(), "here: sample 0: the attention mask has a hole before token 2");
}

}  // namespace
}  // namespace bascule::test_packed_batch
