// SPDX-License-Identifier: Apache-2.0
// The operations round a diffusion model in a session: programs of slots, batches smaller than their bound, pictures
// taken one by one, any number of threads.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "src/generate/drawer.h"
#include "src/generate/samplers.h"
#include "src/graph/operations.h"
#include "src/runtime/threads.h"
#include "src/session/session.h"
#include "tests/support/seeded.h"

namespace bascule::test::test_sampling {
namespace {

// Pixels and channels so that no picture begins at a multiple of a vector.
constexpr std::int64_t kSlots = 4, kPictures = 5, kPixels = 133, kChannels = 3, kPictureElements = kPixels * kChannels;

Fields call_fields(std::int64_t slots) {
  return {{"scales", DType::kFloat32, fixed_rows(1), 1 + slots, FieldSource::kGenerator},
          {"numbers", DType::kInt32, fixed_rows(1), 4, FieldSource::kGenerator}};
}

using Values = std::vector<float>;

struct Call {
  Values scales;
  std::vector<std::int32_t> numbers;  // x, output, next, first picture
};

// Graph 0: x -> input of the model (input) and a step whose output is an input of the graph (e). Graph 1 takes one
// picture out, and knows a batch of one.
struct Sampled {
  Session session;
  Tensor state, model_input, e, picture;
  Threads threads;
  std::int64_t copies;

  explicit Sampled(float guidance, int thread_count = 2, const KernelTable& kernels = kernels_for(best_isa()),
                   std::int64_t slot_count = kSlots)
      : threads(thread_count, false), copies(guidance > 1.0f ? 2 : 1) {
    BatchCounts bounds;
    bounds[kSamples] = kPictures;
    Graph& graph = session.add_graph(bounds, call_fields(slot_count));
    const Extent rows = rows_per_sample(kPixels);
    const LatentSlots latents = latent_slots(graph, "latents", slot_count, kPictures, kPixels, kChannels);
    const SamplingFields call = {graph.field("scales"), graph.field("numbers")};
    state = latents.state;
    e = graph.input("e", rows.times(copies), kChannels);
    model_input = sampling_input(graph, "x", latents, rows, call, rows.times(copies));
    graph.keep(model_input);
    sampling_step(graph, latents, rows, e, guidance, call);
    bounds[kSamples] = 1;
    Graph& one = session.add_graph(bounds, call_fields(slot_count));
    picture = sampling_input(one, "picture", latent_slots(one, "latents", slot_count, kPictures, kPixels, kChannels),
                             rows, {one.field("scales"), one.field("numbers")}, rows);
    one.keep(picture);
    session.seal_alone(kernels, thread_count);
  }

  float* slot(std::int64_t index) { return session.tape(0).at(state) + index * kPictures * kPictureElements; }
  Values slots() { return {slot(0), slot(kSlots)}; }
  void set_slots(const Values& values) { std::copy(values.begin(), values.end(), slot(0)); }

