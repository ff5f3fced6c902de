// SPDX-License-Identifier: Apache-2.0
// Attention on packed text and on pictures against exact derivatives of plain loops in float64, at odd widths and
// batch sizes. Cotangents are random, so that a wrong row or column cannot cancel.
#include <gtest/gtest.h>

#include <memory>
#include <type_traits>
#include <vector>

#include "kernels/attention.h"
#include "src/graph/operations.h"
#include "tests/graph/gradient_check.h"
#include "tests/graph/some_batches.h"

namespace bascule::test::test_attention {
namespace {

// Whose rows a stream has: packed text, or so many rows a sample.
struct Stream {
  bool text = false;
  std::int64_t per_sample = 0;
  SampleRows rows(GraphRun& run) const { return text ? run.text() : run.pictures(per_sample); }
  Extent extent() const { return text ? text_rows() : rows_per_sample(per_sample); }
};

// Rows of a sample in a text, image or first-row stream.
struct Rows {
  std::int64_t first, count;
};

Rows rows_of(const Stream& rows, const TestBatch& batch, std::int64_t s) {
  if (!rows.text) return {s * rows.per_sample, rows.per_sample};
  const std::size_t at = static_cast<std::size_t>(s);
  return {batch.offsets[at], batch.offsets[at + 1] - batch.offsets[at]};
}

// One tensor's column slices and the rows that belong to each sample.
template <typename Number>
struct Slice {
  const Matrix<Number>& x;
  Stream rows;
  std::int64_t col;
};

template <typename Number>
Matrix<Number> attention_of(const Slice<Number>& q, const Slice<Number>& k, const Slice<Number>& v, std::int64_t heads,
                            std::int64_t size, const TestBatch& batch) {
  Matrix<Number> out(q.x.rows, heads * size);
  for (std::int64_t s = 0; s < batch.samples(); ++s) {
    const Rows own = rows_of(q.rows, batch, s), other = rows_of(k.rows, batch, s);
    for (std::int64_t h = 0; h < heads; ++h) {
      const auto part = [&](const Slice<Number>& o, const Rows& r) {
        return block_of(o.x, r.first, r.count, o.col + h * size, size);
      };
      const Matrix<Number> head = one_head_of(part(q, own), part(k, other), part(v, other));
      for (std::int64_t r = 0; r < own.count; ++r) {
        for (std::int64_t c = 0; c < size; ++c) out(own.first + r, h * size + c) = head(r, c);
      }
    }
  }
  return out;
}

TEST(Attention, SelfAttentionOnPackedTextIsExact) {
  const Stream text{true, 0};
  for (const std::int64_t size : {1, 5, 17}) {
    const std::int64_t heads = 3, width = heads * size;
    check_gradients(
        kBounds, some_batches(),
        [=](GraphRun& run) {
          const Tensor all = run.source("x", text_rows(), 3 * width);
          return std::vector<Tensor>{attention(run.graph(), "a", {all, 0}, text.rows(run), {all, width},
                                               {all, 2 * width}, text.rows(run), heads, size, {}, {})};
        },
        [=](const auto& v, const TestBatch& batch) {
          const auto all = v.source("x", batch.text_rows());
          return v.loss({attention_of<std::decay_t<decltype(all.values[0])>>(
              {all, text, 0}, {all, text, width}, {all, text, 2 * width}, heads, size, batch)});
        });
  }
}

TEST(Attention, TextThatLooksAtPicturesAndBackIsExact) {
  const std::int64_t heads = 2, size = 4, width = heads * size;
  for (const Stream query : {Stream{true, 0}, Stream{false, 3}, Stream{false, 1}}) {
    const Stream key = query.text ? Stream{false, 3} : Stream{true, 0};
    check_gradients(
        kBounds, some_batches(),
        [=](GraphRun& run) {
          const Tensor q = run.source("q", query.extent(), width), kv = run.source("kv", key.extent(), 2 * width);
          return std::vector<Tensor>{attention(run.graph(), "a", {q, 0}, query.rows(run), {kv, 0}, {kv, width},
                                               key.rows(run), heads, size, {}, {})};
        },
        [=](const auto& v, const TestBatch& batch) {
          const auto count = [&](const Stream& rows) {
            return rows.text ? batch.text_rows() : rows.per_sample * batch.samples();
          };
          const auto q = v.source("q", count(query)), kv = v.source("kv", count(key));
          return v.loss({attention_of<std::decay_t<decltype(q.values[0])>>({q, query, 0}, {kv, key, 0},
                                                                           {kv, key, width}, heads, size, batch)});
        });
  }
}

TEST(Attention, FrozenQueriesOrKeysLeaveTheOthersExact) {
  const Stream text{true, 0}, image{false, 3};
  for (const bool query_trained : {false, true}) {
    check_gradients(
        kBounds, some_batches(),
        [=](GraphRun& run) {
          const Tensor q = query_trained ? run.source("q", text_rows(), 6) : run.input("q", text_rows(), 6);
          const Tensor kv = query_trained ? run.input("kv", image.extent(), 12) : run.source("kv", image.extent(), 12);
          return std::vector<Tensor>{
              attention(run.graph(), "a", {q, 0}, text.rows(run), {kv, 0}, {kv, 6}, image.rows(run), 2, 3, {}, {})};
        },
        [=](const auto& v, const TestBatch& batch) {
          const auto q = query_trained ? v.source("q", batch.text_rows()) : v.input("q", batch.text_rows());
          const auto kv = query_trained ? v.input("kv", 3 * batch.samples()) : v.source("kv", 3 * batch.samples());
          return v.loss({attention_of<std::decay_t<decltype(q.values[0])>>({q, text, 0}, {kv, image, 0}, {kv, image, 6},
                                                                           2, 3, batch)});
        });
  }
}

// A batch of fewer samples than the bounds may hold one caption that is as long as all rows.
TEST(Attention, OneCaptionMayTakeAllRows) {
  Seeded random(3);
  const Stream text{true, 0};
  check_gradients(
      kBounds, {TestBatch(random, {40}, kVocabulary)},
      [=](GraphRun& run) {
        const Tensor all = run.source("x", text_rows(), 12);
        return std::vector<Tensor>{
            attention(run.graph(), "a", {all, 0}, text.rows(run), {all, 4}, {all, 8}, text.rows(run), 2, 2, {}, {})};
      },
      [=](const auto& v, const TestBatch& batch) {
        const auto all = v.source("x", batch.text_rows());
        return v.loss({attention_of<std::decay_t<decltype(all.values[0])>>({all, text, 0}, {all, text, 4},
                                                                           {all, text, 8}, 2, 2, batch)});
      });
}

// Captions of fewer and more rows than a task has.
TestBatch long_captions() {
  Seeded random(3);
  return TestBatch(random, {1, kAttentionQueryGroup, kAttentionQueryGroup + 1, 2 * kAttentionQueryGroup + 40, 30},
                   kVocabulary);
}
constexpr BatchCounts kLongBounds = counts_of(6, 4 * kAttentionQueryGroup + 200, 20);

// One head's tasks are shorter than those of several.
class AttentionTasks : public testing::TestWithParam<std::int64_t> {};
INSTANTIATE_TEST_SUITE_P(Heads, AttentionTasks, testing::Values(1, 2));

TEST_P(AttentionTasks, HaveTheBitsOfOneCallOfTheKernel) {
  const std::int64_t heads = GetParam(), size = 5, width = heads * size;
  const KernelTable& kernels = kernels_for(best_isa());
  for (const bool causal : {false, true}) {
    GraphRun run(kLongBounds);
    const Tensor all = run.input("x", text_rows(), 3 * width);
    const Tensor out = attention(run.graph(), "a", {all, 0}, run.text(), {all, width}, {all, 2 * width}, run.text(),
                                 heads, size, {}, {}, {0.4f, causal, {}});
    run.graph().keep(out);
    run.seal(kernels);
    const TestBatch batch = long_captions();
    run.replay(batch.batch());
    const std::vector<float> x = run.values("x");
    std::vector<float> scratch(
        static_cast<std::size_t>(attention_forward_scratch_floats(batch.text_rows(), size) + 16));
    void* aligned = scratch.data();
    std::size_t space = scratch.size() * sizeof(float);
    std::vector<float> whole(static_cast<std::size_t>(batch.text_rows() * width)), logsumexp(whole.size());
    for (std::int64_t s = 0; s < batch.samples(); ++s) {
      const Rows rows = rows_of({true, 0}, batch, s);
      for (std::int64_t head = 0; head < heads; ++head) {
        AttentionForward a{};
        a.out = whole.data() + rows.first * width + head * size;
        a.logsumexp = logsumexp.data();
        a.query = x.data() + rows.first * 3 * width + head * size;
        a.key = a.query + width;
        a.value = a.query + 2 * width;
        a.out_stride = width;
        a.query_stride = a.key_stride = a.value_stride = 3 * width;
        a.query_rows = a.key_rows = rows.count;
        a.head_size = size;
        a.scale = 0.4f;
        a.causal = causal;
        a.scratch = static_cast<float*>(std::align(64, sizeof(float), aligned, space));
        kernels.attention_forward(a);
      }
    }
    EXPECT_EQ(first_different_bit(run.rows_of(out, batch.text_rows()), whole), -1) << causal;
  }
}

// Dropout depends on a row's place in its sample, or on its key. Gradients read what forward has kept of each row.
TEST(Attention, RowsCutIntoTasksDropWhatTheirKeysSay) {
  const std::int64_t heads = 2, size = 3, width = heads * size;
  const auto record = [&](GraphRun& run, bool picked) {
    const Tensor all = run.source("x", text_rows(), 3 * width);
    SampleRows rows = run.text();
    rows.are_picked = picked;
    const Tensor out = attention(run.graph(), "a", {all, 0}, rows, {all, width}, {all, 2 * width}, run.text(), heads,
                                 size, {0.3f, 4}, run.field("sample_keys"));
    run.graph().keep(out);
    run.finish({out});
    const TestBatch batch = long_captions();
    run.replay(batch.batch(), 1.0f, false, 5);
    std::vector<float> results = run.rows_of(out, batch.text_rows());
    const std::vector<float> gradient = run.gradient("x.weight");
    results.insert(results.end(), gradient.begin(), gradient.end());
    return results;
  };
  GraphRun by_place(kLongBounds), by_key(kLongBounds);
  EXPECT_EQ(first_different_bit(record(by_place, false), record(by_key, true)), -1);
}

// Three samples of two texts each are computed as six samples of one, whole and from their first rows on.
TEST(Attention, SeveralTextsOfASampleAreAsSamplesOfTheirOwn) {
  const std::int64_t heads = 2, size = 3, width = heads * size;
  for (const bool first : {false, true}) {
    std::vector<std::vector<float>> results;
    std::vector<double> costs;
    for (const std::int64_t texts : {1, 2}) {
      Fields fields = batch_fields();
      fields[static_cast<std::size_t>(field_named(fields, "text_offsets"))].rows = {kSamples, texts, 1};
      fields[static_cast<std::size_t>(field_named(fields, "sample_keys"))].rows = rows_per_sample(texts);
      GraphRun run(counts_of(6 / texts, 60, 20), 2, fields);
      const Tensor x = run.source("x", text_rows(), width), kv = run.source("kv", text_rows(), 2 * width);
      const Tensor query = first ? first_rows(run.graph(), "first", x, run.text()) : x;
      const SampleRows queries = first ? SampleRows{rows_per_sample(texts), {}, run.field("sample_keys")} : run.text();
      EXPECT_TRUE(run.graph()[query].rows == queries.extent);
      const Tensor out = attention(run.graph(), "a", {query, 0}, queries, {kv, 0}, {kv, width}, run.text(), heads, size,
                                   {0.3f, 4}, run.field("sample_keys"));
      run.graph().keep(out);
      run.finish({out});
      Seeded random(5);
      const TestBatch packed(random, {3, 1, 9, 4, 2, 6}, kVocabulary);
      Batch batch = packed.batch(fields);
      batch.counts[kSamples] = 6 / texts;
      run.replay(batch, 1.0f, false, 5);
      results.push_back(run.rows_of(out, first ? 6 : packed.text_rows()));
      for (const char* weight : {"x.weight", "kv.weight"}) {
        const std::vector<float> gradient = run.gradient(weight);
        results.back().insert(results.back().end(), gradient.begin(), gradient.end());
      }
      costs.push_back(0.0);
      for (const Node& node : run.graph().nodes()) costs.back() += cost_of(run.graph(), node, batch.counts).flops;
    }
    EXPECT_EQ(first_different_bit(results[0], results[1]), -1) << first;
    EXPECT_EQ(costs[0], costs[1]) << first;
  }
}

}  // namespace
}  // namespace bascule::test::test_attention
