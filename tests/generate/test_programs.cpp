// SPDX-License-Identifier: Apache-2.0
// Programs against diffusers' schedulers in float64 (tools/make_sampling_goldens.py), and against the whole runs of the
// full reference set.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "src/base/digest.h"
#include "src/base/error.h"
#include "src/checkpoint/safetensors.h"
#include "src/generate/samplers.h"
#include "src/json/json.h"
#include "tests/support/files.h"
#include "tests/support/reference_dir.h"

namespace bascule::test {
namespace {

// Hundreds of steps in another order of rounding differ by 2e-14; tables in float32 would by 1e-6.
constexpr double kTolerance = 1e-12;

Json golden_file() { return read_json_file(std::string(BASCULE_TEST_DATA) + "/sampling/schedulers.json"); }

SamplerOptions options_of(const Json& config) {
  SamplerOptions options = sampler_options_of(config, "a golden configuration");
  options.steps_offset = get_int(config, "steps_offset", "a golden configuration", 1);
  return options;
}

SamplerOptions published_options(const std::string& sampler, Prediction prediction = Prediction::kNoise) {
  const Json config = {{"beta_start", 0.00085},
                       {"beta_end", 0.012},
                       {"beta_schedule", "scaled_linear"},
                       {"set_alpha_to_one", false},
                       {"skip_prk_steps", true},
                       {"timestep_spacing", "leading"},
                       {"prediction_type", prediction == Prediction::kNoise ? "epsilon" : "v_prediction"}};
  return sampler_options_of(config, "published", sampler);
}

std::vector<float> timesteps_of(const SamplingProgram& program) {
  std::vector<float> timesteps;
  for (const SamplingCall& call : program.calls) timesteps.push_back(static_cast<float>(call.timestep));
  return timesteps;
}

std::string four_digits_of(const std::vector<float>& timesteps) {
  Sha256 sum;
  sum.add(timesteps.data(), timesteps.size() * sizeof(float));
  return sum.hex().substr(0, 4);
}

// The model of the goldens: fixed outputs, and an answer to its input.
double golden_model(std::size_t call, std::size_t element, double input) {
  const auto word = static_cast<int>((call * 37 + element * 101 + 11) % 257);
  return (word - 128) / 64.0 + input / 4;
}

using Latents = std::vector<double>;

Latents run(const SamplingProgram& program, const Latents& noise) {
  std::vector<Latents> slots(static_cast<std::size_t>(program.slots), Latents(noise.size(), std::nan("")));
  const auto slot = [&](int index) -> Latents& { return slots.at(static_cast<std::size_t>(index)); };
  for (std::size_t i = 0; i < noise.size(); ++i) slot(program.calls.front().x)[i] = program.initial_scale * noise[i];
  for (std::size_t k = 0; k < program.calls.size(); ++k) {
    const SamplingCall& call = program.calls[k];
    EXPECT_EQ(call.weights.size(), slots.size());
    for (std::size_t i = 0; i < noise.size(); ++i) {
      slot(call.output)[i] = golden_model(k, i, call.input_scale * slot(call.x)[i]);
      double sum = 0.0;
      for (std::size_t j = 0; j < slots.size(); ++j)
        if (call.weights[j] != 0.0) sum += call.weights[j] * slots[j][i];
      slot(call.next)[i] = sum;
    }
  }
  return slot(program.calls.back().next);
}

TEST(SamplingPrograms, TimestepsAreDiffusersForEveryNumberOfSteps) {
  const Json file = golden_file();
  for (const auto& [title, digits] : file["timesteps"].items()) {
    const std::size_t space = title.find(' ');
    const Json config = {{"_class_name", title.substr(0, space)},
                         {"skip_prk_steps", true},
                         {"timestep_spacing", title.substr(space + 1)}};
    const SamplerOptions options = options_of(config);
    int compared = 0;
    for (int steps = 1; steps <= 1000; ++steps) {
      const std::string expected = digits.string().substr(static_cast<std::size_t>(4 * (steps - 1)), 4);
      if (expected == "----") continue;
      ++compared;
      EXPECT_EQ(four_digits_of(timesteps_of(sampling_program(options, steps))), expected) << title << ", " << steps;
    }
    EXPECT_GE(compared, 889) << title;
  }
  EXPECT_EQ(file["timesteps"].size(), 9u);
}

TEST(SamplingPrograms, LatentsAreDiffusers) {
  std::size_t compared = 0;
  const Json file = golden_file();
  for (const Json& one : file["runs"]) {
    const SamplerOptions options = options_of(one["config"]);
    for (std::size_t i = 0; i < one["steps"].size(); ++i) {
      const auto steps = static_cast<int>(one["steps"][i].integer());
      const Latents got = run(sampling_program(options, steps), {1.0, -0.5, 0.25});
      for (std::size_t j = 0; j < got.size(); ++j) {
        const double expected = one["latents"][i][j].number();
        const double error = std::abs(got[j] - expected) / std::max(1.0, std::abs(expected));
        EXPECT_LE(error, kTolerance) << json_text(one["config"]) << ", " << steps << " steps, latent " << j;
      }
      ++compared;
    }
  }
  EXPECT_GE(compared, 700u);
}

// In call 1 the latents from before call 0 are stepped once more, from the mean of both outputs.
TEST(SamplingPrograms, PndmRepeatsItsSecondTimestep) {
  const SamplingProgram program = sampling_program(published_options("pndm"), 4);
  EXPECT_EQ(timesteps_of(program), (std::vector<float>{751, 501, 501, 251, 1}));
  const SamplingCall &first = program.calls[0], &second = program.calls[1];
  EXPECT_EQ(second.x, first.next);
  EXPECT_NE(first.next, first.x);
  EXPECT_EQ(second.next, first.x);
  EXPECT_EQ(second.weights[static_cast<std::size_t>(second.output)],
            second.weights[static_cast<std::size_t>(first.output)]);
  EXPECT_EQ(second.weights[static_cast<std::size_t>(second.x)], 0.0);
}

// A slot is written before it is read, and a later call finds in `x` what the last one left in `next`.
TEST(SamplingPrograms, ReadNoSlotThatIsNotWritten) {
  for (const Sampler* sampler : samplers()) {
    for (int steps = 1; steps <= 40; ++steps) {
      const SamplingProgram program = sampling_program(published_options(sampler->name, Prediction::kVelocity), steps);
      std::set<int> written = {program.calls.front().x};
      int latents = program.calls.front().x;
      for (const SamplingCall& call : program.calls) {
        EXPECT_EQ(call.x, latents);
        EXPECT_NE(call.output, call.x);
        written.insert(call.output);
        for (int slot = 0; slot < program.slots; ++slot)
          if (call.weights.at(static_cast<std::size_t>(slot)) != 0.0) {
            EXPECT_EQ(written.count(slot), 1u) << sampler->name << ", " << steps << " steps, slot " << slot;
          }
        written.insert(call.next);
        latents = call.next;
      }
      EXPECT_LT(*written.rbegin(), program.slots);
    }
  }
}

TEST(SamplingPrograms, OneStepIsTakenAtTheTimestepOfItsSpacing) {
  SamplerOptions options = published_options("euler");
  const std::map<TimestepSpacing, double> expected = {
      {TimestepSpacing::kLinspace, 0}, {TimestepSpacing::kLeading, 1}, {TimestepSpacing::kTrailing, 999}};
  for (const auto& [spacing, timestep] : expected) {
    options.spacing = spacing;
    const SamplingProgram program = sampling_program(options, 1);
    ASSERT_EQ(program.calls.size(), 1u);
    EXPECT_EQ(program.calls[0].timestep, timestep);
  }
}

TEST(SamplingPrograms, NumbersOfStepsWithoutTimestepsAreRefused) {
  for (const Sampler* sampler : samplers()) {
    SamplerOptions options = published_options(sampler->name);
    const auto refusal = [&](int steps) {
      return error_of([&] { sampling_program(options, steps); }, ErrorKind::kSettings);
    };
    EXPECT_EQ(refusal(0), "num_inference_steps: 0 is below 1; use 1 or more");
    EXPECT_EQ(refusal(-1), "num_inference_steps: -1 is below 1; use 1 or more");
    EXPECT_EQ(refusal(999), "no error");
    EXPECT_EQ(refusal(1000),
              "num_inference_steps: 1000 steps of timestep_spacing leading would begin at timestep 1000; the last of "
              "the model is 999; use fewer steps, or timestep_spacing linspace or trailing");
    EXPECT_EQ(refusal(1001), "num_inference_steps: 1001 is above the 1000 timesteps of the model; use 999 or fewer");
    for (const TimestepSpacing spacing : {TimestepSpacing::kLinspace, TimestepSpacing::kTrailing}) {
      options.spacing = spacing;
      EXPECT_EQ(refusal(1000), "no error");
      EXPECT_EQ(refusal(1001), "num_inference_steps: 1001 is above the 1000 timesteps of the model; use 1000 or fewer");
    }
  }
}

std::vector<float> tensor_of(const TensorSource& source, const std::string& name) {
  const StoredTensor* const stored = source.find(name);
  if (stored == nullptr) throw Error(ErrorKind::kData, name, "is missing");
  std::vector<float> values(static_cast<std::size_t>(element_count(stored->shape)));
  source.read_float32(values.data(), *stored, 0, static_cast<std::int64_t>(values.size()));
  return values;
}

TEST(SamplingPrograms, TimestepsAndFirstLatentsAreThoseOfTheReferenceRuns) {
  int compared = 0;
  for (const char* const name : {"sd_v1", "sd_v2"}) {
    const std::string folder = std::string("goldens-families/") + name + "/";
    const std::string path = reference_file(folder + "case.json");
    if (path.empty()) GTEST_SKIP() << "only in the full reference set";
    const Json one = read_json_file(path);
    const TensorSource expected = open_safetensors(reference_file(folder + "expected.safetensors"));
    const std::vector<float> noise =
        tensor_of(open_safetensors(reference_file(folder + "batch.safetensors")), "batch0.latents");
    for (const auto& [sampler, config] : one["schedulers"].items()) {
      const SamplingProgram program =
          sampling_program(sampler_options_of(config, path), static_cast<int>(one["num_inference_steps"].integer()));
      EXPECT_EQ(timesteps_of(program), tensor_of(expected, sampler + ".timesteps")) << name << " " << sampler;
      const std::vector<float> latents = tensor_of(expected, sampler + ".latents");
      ASSERT_EQ(latents.size(), noise.size() * (program.calls.size() + 1));
      for (std::size_t i = 0; i < noise.size(); ++i)
        EXPECT_FLOAT_EQ(latents[i], static_cast<float>(program.initial_scale * static_cast<double>(noise[i])));
      ++compared;
    }
  }
  EXPECT_EQ(compared, 8);
}

}  // namespace
}  // namespace bascule::test
