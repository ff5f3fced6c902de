// SPDX-License-Identifier: Apache-2.0
// A model for tests of a search: its logits are a hash of the sample's seed and of all ids of a row. Like a decoder
// with caches it reads the last id of each row alone; those before it finds in the slots that the row's history names.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/generate/token_search.h"
#include "tests/support/guarded_buffer.h"

namespace bascule::test {

// logits() of tools/make_search_goldens.py.
struct LogitLaw {
  std::int64_t vocabulary = 0, levels = 1;
  int exponent = 0;
  std::int64_t end_bias = 0;
  bool is_rotated = false;
  std::vector<std::int32_t> end_ids;

  static std::uint64_t mix(std::uint64_t word) {
    word += 0x9E3779B97F4A7C15u;
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9u;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EBu;
    return word ^ (word >> 31);
  }
  // logits[0, vocabulary): of the token that follows `ids`.
  void write(float* logits, std::uint64_t seed, const std::vector<std::int32_t>& ids) const {
    std::uint64_t state = seed;
    for (const std::int32_t id : ids) state = mix(state ^ static_cast<std::uint64_t>(id + 1));
    for (std::int64_t token = 0; token < vocabulary; ++token) {
      const auto unsigned_token = static_cast<std::uint64_t>(token);
      const auto size = static_cast<std::uint64_t>(vocabulary);
      const std::uint64_t number = is_rotated ? (unsigned_token + state % size) % size
                                              : mix(state + (unsigned_token + 1) * 0xD1B54A32D192ED03u) >> 33;
      const bool is_end = std::count(end_ids.begin(), end_ids.end(), token) > 0;
      const auto level = static_cast<std::int64_t>(number % static_cast<std::uint64_t>(levels));
      logits[token] = std::ldexp(static_cast<float>(level + (is_end ? end_bias : 0)), exponent);
    }
  }
};

class HashedDecoder {
 public:
  HashedDecoder(const LogitLaw& law, const SearchOptions& options, std::int64_t max_samples)
      : law_(law),
        options_(options),
        stride_(law.vocabulary + 3),
        slots_(max_samples * options.num_beams),
        // No column behind the last of the last row: the buffer ends there.
        logits_(static_cast<std::size_t>(slots_ * stride_ - 3)),
        top_(static_cast<std::size_t>(slots_)),
        log_sum_(static_cast<std::size_t>(slots_)) {}

  // Before a search. seeds: of its samples.
  void begin(const std::vector<std::uint64_t>& seeds) {
    seeds_ = seeds;
    cache_.assign(static_cast<std::size_t>(slots_ * options_.max_length), kUnwritten);
  }

  // Fills logits(), top() and log_sum() for the search's rows.
  void decode(const TokenSearch& search) {
    for (std::int64_t row = 0; row < search.rows(); ++row) {
      const auto r = static_cast<std::size_t>(row);
      const std::int32_t sample = search.samples()[r];
      std::vector<std::int32_t> ids;
      for (std::int64_t p = 0; p < search.position(row); ++p) ids.push_back(cached(sample, search.history(row)[p], p));
      ids.push_back(search.tokens()[r]);
      std::int32_t& own = cached(sample, search.slots()[r], search.position(row));
      EXPECT_EQ(own, kUnwritten) << "a place of a cache is written twice";
      own = ids.back();
      write_row(row, sample, ids);
    }
  }

  const float* logits() const { return logits_.data(); }
  std::int64_t stride() const { return stride_; }
  const float* top() const { return options_.num_beams > 1 ? top_.data() : nullptr; }
  const float* log_sum() const { return options_.num_beams > 1 ? log_sum_.data() : nullptr; }

 private:
  static constexpr std::int32_t kUnwritten = -1;

  std::int32_t& cached(std::int32_t sample, std::int32_t slot, std::int64_t position) {
    EXPECT_EQ(slot / options_.num_beams, sample) << "a slot of another sample";
    return cache_[static_cast<std::size_t>(slot * options_.max_length + position)];
  }
  void write_row(std::int64_t row, std::int32_t sample, const std::vector<std::int32_t>& ids) {
    float* const logits = logits_.data() + row * stride_;
    law_.write(logits, seeds_[static_cast<std::size_t>(sample)], ids);
    const float top = *std::max_element(logits, logits + law_.vocabulary);
    double sum = 0.0;
    for (std::int64_t token = 0; token < law_.vocabulary; ++token) {
      sum += std::exp(static_cast<double>(logits[token] - top));
    }
    top_[static_cast<std::size_t>(row)] = top;
    log_sum_[static_cast<std::size_t>(row)] = static_cast<float>(std::log(sum));
  }

  LogitLaw law_;
  SearchOptions options_;
  std::int64_t stride_, slots_;
  GuardedBuffer<float> logits_, top_, log_sum_;
  std::vector<std::uint64_t> seeds_;
  std::vector<std::int32_t> cache_;  // (slots, max_length): the id that each place was written for
};

}  // namespace bascule::test
