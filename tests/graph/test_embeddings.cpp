// SPDX-License-Identifier: Apache-2.0
// Checks what reads tables and pictures, and what takes single rows out, against exact derivatives of plain loops in
// float64, at odd widths and batch sizes. Cotangents are random, so that a wrong row or column cannot cancel.
#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "src/graph/operations.h"
#include "tests/graph/gradient_check.h"
#include "tests/graph/some_batches.h"

namespace bascule::test::test_embeddings {
namespace {

// RoBERTa's padding and one type for all rows, then BERT's padding and a type for each row; each table frozen in turn.
TEST(TextEmbedding, GradientsAreExactAndPaddingRowsHaveNone) {
  constexpr std::int32_t kPadding = 1;
  constexpr std::int64_t kWidth = 70;
  for (int variant = 0; variant < 8; ++variant) {
    const int frozen = variant % 4 - 1;
    const bool has_types = variant >= 4;
    const EmbeddingPadding padding{kPadding, has_types ? -1 : kPadding};
    std::vector<TestBatch> batches = some_batches();
    batches[0].positions[3] = kPadding;  // a token that has the padding id gets the padding row's position
    batches[0].ids[3] = kPadding;
    check_gradients(
        kBounds, batches,
        [=](GraphRun& run) {
          const Tensor word = run.parameter("word", kVocabulary, kWidth, frozen != 0),
                       position = run.parameter("position", 20, kWidth, frozen != 1),
                       type = run.parameter("type", 2, kWidth, frozen != 2);
          const EmbeddingRows rows{run.field("token_ids"), run.field("position_ids"),
                                   has_types ? run.field("token_types") : Tensor{}};
          return std::vector<Tensor>{text_embedding(run.graph(), "e", {word, position, type}, rows, padding)};
        },
        [=](const auto& v, const TestBatch& batch) {
          auto e = v.input("cotangent0", batch.text_rows());  // for its shape
          const auto &words = v.matrix("word"), &positions = v.matrix("position"), &types = v.matrix("type");
          for (std::int64_t r = 0; r < e.rows; ++r) {
            const std::size_t i = static_cast<std::size_t>(r);
            const std::int64_t id = batch.ids[i], at = batch.positions[i], type = has_types ? batch.types[i] : 0;
            for (std::int64_t c = 0; c < e.cols; ++c) {
              auto word = words(id, c), position = positions(at, c);
              if (id == padding.word) word.derivative = 0.0;
              if (at == padding.position) position.derivative = 0.0;
              e(r, c) = word + position + types(type, c);
            }
          }
          return v.loss({e});
        });
  }
}

// Two look-ups of one table, as two stacks with shared words make.
TEST(TextEmbedding, OfWordsAloneHasExactGradientsAlsoOfATableThatIsReadTwice) {
  check_gradients(
      kBounds, some_batches(),
      [](GraphRun& run) {
        Graph& g = run.graph();
        const Tensor word = run.parameter("word", kVocabulary, 19);
        return std::vector<Tensor>{text_embedding(g, "e", {word, {}, {}}, {run.field("token_ids"), {}, {}}, {}),
                                   text_embedding(g, "f", {word, {}, {}}, {run.field("token_types"), {}, {}}, {})};
      },
      [](const auto& v, const TestBatch& batch) {
        auto e = v.input("cotangent0", batch.text_rows()), f = e;
        for (std::int64_t r = 0; r < e.rows; ++r) {
          const std::size_t i = static_cast<std::size_t>(r);
          for (std::int64_t c = 0; c < e.cols; ++c) {
            e(r, c) = v.matrix("word")(batch.ids[i], c);
            f(r, c) = v.matrix("word")(batch.types[i], c);
          }
        }
        return v.loss({e, f});
      });
}

// A picture that the patches do not fill, of two channels; behind so many class rows.
void check_image_embedding(std::int64_t class_rows) {
  constexpr std::int64_t kChannels = 2, kHeight = 8, kWidth = 11, kPatch = 3, kPatches = 6, kCols = 5;
  const std::int64_t rows_each = kPatches + class_rows;
  check_gradients(
      kBounds, batches_with_pictures(kChannels * kHeight * kWidth, rows_each),
      [=](GraphRun& run) {
        const Tensor pixels =
            extract_patches(run.graph(), "patches", run.field("pixels"), kChannels, kHeight, kWidth, kPatch);
        const Tensor patch =
            linear(run.graph(), "patch", pixels, run.parameter("w", kCols, kChannels * kPatch * kPatch), Tensor{});
        const Tensor class_row = class_rows > 0 ? run.parameter("class", class_rows, kCols) : Tensor{};
        const Tensor rows =
            image_embedding(run.graph(), "e", patch, class_row, run.parameter("position", rows_each, kCols), kPatches);
        return std::vector<Tensor>{rows};
      },
      [=](const auto& v, const TestBatch& batch) {
        auto e = v.input("cotangent0", rows_each * batch.samples());
        for (std::int64_t r = 0; r < e.rows; ++r) {
          const std::int64_t s = r / rows_each, p = r % rows_each - class_rows;
          for (std::int64_t c = 0; c < kCols; ++c) {
            e(r, c) = v.matrix("position")(r % rows_each, c);
            if (p < 0) e(r, c) += v.matrix("class")(r % rows_each, c);
            for (std::int64_t i = 0; p >= 0 && i < kChannels * kPatch * kPatch; ++i) {
              const std::int64_t channel = i / (kPatch * kPatch), y = p / 3 * kPatch + i / kPatch % kPatch,
                                 x = p % 3 * kPatch + i % kPatch;
              const float pixel =
                  batch.pixels[static_cast<std::size_t>(((s * kChannels + channel) * kHeight + y) * kWidth + x)];
              e(r, c) += v.matrix("w")(c, i) * Dual(static_cast<double>(pixel));
            }
          }
        }
        return v.loss({e});
      });
}

TEST(ImageEmbedding, PatchesClassRowsAndPositionsAreExact) {
  for (const std::int64_t class_rows : {0, 1, 2}) check_image_embedding(class_rows);
}

// function(text, row, rows of the text) for each row of each text.
template <typename Function>
void for_each_text_row(const TestBatch& batch, Function function) {
  for (std::int64_t text = 0; text + 1 < static_cast<std::int64_t>(batch.offsets.size()); ++text) {
    const std::int32_t first = batch.offsets[static_cast<std::size_t>(text)],
                       last = batch.offsets[static_cast<std::size_t>(text) + 1];
    for (std::int32_t row = first; row < last; ++row) function(text, row, last - first);
  }
}

// A pooling of texts, recorded twice, whose second gradient is added to the first one's. Samples are so many texts.
template <typename Build, typename Pool>
void check_gradients_of_texts(std::int64_t texts, Build build, Pool pool) {
  Fields fields = batch_fields();
  fields[static_cast<std::size_t>(field_named(fields, "text_offsets"))].rows = {kSamples, texts, 1};
  GraphRun run(counts_of(6 / texts, 60, 20), 2, fields);
  const std::vector<Tensor> outputs = build(run, run.source("x", text_rows(), 5));
  for (const Tensor output : outputs) EXPECT_TRUE(run.graph()[output].rows == rows_per_sample(texts));
  run.finish(outputs);
  Seeded random(8);
  const TestBatch packed(random, {3, 1, 17, 4, 2, 16}, kVocabulary);
  Batch batch = packed.batch(fields);
  batch.counts[kSamples] = 6 / texts;
  run.replay(batch);
  expect_gradients(
      run, {packed},
      [&](const auto& v, const TestBatch& of) {
        auto pooled = v.input("cotangent0", 6);  // for its shape
        for (auto& value : pooled.values) value = Dual(0.0);
        pool(v.source("x", of.text_rows()), of, &pooled);
        return v.loss({pooled, pooled});
      },
      std::to_string(texts) + " texts a sample");
}

// Fewer rows than a block of the sum, as many, and more; its gradient added to another's.
TEST(MeanRows, AreExact) {
  for (const std::int64_t rows : {1, 15, 16, 37}) {
    check_gradients(
        kBounds, some_batches(),
        [=](GraphRun& run) {
          const Tensor x = run.source("x", rows_per_sample(rows), 5);
          const SampleRows of{rows_per_sample(rows), {}, {}};
          return std::vector<Tensor>{mean_rows(run.graph(), "mean", x, of), mean_rows(run.graph(), "again", x, of)};
        },
        [=](const auto& v, const TestBatch& batch) {
          const auto x = v.source("x", rows * batch.samples());
          auto mean = v.input("cotangent0", batch.samples());  // for its shape
          for (std::int64_t s = 0; s < mean.rows; ++s) {
            for (std::int64_t c = 0; c < mean.cols; ++c) {
              mean(s, c) = Dual(0.0);
              for (std::int64_t r = 0; r < rows; ++r)
                mean(s, c) += x(s * rows + r, c) / Dual(static_cast<double>(rows));
            }
          }
          return v.loss({mean, mean});
        });
  }
}

// Two texts a sample, of which each has a row of its own.
TEST(MeanRows, OfTextsOfDifferentLengthAreExact) {
  for (const std::int64_t texts : {1, 2}) {
    check_gradients_of_texts(
        texts,
        [](GraphRun& run, Tensor x) {
          return std::vector<Tensor>{mean_rows(run.graph(), "mean", x, run.text()),
                                     mean_rows(run.graph(), "again", x, run.text())};
        },
        [](const auto& x, const TestBatch& batch, auto* mean) {
          for_each_text_row(batch, [&](std::int64_t text, std::int64_t row, std::int64_t count) {
            for (std::int64_t c = 0; c < x.cols; ++c) (*mean)(text, c) += x(row, c) / Dual(static_cast<double>(count));
          });
        });
  }
}

TEST(MaxRows, AndTheirGradientsAreExact) {
  for (const std::int64_t texts : {1, 2}) {
    check_gradients_of_texts(
        texts,
        [](GraphRun& run, Tensor x) {
          return std::vector<Tensor>{max_rows(run.graph(), "max", x, run.text()),
                                     max_rows(run.graph(), "again", x, run.text())};
        },
        [](const auto& x, const TestBatch& batch, auto* largest) {
          for (auto& value : largest->values) value = Dual(-1e9);
          for_each_text_row(batch, [&](std::int64_t text, std::int64_t row, std::int64_t) {
            for (std::int64_t c = 0; c < x.cols; ++c) (*largest)(text, c) = max((*largest)(text, c), x(row, c));
          });
        });
  }
}

TEST(ResizePositions, LargerSmallerAndOddGridsAreExact) {
  const std::int64_t sizes[][3] = {{3, 5, 2}, {1, 4, 3}, {4, 2, 7}, {2, 1, 1}, {5, 5, 5}};
  for (const auto& size : sizes) {
    for (const std::int64_t class_rows : {2, 1, 0}) {
      const std::int64_t side = size[0], height = size[1], width = size[2];
      check_gradients(
          kBounds, some_batches(),
          [=](GraphRun& run) {
            const Tensor table = run.parameter("table", side * side + class_rows, 3);
            return std::vector<Tensor>{resize_positions(run.graph(), "p", table, side, height, width, class_rows)};
          },
          [=](const auto& v, const TestBatch&) {
            return v.loss({resized_of(v.matrix("table"), side, height, width, class_rows)});
          });
    }
  }
}

TEST(GatherRows, FirstNumberedAndSelectedRowsGetTheirGradientsAndOthersNone) {
  check_gradients(
      kBounds, some_batches(),
      [](GraphRun& run) {
        const Tensor text = run.source("text", text_rows(), 5), image = run.source("image", rows_per_sample(4), 5);
        return std::vector<Tensor>{first_rows(run.graph(), "a", text, run.text()),
                                   first_rows(run.graph(), "b", image, run.pictures(4)),
                                   gather_rows(run.graph(), "c", text, run.field("selected_rows")),
                                   numbered_rows(run.graph(), "d", image, run.pictures(4), 1)};
      },
      [](const auto& v, const TestBatch& batch) {
        const auto text = v.source("text", batch.text_rows()), image = v.source("image", 4 * batch.samples());
        auto a = v.input("cotangent0", batch.samples()), b = a, d = a;
        auto c = v.input("cotangent2", static_cast<std::int64_t>(batch.selected.size()));
        for (std::int64_t col = 0; col < 5; ++col) {
          for (std::int64_t s = 0; s < batch.samples(); ++s) {
            a(s, col) = text(batch.offsets[static_cast<std::size_t>(s)], col);
            b(s, col) = image(4 * s, col);
            d(s, col) = image(4 * s + 1, col);
          }
          for (std::int64_t m = 0; m < c.rows; ++m) c(m, col) = text(batch.selected[static_cast<std::size_t>(m)], col);
        }
        return v.loss({a, b, c, d});
      });
}

}  // namespace
}  // namespace bascule::test::test_embeddings
