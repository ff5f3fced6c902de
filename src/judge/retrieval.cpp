// SPDX-License-Identifier: Apache-2.0
#include "src/judge/retrieval.h"

#include <algorithm>
#include <limits>

#include "src/base/align.h"

namespace bascule {

std::size_t Retrieval::bytes(std::int64_t max_rows) {
  return static_cast<std::size_t>(kBlock * max_rows) * sizeof(float) +
         2 * static_cast<std::size_t>(max_rows) * sizeof(std::int32_t);
}

Retrieval::Retrieval(std::int64_t max_rows, std::int64_t width, std::byte* memory, GemmLibrary& products)
    : max_rows_(max_rows), width_(width), scores_(static_cast<float*>(static_cast<void*>(memory))) {
  first_row_ = static_cast<std::int32_t*>(static_cast<void*>(scores_ + kBlock * max_rows));
  picture_rows_ = first_row_ + max_rows;
  // Scores are computed against all max_rows candidates; those past the rows of a measurement are not looked at.
  product_ = products.make({GemmKind::kForward, kBlock, max_rows, width, width, width, max_rows, false, true, false});
  step_ = {run, tasks, this, 0};
}

std::int64_t Retrieval::tasks(const void* arguments, const Replay&) {
  const Retrieval& r = *static_cast<const Retrieval*>(arguments);
  return r.product_->tasks(std::min(kBlock, r.rows_ - r.first_));
}

void Retrieval::run(const void* arguments, const Replay&, std::int64_t task, int thread) {
  const Retrieval& r = *static_cast<const Retrieval*>(arguments);
  r.product_->run(task, thread,
                  {r.scores_, r.queries_ + r.first_ * r.width_, r.candidates_, nullptr,
                   std::min(kBlock, r.rows_ - r.first_), false});
}

void Retrieval::list_pictures() noexcept {
  std::fill_n(first_row_, max_rows_, -1);
  distinct_ = 0;
  for (std::int64_t row = 0; row < rows_; ++row) {
    std::int32_t& first = first_row_[pictures_[row]];
    if (first >= 0) continue;
    first = static_cast<std::int32_t>(row);
    picture_rows_[distinct_++] = first;
  }
}

// scores: of the row's caption with the picture of every row.
std::int64_t Retrieval::rank_of_picture(const float* scores, std::int64_t row) const noexcept {
  const std::int32_t own = first_row_[pictures_[row]];
  std::int64_t rank = 0;
  for (std::int64_t i = 0; i < distinct_; ++i) {
    const std::int32_t other = picture_rows_[i];
    if (other != own && !(scores[other] < scores[own])) ++rank;
  }
  return rank;
}

// scores: of the row's picture with the caption of every row.
std::int64_t Retrieval::rank_of_captions(const float* scores, std::int64_t row) const noexcept {
  const std::int32_t picture = pictures_[row];
  float best = -std::numeric_limits<float>::infinity();
  for (std::int64_t t = 0; t < rows_; ++t) {
    if (pictures_[t] == picture && scores[t] > best) best = scores[t];
  }
  std::int64_t rank = 0;
  for (std::int64_t t = 0; t < rows_; ++t) {
    if (pictures_[t] != picture && !(scores[t] < best)) ++rank;
  }
  return rank;
}

template <typename IsQuery, typename RankOf>
Recall Retrieval::recall(Threads& threads, float* queries, const float* candidates, IsQuery is_query,
                         RankOf rank_of) noexcept {
  queries_ = queries;
  candidates_ = candidates;
  std::int64_t asked = 0, hits[3] = {0, 0, 0};
  const Replay none;
  for (first_ = 0; first_ < rows_; first_ += kBlock) {
    threads.replay(Span<const Step>(&step_, 1), none, {});
    const std::int64_t count = std::min(kBlock, rows_ - first_);
    for (std::int64_t i = 0; i < count; ++i) {
      if (!is_query(first_ + i)) continue;
      const std::int64_t rank = rank_of(scores_ + i * max_rows_, first_ + i);
      ++asked;
      hits[0] += rank < 1 ? 1 : 0;
      hits[1] += rank < 5 ? 1 : 0;
      hits[2] += rank < 10 ? 1 : 0;
    }
  }
  const double n = asked > 0 ? static_cast<double>(asked) : 1.0;
  return {static_cast<double>(hits[0]) / n, static_cast<double>(hits[1]) / n, static_cast<double>(hits[2]) / n};
}

RecallBothWays Retrieval::measure(Threads& threads, float* text, float* images, const std::int32_t* pictures,
                                  std::int64_t rows) noexcept {
  pictures_ = pictures;
  rows_ = rows;
  list_pictures();
  RecallBothWays both;
  both.text_to_image = recall(
      threads, text, images, [](std::int64_t) { return true; },
      [this](const float* scores, std::int64_t row) { return rank_of_picture(scores, row); });
  both.image_to_text = recall(
      threads, images, text, [this](std::int64_t row) { return shows_first(row); },
      [this](const float* scores, std::int64_t row) { return rank_of_captions(scores, row); });
  return both;
}

}  // namespace bascule
