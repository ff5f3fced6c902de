// SPDX-License-Identifier: Apache-2.0
// A family with two texts a sample, a cache and two parts at once (tests/families/translator.h), from its folder to
// training, evaluation and decoding.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "src/index/open_manifest.h"
#include "src/loader/masking.h"
#include "tests/graph/gradient_check.h"
#include "tests/loader/loader_run.h"
#include "tests/session/translator_run.h"
#include "tests/support/error_bound.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test::test_translator {
namespace {

constexpr double kPredicted = 0.5;  // of a target's tokens

class TranslatorFamily : public ::testing::Test {
 protected:
  void SetUp() override {
    write_translator(folder());
    TranslatorRun fresh(folder(), most_of(1));
    fresh.initialise(5);
    fresh.save(folder());
    std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
    for (char letter = 'a'; letter < 'a' + 15; ++letter) vocabulary += std::string(1, letter) + "\n";
    std::filesystem::create_directory(folder() + "/tokenizer");
    folder_.write("tokenizer/vocab.txt", vocabulary);
    tokenizer_ = load_tokenizer(folder() + "/tokenizer");
  }
  const std::string& folder() const { return folder_.path(); }

  // Sources of 2 to 7 of the first nine letters; a target has a letter for each but the last, of the other six.
  std::string write_rows(int rows, int shift = 0) const {
    std::string lines = "source,target\n";
    for (int row = 0; row < rows; ++row) {
      std::string source, target;
      const int words = 2 + row % 6;
      for (int w = 0; w < words; ++w) {
        const int letter = (5 * row + 2 * w * w + shift) % 9;
        source += std::string(w > 0, ' ') + static_cast<char>('a' + letter);
        if (w + 1 < words && w < kTargetLength - 2)
          target += std::string(w > 0, ' ') + static_cast<char>('j' + (5 * row + 2 * w * w) % 9 % 6);
      }
      lines += source + "," + target + "\n";
    }
    return folder_.write("rows" + std::to_string(shift) + ".csv", lines);
  }
  static Manifest open_rows(const std::string& path) {
    return Manifest::load(path, ManifestColumns{"", "source", "", 2, "target"});
  }
  LoaderSettings settings(const Manifest& manifest, bool trains) const {
    const std::vector<Part> parts = open_translator(folder());
    const ModelInputs inputs = translator_inputs(parts);
    LoaderSettings settings;
    settings.tokenizer = tokenizer_.get();
    settings.fields = translator_fields(parts, Use::kTrain);
    std::copy(std::begin(inputs.texts), std::end(inputs.texts), settings.texts);
    settings.texts[kSource].max_length = kSourceLength;
    settings.texts[kTarget].max_length = settings.texts[kTarget].max_positions;
    settings.text_columns[kSource] = "source";
    settings.text_columns[kTarget] = "target";
    settings.masking.probability = kPredicted;
    StreamSettings stream;
    stream.manifest = &manifest;
    stream.shuffled = trains;
    stream.batch_per_rank = 6;
    settings.streams = {stream};
    return settings;
  }
  // The loss of every batch of an evaluation.
  std::vector<float> evaluate(TranslatorRun& run, const Manifest& manifest) const {
    LoaderRun loader(settings(manifest, false));
    std::vector<float> losses;
    for_each_batch(loader, loader.stream().batches_per_epoch(), [&](const Batch& batch) {
      run.replay(kEvaluation, batch);
      losses.push_back(run.loss(kEvaluation));
    });
    return losses;
  }
  template <typename Use>
  static void for_each_batch(LoaderRun& loader, std::int64_t count, Use use) {
    loader.stream().start(0, count);
    const Batch* batch = nullptr;
    Status status;
    while ((status = loader.stream().next(&batch)).ok()) {
      use(*batch);
      loader.stream().release();
    }
    EXPECT_EQ(status.code, StatusCode::kEndOfEpoch);
  }

