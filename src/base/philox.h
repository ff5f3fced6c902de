// SPDX-License-Identifier: Apache-2.0
// Philox4x32-10, the counter-based random function: the same counter and key give the same four words on every machine,
// so a draw can be named by its coordinates (epoch, row, position) instead of by how many draws went before. Nothing
// here has state; everything is usable before and after the seal. This is the plain integer form; kernels keep their
// own vector form. Source: Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", 2011; checked
// against Random123's published answers.
#pragma once

#include <cstdint>

namespace bascule {

struct PhiloxCounter {
  std::uint32_t word[4];
};

struct PhiloxKey {
  std::uint32_t word[2];
};

struct PhiloxBlock {
  std::uint32_t word[4];

  // Words 0 and 1 (i = 0) or words 2 and 3 (i = 1) as one number, the lower word first.
  constexpr std::uint64_t wide(int i) const {
    return static_cast<std::uint64_t>(word[2 * i]) | (static_cast<std::uint64_t>(word[2 * i + 1]) << 32);
  }
};

constexpr PhiloxBlock philox4x32(PhiloxCounter counter, PhiloxKey key) {
  std::uint32_t c0 = counter.word[0], c1 = counter.word[1], c2 = counter.word[2], c3 = counter.word[3];
  std::uint32_t k0 = key.word[0], k1 = key.word[1];
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53u} * c0;
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57u} * c2;
    c0 = static_cast<std::uint32_t>(product1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<std::uint32_t>(product1);
    c2 = static_cast<std::uint32_t>(product0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<std::uint32_t>(product0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return PhiloxBlock{{c0, c1, c2, c3}};
}

// A key of its own for each use of the run's one seed, so that no two uses ever see the same words. `use` is any
// constant that no other use has.
constexpr PhiloxKey derive_key(std::uint64_t seed, std::uint32_t use) {
  const PhiloxBlock block =
      philox4x32(PhiloxCounter{{use, 0x62617363u, 0x756c6521u, 0u}},
                 PhiloxKey{{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}});
  return PhiloxKey{{block.word[0], block.word[1]}};
}

// The counter of a draw for a row of an epoch; `index` tells apart the draws for one row. Rows are below 2^40, epochs
// below 2^32.
constexpr PhiloxCounter random_coordinates(std::int64_t epoch, std::int64_t row, std::uint32_t index) {
  const std::uint64_t wide = static_cast<std::uint64_t>(row);
  return PhiloxCounter{{index, static_cast<std::uint32_t>(wide), static_cast<std::uint32_t>(wide >> 32),
                        static_cast<std::uint32_t>(static_cast<std::uint64_t>(epoch))}};
}

// A number in [0, bound), bound positive, from one word. No division; no value is favoured by more than bound / 2^32.
constexpr std::uint32_t bounded(std::uint32_t word, std::uint32_t bound) {
  return static_cast<std::uint32_t>((std::uint64_t{word} * bound) >> 32);
}

// A number above 0 and below 1 from one word: the middle of one of 2^32 equal parts.
constexpr double uniform(std::uint32_t word) { return (static_cast<double>(word) + 0.5) * 0x1p-32; }

}  // namespace bascule
