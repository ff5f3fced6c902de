// SPDX-License-Identifier: Apache-2.0
// Recall@k between two sets of embeddings of the same rows. A hit is any row with the query's picture; ties count
// against the query.
//   rank(q) = how many rows d with another picture have  query_q . candidate_d >= max over rows e with q's picture of
//   query_q . candidate_e recall@k = share of queries with rank < k
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/gemm/gemm.h"
#include "src/runtime/threads.h"

namespace bascule {

struct Recall {
  double at_1 = 0.0, at_5 = 0.0, at_10 = 0.0;
};

class Retrieval {
 public:
  static constexpr std::int64_t kBlock = 256;  // queries at a time

  // For up to max_rows rows of `width` floats. memory: bytes(max_rows), 64-byte aligned. Before the seal.
  Retrieval(std::int64_t max_rows, std::int64_t width, std::byte* memory, GemmCache& products);
  static std::size_t bytes(std::int64_t max_rows);

  // Embeddings (rows, width) with memory for align_up(rows, 16) rows; pictures (rows). After the seal.
  Recall measure(Threads& threads, float* queries, const float* candidates, const std::int32_t* pictures,
                 std::int64_t rows) noexcept;

 private:
  static std::int64_t tasks(const void* arguments, const Replay& replay);
  static void run(const void* arguments, const Replay& replay, std::int64_t task, int thread);
  std::int64_t rank_of(const float* scores, std::int64_t query) const noexcept;

  std::int64_t width_;
  std::unique_ptr<Gemm> product_;
  float* scores_;  // (kBlock, max_rows)
  Step step_;
  // Of the measurement under way.
  float* queries_ = nullptr;
  const float* candidates_ = nullptr;
  const std::int32_t* pictures_ = nullptr;
  std::int64_t rows_ = 0, first_ = 0, max_rows_ = 0;
};

// Area under the receiver operating curve: the chance that a positive scores above a negative, ties counting half.
// order: `count` numbers of scratch. 0.5 if one class is missing. Allocates nothing.
double area_under_curve(const float* scores, const std::int32_t* labels, std::int32_t* order,
                        std::int64_t count) noexcept;

}  // namespace bascule