  TemporaryFolder folder_;
  std::unique_ptr<const Tokenizer> tokenizer_;
};

float mean(const std::vector<float>& values) {
  float sum = 0.0f;
  for (const float value : values) sum += value;
  return sum / static_cast<float>(values.size());
}

TEST_F(TranslatorFamily, LearnsFromBothTextsThroughTheLoader) {
  const Manifest manifest = open_rows(write_rows(24));
  TranslatorRun run(folder(), most_of(6));
  run.load();
  const std::vector<float> at_first = evaluate(run, manifest), values = run.values();
  LoaderRun loader(settings(manifest, true));
  std::int64_t updates = 0;
  for_each_batch(loader, 120, [&](const Batch& batch) {
    run.replay(kTraining, batch);
    UpdateSettings update;
    update.learning_rate = 1e-2;
    update.step = ++updates;
    EXPECT_TRUE(std::isfinite(run.session.training().update().run(run.threads, update)));
  });
  EXPECT_EQ(updates, 120);
  const std::vector<float> at_last = evaluate(run, manifest);
  EXPECT_LT(mean(at_last), 0.5f * mean(at_first));
  // The source has its part in that: with sources of other rows the same targets are predicted worse.
  EXPECT_GT(mean(evaluate(run, open_rows(write_rows(24, 4)))), 1.2f * mean(at_last));
}

// Losses are those of batches made by hand from the rows, to the bit.
TEST_F(TranslatorFamily, EvaluatesBothTextsOfAManifest) {
  const Manifest manifest = open_rows(write_rows(14));
  TranslatorRun run(folder(), most_of(6));
  run.load();
  MaskingSettings masking;
  masking.seed = 42;
  masking.text = kTarget;
  masking.probability = kPredicted;
  masking.mask_id = tokenizer_->mask_id();
  masking.vocabulary_size = tokenizer_->vocabulary_size();
  masking.special_ids = tokenizer_->special_ids();
  std::vector<float> expected;
  for (std::int64_t first = 0; first < manifest.rows(); first += 6) {
    std::vector<Sample> samples;
    for (std::int64_t row = first; row < std::min(manifest.rows(), first + 6); ++row) {
      const ManifestRow texts = manifest.row(row);
      const std::vector<std::int32_t> source = tokenizer_->encode(texts.text, kSourceLength);
      std::vector<std::int32_t> target = tokenizer_->encode(*texts.second_text, kTargetLength), labels(target.size());
      EXPECT_LT(target.size(), source.size());
      mask_tokens(target, labels, masking, 0, row);
      samples.push_back(
          {{source.begin(), source.end()}, {target.begin(), target.end()}, {labels.begin(), labels.end()}});
    }
    run.replay(kEvaluation, samples);
    expected.push_back(run.loss(kEvaluation));
  }
  EXPECT_EQ(expected.size(), 3u);
  EXPECT_EQ(evaluate(run, manifest), expected);
}

// The layers of the translator in plain loops.
template <typename Number>
Number loss_of(const Values<Number>& values, const std::vector<Sample>& samples) {
  const auto get = [&](const std::string& name) { return values.matrix(name); };
  const auto dense = [&](const Matrix<Number>& x, const std::string& name) {
    return linear_of(x, get(name + ".weight"), get(name + ".bias"));
  };
  const auto add_norm = [&](Matrix<Number> x, const Matrix<Number>& h, const std::string& name) {
    for (std::size_t i = 0; i < x.values.size(); ++i) x.values[i] += h.values[i];
    return layer_norm_of(x, get(name + ".weight"), get(name + ".bias"), 1e-5);
  };
  const auto embed = [&](const Ids& ids, const std::string& part) {
    Matrix<Number> rows(static_cast<std::int64_t>(ids.size()), kWidth);
    for (std::int64_t t = 0; t < rows.rows; ++t) {
      for (std::int64_t c = 0; c < kWidth; ++c)
        rows(t, c) = get(part + "/word")(ids[static_cast<std::size_t>(t)], c) + get(part + "/position")(t, c) +
                     get(part + "/type")(0, c);
    }
    return rows;
  };
  const auto columns = [](const Matrix<Number>& x, std::int64_t place) {
    return block_of(x, 0, x.rows, place * kWidth, kWidth);
  };
  const auto attend = [&](const Matrix<Number>& x, const std::string& part, const std::string& name) {
    const Matrix<Number> all = dense(x, part + "/qkv");
    return add_norm(x, one_head_of(columns(all, 0), columns(all, 1), columns(all, 2)), part + "/" + name);
  };
  Matrix<Number> logits(0, kTargetWords);
  std::vector<std::int32_t> labels;
  for (const Sample& sample : samples) {
    const Matrix<Number> source =
        dense(attend(embed(sample.source, "encoder"), "encoder", "encoded"), "decoder/source_kv");
    const Matrix<Number> target = embed(sample.target, "decoder");
    const Matrix<Number> read =
        one_head_of(dense(target, "decoder/source_query"), columns(source, 0), columns(source, 1));
    const Matrix<Number> words =
        dense(attend(add_norm(target, read, "decoder/written"), "decoder", "decoded"), "decoder/words");
    logits.rows += words.rows;
    logits.values.insert(logits.values.end(), words.values.begin(), words.values.end());
    for (const std::int64_t label : sample.labels) labels.push_back(static_cast<std::int32_t>(label));
  }
  return cross_entropy_of(logits, labels);
}

TEST_F(TranslatorFamily, HasExactGradientsInBothParts) {
  const std::vector<Part> parts = open_translator(folder());
  const Fields fields = translator_fields(parts, Use::kTrain);
  const std::vector<Sample> samples = {{{2, 7, 9, 13, 7, 3}, {2, 4, 15, 3}, {-100, 11, 15, -100}},
                                       {{2, 5, 3}, {2, 19, 4, 4, 17, 3}, {-100, -100, 14, 16, -100, -100}}};
  const PackedBatch batch = packed(samples, parts);
  GraphRun run(most_of(2), 2, fields);
  const Recording recording = record_translator(run.graph(), parts, Use::kTrain);
  run.finish({});
  run.replay(batch.batch(fields));
  const double loss = loss_of(Values<Dual>(run), samples).value;
  EXPECT_NEAR(static_cast<double>(*run.at(recording.losses[0].loss)), loss, kGradientTolerance * (1.0 + loss));
  const auto reference = [&](const auto& values, const TestBatch&) { return loss_of(values, samples); };
  Seeded random(1);
  expect_gradients(run, {TestBatch(random, {1}, 2)}, reference, "both samples");
  EXPECT_EQ(run.parameters().size(), 22);
}

// After each step as in one pass over the tokens so far; the second text is shorter, so the caches hold rows of the
// first behind it. Other graphs use the workspace in between.
TEST_F(TranslatorFamily, DecodesStepByStepTheBitsOfOnePass) {
  TranslatorRun run(folder(), most_of(2));
  run.load();
  const std::vector<Sample> others = {{{2, 6, 3}, {2, 4, 3}, {-100, 15, -100}}};
  for (const Sample& sample : {Sample{{2, 7, 9, 13, 7, 5, 11, 6, 3}, {2, 4, 15, 17, 19, 14, 3}, {}},
                               Sample{{2, 8, 10, 3}, {2, 18, 4, 3}, {}}}) {
    Steps steps(run, sample.source);
    for (std::size_t tokens = 1; tokens <= sample.target.size(); ++tokens) {
      const std::vector<float> by_steps = steps.take(sample.target[tokens - 1]);
      const Ids so_far(sample.target.begin(), sample.target.begin() + static_cast<std::ptrdiff_t>(tokens));
      run.replay(kOnePass, {{sample.source, so_far, {5}}});
      EXPECT_EQ(first_different_bit(by_steps, run.logits(kOnePass, tokens)), -1) << tokens << " tokens";
      run.replay(kTraining, others);
    }
  }
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  const TensorSource source = open_hf_weights(folder);
  for (const StoredTensor& tensor : source.tensors()) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  return names;
}

TEST_F(TranslatorFamily, HasItsPartsInFoldersOfTheirOwnAndSavesNoCache) {
  TranslatorRun run(folder(), most_of(1));
  run.load();
  Steps(run, {2, 7, 9, 3}).take(2);  // the caches are not zero
  const std::string again = folder() + "/again";
  run.save(again);
  std::filesystem::copy_file(folder() + "/model_index.json", again + "/model_index.json");
  EXPECT_EQ(names_in(again + "/encoder"), (std::vector<std::string>{"encoded.bias", "encoded.weight", "position",
                                                                    "qkv.bias", "qkv.weight", "type", "word"}));
  EXPECT_EQ(names_in(again + "/decoder"),
            (std::vector<std::string>{"decoded.bias", "decoded.weight", "position", "qkv.bias", "qkv.weight",
                                      "source_kv.bias", "source_kv.weight", "source_query.bias", "source_query.weight",
                                      "type", "word", "words.bias", "words.weight", "written.bias", "written.weight"}));
  for (const char* const file : {"encoder/model.safetensors", "decoder/model.safetensors"})
    EXPECT_EQ(read_file(again + "/" + file), read_file(folder() + "/" + file));
  TranslatorRun loaded(again, most_of(1));
  loaded.load();
  EXPECT_EQ(first_different_bit(loaded.values(), run.values()), -1);
  for (int i = 0; i < run.session.parameters().size(); ++i) {
    const std::string& name = run.session.parameters()[i].name;
    EXPECT_TRUE(name.rfind("encoder/", 0) == 0 || name.rfind("decoder/", 0) == 0) << name;
  }
}

TEST_F(TranslatorFamily, HasItsCachesInThePlanApartFromTheWorkspace) {
  const auto plan_of = [](const std::string& folder) {
    TranslatorRun run(folder, most_of(2));
    EXPECT_EQ(run.session.states().size(), 2);  // both graphs below name one of them
    for (const std::size_t number : {kEncoding, kStep}) {
      const Tensor cache = run.session.graph(number).find("decoder/source");
      EXPECT_EQ(run.session.workspace(number).buffer_of[static_cast<std::size_t>(cache.index)], -1);
    }
    return make_memory_plan(run.session.plan(2), 0);
  };
  const MemoryPlan plan = plan_of(folder());
  const auto rows_of = [](std::size_t rows, std::size_t cols) { return (rows + 15) / 16 * 16 * cols * sizeof(float); };
  const std::size_t written = rows_of(kTargetLength, kWidth);
  EXPECT_EQ(plan["state"].bytes, rows_of(kSourceLength, 2 * kWidth) + written);
  EXPECT_LE(plan["state"].offset + plan["state"].bytes, plan["workspace"].offset);
  // Nothing but the cache grows with its rows.
  write_translator(folder() + "/larger", 1000);
  const MemoryPlan larger = plan_of(folder() + "/larger");
  ASSERT_EQ(larger.categories.size(), plan.categories.size());
  for (const PlannedRange& range : plan.categories) {
    const std::size_t expected = range.name == "state" ? rows_of(1000, 2 * kWidth) + written : range.bytes;
    EXPECT_EQ(larger[range.name].bytes, expected) << range.name;
  }
}

}  // namespace
}  // namespace bascule::test::test_translator
