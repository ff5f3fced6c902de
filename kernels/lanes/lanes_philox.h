// SPDX-License-Identifier: Apache-2.0
// Philox4x32-10 (Salmon et al. 2011) on sixteen counters at a time, and the dropout of kernels/dropout.h built on it.
#pragma once

#include <cstdint>

#include "kernels/dropout.h"
#include "kernels/lanes/lanes.h"

namespace bascule::BASCULE_ISA {
namespace {

// word[w] of sixteen counters: lane i is that of counter i.
struct PhiloxWords {
  u32x16 word[4];
};

// Ten rounds for the eight counters in the even lanes; odd lanes hold what they may. The 64-bit product of two even
// lanes has its low word where the next round wants it, so no shuffles are needed between rounds.
[[gnu::always_inline]] inline void philox_even(u32x16 counter[4], std::uint32_t key0, std::uint32_t key1) {
  const u32x16 multiplier0 = set_bits(0xd2511f53u);
  const u32x16 multiplier1 = set_bits(0xcd9e8d57u);
  for (int round = 0; round < 10; ++round) {
    const u32x16 product0 = multiply_even(counter[0], multiplier0);
    const u32x16 product1 = multiply_even(counter[2], multiplier1);
    counter[0] = odd_to_even(product1) ^ counter[1] ^ set_bits(key0);
    counter[2] = odd_to_even(product0) ^ counter[3] ^ set_bits(key1);
    counter[1] = product1;
    counter[3] = product0;
    key0 += 0x9e3779b9u;
    key1 += 0xbb67ae85u;
  }
}

// A word of sixteen counters as philox_even() takes it. Counters that have it in common take the same steps for it in
// the even and the odd lanes, which the compiler makes once.
struct CounterWord {
  u32x16 even, odd;
  CounterWord(std::uint32_t of_all) : even(set_bits(of_all)), odd(even) {}
  CounterWord(u32x16 of_each) : even(of_each), odd(odd_to_even(of_each)) {}
};

[[gnu::always_inline]] inline PhiloxWords philox(const CounterWord& counter0, const CounterWord& counter1,
                                                 const CounterWord& counter2, const CounterWord& counter3,
                                                 const std::uint32_t* key) {
  u32x16 even[4] = {counter0.even, counter1.even, counter2.even, counter3.even};
  u32x16 odd[4] = {counter0.odd, counter1.odd, counter2.odd, counter3.odd};
  philox_even(even, key[0], key[1]);
  philox_even(odd, key[0], key[1]);
  return {{interleave_even(even[0], odd[0]), interleave_even(even[1], odd[1]), interleave_even(even[2], odd[2]),
           interleave_even(even[3], odd[3])}};
}

// Which columns of rows are kept.
struct KeptColumns {
  Mask16 mask[4];
};
[[gnu::always_inline]] inline KeptColumns kept(const DropoutStream& stream, const CounterWord& counter0,
                                               const CounterWord& row_low, const CounterWord& row_high) {
  const PhiloxWords random = philox(counter0, row_low, row_high, stream.operation, stream.key);
  const u32x16 threshold = set_bits(stream.threshold);
  return {{at_least(random.word[0], threshold), at_least(random.word[1], threshold),
           at_least(random.word[2], threshold), at_least(random.word[3], threshold)}};
}
inline std::uint32_t row_key_low(std::uint64_t row_key) { return static_cast<std::uint32_t>(row_key & 0xffffu); }
inline std::uint32_t row_key_high(std::uint64_t row_key) { return static_cast<std::uint32_t>(row_key >> 16); }

// Of one row the columns 64 block .. 64 block + 63: mask[w] is that of sixteen columns from 64 block + 16 w on.
[[gnu::always_inline]] inline KeptColumns kept_columns(const DropoutStream& stream, std::uint64_t row_key,
                                                       std::int64_t block) {
  const u32x16 counter0 = set_bits(static_cast<std::uint32_t>(block * 16)) + lane_numbers();
  return kept(stream, counter0, row_key_low(row_key), row_key_high(row_key));
}
// Of sixteen rows, whose keys' halves are given, the columns 64 block + 16 w + i: mask[w] is that of one column.
[[gnu::always_inline]] inline KeptColumns kept_of_rows(const DropoutStream& stream, u32x16 row_low, u32x16 row_high,
                                                       std::int64_t block, std::int64_t i) {
  return kept(stream, static_cast<std::uint32_t>(block * 16 + i), row_low, row_high);
}

// x / (1 - p) where kept, 0 elsewhere.
inline f32x16 drop(Mask16 kept, f32x16 x, f32x16 scale) { return select(kept, x * scale, set(0.0f)); }

// step(lanes, c, kept) for c = 0, 16, 32, ... below `count`, the columns of one row.
template <typename Step>
[[gnu::always_inline]] inline void for_kept_lanes(std::int64_t count, const DropoutStream& stream,
                                                  std::uint64_t row_key, const Step& step) {
  std::int64_t block = 0;
  for (; (block + 1) * 64 <= count; ++block) {
    const KeptColumns kept = kept_columns(stream, row_key, block);
    step(AllLanes{}, block * 64, kept.mask[0]);
    step(AllLanes{}, block * 64 + 16, kept.mask[1]);
    step(AllLanes{}, block * 64 + 32, kept.mask[2]);
    step(AllLanes{}, block * 64 + 48, kept.mask[3]);
  }
  if (block * 64 == count) return;
  const KeptColumns kept = kept_columns(stream, row_key, block);
  for_lanes(
      count - block * 64, [&](auto lanes, std::int64_t c)
                              __attribute__((always_inline)) { step(lanes, block * 64 + c, kept.mask[c / 16]); });
}

}  // namespace
}  // namespace bascule::BASCULE_ISA
