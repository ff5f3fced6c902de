// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/reference/elementwise.h"
#include "tests/kernels/kernel_test.h"

namespace bascule::test::test_sampling {
namespace {

struct Case {
  std::vector<float> weights;
  std::int64_t output_slot, next_slot;
};

// As the samplers have them: two slots, and the last one is read and written; five, some not read; and the most.
std::vector<Case> cases() {
  std::vector<float> most(static_cast<std::size_t>(kMaxSamplingSlots), 0.75f);
  return {{{1.5f, -0.4f}, 1, 0},
          {{0.0f, 2.0f}, 1, 0},
          {{1.01f, 0.0f, -2.3f, 1.5f, 0.2f}, 3, 1},
          {{1.01f, 0.3f, -2.3f, 1.5f, 0.2f}, 2, 2},
          {{0.0f, 0.0f, 0.0f}, 1, 2},
          {most, kMaxSamplingSlots - 1, 0}};
}

SamplingStep arguments(const Case& one, std::int64_t count, std::int64_t stride, bool is_guided) {
  SamplingStep a{};
  a.slot_stride = stride;
  a.slot_count = static_cast<std::int64_t>(one.weights.size());
  a.count = count;
  a.output_slot = one.output_slot;
  a.next_slot = one.next_slot;
  a.guidance = is_guided ? 7.5f : 1.0f;
  return a;
}

// Two roundings of e, and one for each term of the sum. What is not overwritten keeps its value exactly.
std::vector<double> bound_of(const std::vector<double>& slots, const std::vector<float>& output,
                             const std::vector<float>& with_prompt, const Case& one, const SamplingStep& a) {
  std::vector<double> bound = zeros(static_cast<std::int64_t>(slots.size()));
  for (std::int64_t i = 0; i < a.count; ++i) {
    const auto at = [&](std::int64_t slot) { return static_cast<std::size_t>(slot * a.slot_stride + i); };
    const double without = std::abs(static_cast<double>(output[static_cast<std::size_t>(i)]));
    const double with =
        with_prompt.empty() ? 0.0 : std::abs(static_cast<double>(with_prompt[static_cast<std::size_t>(i)]));
    const double magnitude = without + static_cast<double>(a.guidance) * (without + with);
    const double of_output = with_prompt.empty() ? 0.0 : 2 * kEpsilon * magnitude;
    bound[at(a.output_slot)] = of_output;
    double of_sum = 0.0;
    for (std::int64_t j = 0; j < a.slot_count; ++j) {
      const double weight = std::abs(static_cast<double>(one.weights[static_cast<std::size_t>(j)]));
      const double value = j == a.output_slot ? without + magnitude : std::abs(slots[at(j)]);
      if (weight == 0.0) continue;
      of_sum +=
          weight * ((j == a.output_slot ? of_output : 0.0) + kEpsilon * static_cast<double>(a.slot_count) * value);
    }
    bound[at(a.next_slot)] = of_sum;
  }
  return bound;
}

void check(const Case& one, std::int64_t count, bool is_guided, Place place, Seeded& random) {
  const std::int64_t stride = count + 3, slot_count = static_cast<std::int64_t>(one.weights.size());
  std::vector<float> slots = normal(random, (slot_count - 1) * stride + count);
  for (std::int64_t j = 0; j < slot_count; ++j) {  // what is not read
    if (one.weights[static_cast<std::size_t>(j)] != 0.0f && j != one.output_slot) continue;
    for (std::int64_t i = 0; i < count; ++i)
      slots[static_cast<std::size_t>(j * stride + i)] = std::numeric_limits<float>::quiet_NaN();
  }
  const std::vector<float> output = normal(random, count),
                           with_prompt = is_guided ? normal(random, count) : std::vector<float>();
  SamplingStep a = arguments(one, count, stride, is_guided);
  std::vector<double> truth = widened(slots);
  const std::vector<double> before = truth;
  reference::sampling_step(truth.data(), widened(output).data(), is_guided ? widened(with_prompt).data() : nullptr,
                           widened(one.weights).data(), a);
  const std::vector<float> values = same_on_every_isa([&](const KernelTable& kernels) {
    Floats in_slots(slots, place), in_output(output, place), in_prompt(with_prompt, place),
        in_weights(one.weights, place);
    a.slots = in_slots.data();
    a.output = in_output.data();
    a.with_prompt = is_guided ? in_prompt.data() : nullptr;
    a.weights = in_weights.data();
    kernels.sampling_step(a);
    return in_slots.values();
  });
  for (std::int64_t i = 0; i < count; ++i)
    EXPECT_FALSE(std::isnan(values[static_cast<std::size_t>(one.next_slot * stride + i)]));
  expect_within(values, 0, truth, bound_of(before, output, with_prompt, one, a), "slots");
}

TEST(SamplingStep, IsWithinItsBoundAndTheSameOnEveryIsa) {
  Seeded random;
  for (const std::int64_t count : lengths()) {
    for (const Case& one : cases()) {
      for (const Place place : kPlaces) {
        check(one, count, false, place, random);
        check(one, count, true, place, random);
      }
    }
  }
}

// One fused chain in the order of the slots: 1e8 and -1e8 cancel before the last term is added.
TEST(SamplingStep, AddsInTheOrderOfTheSlots) {
  std::vector<float> slots = {1e8f, 0.0f, -1e8f, 1.0f};
  const std::vector<float> weights = {1.0f, 1.0f, 1.0f, 1.0f}, output = {3.0f};
  for (const Isa isa : isas()) {
    std::vector<float> own = slots;
    SamplingStep a = arguments({weights, 1, 0}, 1, 1, false);
    a.slots = own.data();
    a.output = output.data();
    a.weights = weights.data();
    kernels_for(isa).sampling_step(a);
    EXPECT_EQ(own, (std::vector<float>{1.0f, 3.0f, -1e8f, 1.0f})) << isa_name(isa);
  }
}

}  // namespace
}  // namespace bascule::test::test_sampling
