// SPDX-License-Identifier: Apache-2.0
// Seeded: random numbers for a test, which prints its seed when the test fails.
//
//   Seeded random;                        // the same sequence in every run; a fresh one per place costs nothing
//   const int size = random.integer(0, 33);
//
// BASCULE_TEST_SEED=<number> replaces the seed: to repeat a failure, or to try others. The numbers depend on the seed
// alone, not on the standard library (splitmix64; no std::*_distribution).
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

namespace bascule::test {

class Seeded {
 public:
  explicit Seeded(std::uint64_t seed = 1) : seed_(seed_from_environment(seed)), state_(seed_) {}
  ~Seeded() {
    if (::testing::Test::HasFailure()) {
      ADD_FAILURE() << "seed " << seed_ << ": repeat with BASCULE_TEST_SEED=" << seed_;
    }
  }
  Seeded(const Seeded&) = delete;
  Seeded& operator=(const Seeded&) = delete;

  std::uint64_t seed() const { return seed_; }
  std::uint64_t bits() {
    state_ += 0x9E3779B97F4A7C15u;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  // Both ends included; low <= high. (The bias of the remainder does not matter to a test.)
  std::int64_t integer(std::int64_t low, std::int64_t high) {
    const std::uint64_t span = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low) + 1;
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + (span == 0 ? bits() : bits() % span));
  }
  bool chance(double probability) { return unit() < probability; }
  // In [0, 1).
  double unit() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  double uniform(double low, double high) { return low + (high - low) * unit(); }
  double normal() {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - unit()));
    return radius * std::cos(6.28318530717958647692 * unit());
  }
  template <typename Number>
  void fill_uniform(Number* values, std::size_t size, double low, double high) {
    for (std::size_t i = 0; i < size; ++i) values[i] = static_cast<Number>(uniform(low, high));
  }
  template <typename Number>
  void fill_normal(Number* values, std::size_t size, double scale = 1.0) {
    for (std::size_t i = 0; i < size; ++i) values[i] = static_cast<Number>(scale * normal());
  }
  template <typename Value>
  void shuffle(std::vector<Value>& values) {
    for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[bits() % i]);
  }

 private:
  static std::uint64_t seed_from_environment(std::uint64_t seed) {
    const char* const chosen = std::getenv("BASCULE_TEST_SEED");
    return chosen != nullptr && *chosen != '\0' ? std::strtoull(chosen, nullptr, 0) : seed;
  }

  std::uint64_t seed_;
  std::uint64_t state_;
};

}  // namespace bascule::test
