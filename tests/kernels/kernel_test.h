// SPDX-License-Identifier: Apache-2.0
// How a kernel is tested: on every ISA that this machine runs, on guarded arrays in three places, against the reference
// in double.
//
//   for (const std::int64_t cols : lengths()) {
//     for (const Place place : kPlaces) {
//       const auto y = same_on_every_isa([&](const KernelTable& kernels) {
//         Floats out(cols), in(x, place);
//         kernels.add({out.data(), in.data(), in.data(), cols});
//         return out.values();
//       });
//       expect_within(y, truth, bounds);
//     }
//   }
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "kernels/table.h"
#include "tests/support/error_bound.h"
#include "tests/support/guarded_buffer.h"
#include "tests/support/seeded.h"

namespace bascule::test {

constexpr double kEpsilon = kFloatEpsilon;

// The ISAs that this machine runs; says once which it does not. BASCULE_TEST_ISA names a single one.
inline const std::vector<Isa>& isas() {
  static const std::vector<Isa> supported = [] {
    std::vector<Isa> list;
    const char* const only = std::getenv("BASCULE_TEST_ISA");
    for (const Isa isa : kAllIsas) {
      if (only != nullptr && std::string(only) != isa_name(isa)) continue;
      if (isa_supported(isa)) {
        list.push_back(isa);
      } else {
        std::printf("skipped on this machine: %s\n", isa_name(isa));
      }
    }
    return list;
  }();
  return supported;
}

// Row lengths: every tail of one and two vectors, and two widths of a model.
inline std::vector<std::int64_t> lengths(std::int64_t first = 0) {
  std::vector<std::int64_t> list;
  for (std::int64_t n = first; n <= 33; ++n) list.push_back(n);
  list.push_back(769);
  list.push_back(1024);
  return list;
}

// Directly before an unreadable page; one element before that; and at the start of a page: three alignments.
enum class Place { kBeforeGuard, kOneBefore, kPageStart };
constexpr Place kPlaces[] = {Place::kBeforeGuard, Place::kOneBefore, Place::kPageStart};

// A float array in one of these places. The elements behind it, where there are any, must keep their value.
class Floats {
 public:
  explicit Floats(const std::vector<float>& values, Place place = Place::kBeforeGuard)
      : size_(values.size()),
        slack_(place == Place::kBeforeGuard ? 0
               : place == Place::kOneBefore ? 1
                                            : 16),
        buffer_(size_ + slack_, place == Place::kPageStart ? AlignAt::kStart : AlignAt::kEnd) {
    std::copy(values.begin(), values.end(), buffer_.begin());
    std::fill(buffer_.begin() + size_, buffer_.end(), kCanary);
  }
  // `size` elements that a kernel must overwrite.
  explicit Floats(std::int64_t size, Place place = Place::kBeforeGuard)
      : Floats(std::vector<float>(static_cast<std::size_t>(size), kCanary), place) {}
  ~Floats() {
    for (std::size_t i = size_; i < size_ + slack_; ++i) {
      EXPECT_EQ(buffer_[i], kCanary) << "written " << i - size_ << " elements behind an array of " << size_;
    }
  }
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;

  float* data() { return buffer_.data(); }
  float& operator[](std::int64_t i) { return buffer_[static_cast<std::size_t>(i)]; }
  std::vector<float> values() const { return std::vector<float>(buffer_.begin(), buffer_.begin() + size_); }

 private:
  static constexpr float kCanary = -7.0e33f;

  std::size_t size_;
  std::size_t slack_;
  GuardedBuffer<float> buffer_;
};

inline std::vector<float> normal(Seeded& random, std::int64_t count, double scale = 1.0, double offset = 0.0) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& v : values) v = static_cast<float>(offset + scale * random.normal());
  return values;
}

inline std::vector<double> widened(const std::vector<float>& values) {
  return std::vector<double>(values.begin(), values.end());
}
inline std::vector<double> zeros(std::int64_t count) { return std::vector<double>(static_cast<std::size_t>(count)); }

inline std::vector<float> joined(const std::vector<std::vector<float>>& parts) {
  std::vector<float> all;
  for (const std::vector<float>& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

// The result of `run(kernels)`, all outputs joined, after checking that every ISA gives the same bits.
template <typename Run>
std::vector<float> same_on_every_isa(const Run& run) {
  const std::vector<float> first = run(kernels_for(isas().front()));
  for (const Isa isa : isas()) {
    if (isa == isas().front()) continue;
    const std::vector<float> other = run(kernels_for(isa));
    const std::int64_t at = first_different_bit(first, other);
    EXPECT_EQ(at, -1) << isa_name(isa) << " differs from " << isa_name(isas().front()) << " at " << at << " of "
                      << first.size();
  }
  return first;
}

// The part [begin, begin + truth.size()) of `values` is within `bound[i]` of the truth.
inline void expect_within(const std::vector<float>& values, std::size_t begin, const std::vector<double>& truth,
                          const std::vector<double>& bound, const std::string& what) {
  ASSERT_LE(begin + truth.size(), values.size()) << what;
  ASSERT_EQ(truth.size(), bound.size()) << what;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const double value = static_cast<double>(values[begin + i]);
    if (std::isnan(truth[i]) && std::isnan(value)) continue;
    if (value == truth[i]) continue;  // infinities
    ASSERT_LE(std::abs(value - truth[i]), bound[i]) << what << "[" << i << "] = " << value << ", truth " << truth[i];
  }
}

}  // namespace bascule::test