  void replay(std::size_t graph, const Call& call, std::int64_t pictures) {
    Replay replay;
    replay.batch.counts[kSamples] = pictures;
    replay.batch.fields[0] = call.scales.data();
    replay.batch.fields[1] = call.numbers.data();
    session.tape(graph).replay(threads, replay);
  }
  // One call for the first pictures of the batch. output: (copies * pictures * kPixels, kChannels).
  Values call(const Call& call, const Values& output, std::int64_t pictures) {
    std::copy(output.begin(), output.end(), session.tape(0).at(e));
    replay(0, call, pictures);
    const float* const x = session.tape(0).at(model_input);
    return {x, x + copies * pictures * kPictureElements};
  }
};

Values random_values(Seeded& random, std::int64_t count) {
  Values values(static_cast<std::size_t>(count));
  random.fill_normal(values.data(), values.size());
  return values;
}

const Call kCall = {{0.3f, 1.1f, -0.7f, 0.0f, 0.25f}, {0, 1, 3, 0}};

// The slots after a call, by the formula in float32, in the order of the slots.
Values expected_slots(const Values& slots, const Call& call, const Values& output, std::int64_t pictures,
                      float guidance) {
  Values after = slots;
  const auto at = [&](std::int64_t slot, std::int64_t i) -> float& {
    return after[static_cast<std::size_t>((slot * kPictures + call.numbers[3]) * kPictureElements + i)];
  };
  for (std::int64_t i = 0; i < pictures * kPictureElements; ++i) {
    float value = output[static_cast<std::size_t>(i)];
    if (guidance > 1.0f)
      value = std::fma(guidance, output[static_cast<std::size_t>(pictures * kPictureElements + i)] - value, value);
    at(call.numbers[1], i) = value;
    float sum = 0.0f;
    for (std::int64_t j = 0; j < kSlots; ++j) {
      const float weight = call.scales[static_cast<std::size_t>(1 + j)];
      if (weight != 0.0f) sum = std::fma(weight, at(j, i), sum);
    }
    at(call.numbers[2], i) = sum;
  }
  return after;
}

// Every other picture and slot keeps its values, also where the last batch is smaller than the others.
TEST(Sampling, AStepChangesTwoSlotsOfThePicturesOfTheBatch) {
  Seeded random;
  for (const float guidance : {1.0f, 7.5f}) {
    Sampled sampled(guidance);
    for (const std::int64_t pictures : {kPictures, std::int64_t{2}, std::int64_t{1}}) {
      const Values slots = random_values(random, kSlots * kPictures * kPictureElements),
                   output = random_values(random, sampled.copies * pictures * kPictureElements);
      sampled.set_slots(slots);
      sampled.call(kCall, output, pictures);
      EXPECT_EQ(sampled.slots(), expected_slots(slots, kCall, output, pictures, guidance)) << pictures;
    }
  }
}

TEST(Sampling, AStepMayWriteTheSlotThatItReads) {
  Seeded random;
  Sampled sampled(1.0f);
  const Call call = {{1.0f, 0.9f, -0.2f, 0.0f, 0.0f}, {0, 1, 0, 0}};
  const Values slots = random_values(random, kSlots * kPictures * kPictureElements),
               output = random_values(random, kPictures * kPictureElements);
  sampled.set_slots(slots);
  sampled.call(call, output, kPictures);
  EXPECT_EQ(sampled.slots(), expected_slots(slots, call, output, kPictures, 1.0f));
}

// Where there is guidance the model is given every picture twice: all of them, and all of them again.
TEST(Sampling, TheModelIsGivenTheScaledSlot) {
  Seeded random;
  for (const float guidance : {1.0f, 7.5f}) {
    Sampled sampled(guidance);
    const Values slots = random_values(random, kSlots * kPictures * kPictureElements);
    for (const std::int32_t x : {0, 2}) {
      for (const std::int64_t pictures : {kPictures, std::int64_t{3}}) {
        sampled.set_slots(slots);
        const Call call = {kCall.scales, {x, 1, 3, 0}};
        const Values input =
            sampled.call(call, Values(static_cast<std::size_t>(2 * kPictures * kPictureElements)), pictures);
        ASSERT_EQ(static_cast<std::int64_t>(input.size()), sampled.copies * pictures * kPictureElements);
        for (std::int64_t i = 0; i < static_cast<std::int64_t>(input.size()); ++i) {
          const std::int64_t element = i % (pictures * kPictureElements);
          ASSERT_EQ(input[static_cast<std::size_t>(i)],
                    0.3f * slots[static_cast<std::size_t>(x * kPictures * kPictureElements + element)]);
        }
      }
    }
  }
}

// A batch may begin behind the first picture: so a decoder takes them one after another.
TEST(Sampling, PicturesAreTakenOneByOne) {
  Seeded random;
  Sampled sampled(1.0f);
  const Values slots = random_values(random, kSlots * kPictures * kPictureElements);
  sampled.set_slots(slots);
  for (std::int32_t picture = 0; picture < kPictures; ++picture) {
    sampled.replay(1, {{2.0f, 0, 0, 0, 0}, {3, 0, 0, picture}}, 1);
    const float* const got = sampled.session.tape(1).at(sampled.picture);
    for (std::int64_t i = 0; i < kPictureElements; ++i)
      ASSERT_EQ(got[i], 2.0f * slots[static_cast<std::size_t>((3 * kPictures + picture) * kPictureElements + i)]);
  }
  const Call call = {kCall.scales, {0, 1, 3, 2}};
  const Values output = random_values(random, 2 * kPictureElements);
  sampled.call(call, output, 2);
  EXPECT_EQ(sampled.slots(), expected_slots(slots, call, output, 2, 1.0f));
}

TEST(Sampling, HasTheSameBitsForAnyNumberOfThreadsAndOnEveryIsa) {
  Seeded random;
  const Values slots = random_values(random, kSlots * kPictures * kPictureElements),
               output = random_values(random, 2 * kPictures * kPictureElements);
  const Values expected = expected_slots(slots, kCall, output, kPictures, 7.5f);
  for (const Isa isa : kAllIsas) {
    if (!isa_supported(isa)) continue;
    for (const int threads : {1, 3}) {
      Sampled sampled(7.5f, threads, kernels_for(isa));
      sampled.set_slots(slots);
      sampled.call(kCall, output, kPictures);
      EXPECT_EQ(sampled.slots(), expected) << isa_name(isa) << ", " << threads << " threads";
    }
  }
}

// A whole program on the tape beside the same in float64, with a model that answers to its input: the weights of a call
// stand where the operations look for them.
TEST(Sampling, RunsTheProgramOfASampler) {
  const Json config = {{"beta_start", 0.00085},
                       {"beta_end", 0.012},
                       {"beta_schedule", "scaled_linear"},
                       {"skip_prk_steps", true},
                       {"prediction_type", "v_prediction"},
                       {"set_alpha_to_one", false}};
  for (const char* const sampler : {"pndm", "ddim", "euler"}) {
    const SamplingProgram program = sampling_program(sampler_options_of(config, "config", sampler), 12);
    Sampled sampled(1.0f, 2, kernels_for(best_isa()), program.slots);
    std::vector<std::vector<double>> slots(static_cast<std::size_t>(program.slots),
                                           std::vector<double>(static_cast<std::size_t>(kPictures * kPictureElements)));
    std::vector<double>& first = slots[static_cast<std::size_t>(program.calls.front().x)];
    Values noise(first.size());
    fill_normal_latents(noise.data(), 1, 0, 0, kPictures * kPictureElements);
    for (std::size_t i = 0; i < first.size(); ++i) {
      first[i] = program.initial_scale * static_cast<double>(noise[i]);
      sampled.slot(program.calls.front().x)[i] = static_cast<float>(first[i]);
    }
    for (const SamplingCall& one : program.calls) {
      Call call = {{static_cast<float>(one.input_scale)}, {one.x, one.output, one.next, 0}};
      for (const double weight : one.weights) call.scales.push_back(static_cast<float>(weight));
      Values output(first.size());
      const float* const x = sampled.slot(one.x);
      for (std::size_t i = 0; i < output.size(); ++i)
        output[i] = 0.25f * call.scales[0] * x[i] + static_cast<float>(i % 7) / 4.0f;
      sampled.call(call, output, kPictures);
      for (std::size_t i = 0; i < first.size(); ++i) {
        const double e =
            0.25 * one.input_scale * slots[static_cast<std::size_t>(one.x)][i] + static_cast<double>(i % 7) / 4.0;
        slots[static_cast<std::size_t>(one.output)][i] = e;
        double sum = 0.0;
        for (std::size_t j = 0; j < slots.size(); ++j) sum += one.weights[j] * slots[j][i];
        slots[static_cast<std::size_t>(one.next)][i] = sum;
      }
    }
    const std::vector<double>& expected = slots[static_cast<std::size_t>(program.calls.back().next)];
    const float* const got = sampled.slot(program.calls.back().next);
    for (std::size_t i = 0; i < expected.size(); ++i)
      ASSERT_NEAR(static_cast<double>(got[i]), expected[i], 2e-5 * (1.0 + std::abs(expected[i])))
          << sampler << ", " << i;
  }
}

}  // namespace
}  // namespace bascule::test::test_sampling
