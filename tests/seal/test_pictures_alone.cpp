// SPDX-License-Identifier: Apache-2.0
// What a picture depends on: its texts, its noise and the model; not on the batch it is drawn in, on its neighbours, on
// what was drawn before, on threads or on the instruction set.
#include <cstdlib>
#include <limits>
#include <set>

#include "kernels/isa.h"
#include "src/checkpoint/safetensors.h"
#include "src/json/json.h"
#include "tests/record/small_drawing.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test::test_pictures_alone {
namespace {

// Five prompts, one of them twice, one picture each.
constexpr char kPrompts[] =
    "prompts = [\"a cat\", \"a red heart\", \"\", \"a cat\", \"two dogs\"]\nnum_inference_steps = 5\n";

std::string batch_of(int size) { return "batch_size = " + std::to_string(size) + "\n"; }
std::string threads(int count) { return "[machine]\nthreads = " + std::to_string(count) + "\n"; }

void expect_different(const std::vector<Pixels>& pictures) {
  EXPECT_EQ(std::set<Pixels>(pictures.begin(), pictures.end()).size(), pictures.size());
}

TEST(PicturesAlone, DependNeitherOnTheBatchNorOnThreadsNorOnTheInstructionSet) {
  for (const char* const model : {"sd_v1", "sd_v2"}) {
    const std::vector<Pixels> first = drawn(kPrompts + batch_of(1), model, threads(1));
    ASSERT_EQ(first.size(), 5u);
    expect_different(first);
    for (const int batch : {2, 3, 8}) EXPECT_EQ(drawn(kPrompts + batch_of(batch), model, threads(1)), first) << batch;
    for (const int count : {2, 3, 4})
      EXPECT_EQ(drawn(kPrompts + batch_of(3), model, threads(count)), first) << count << " threads";
    for (const Isa isa : kAllIsas) {
      if (!isa_supported(isa)) continue;
      EXPECT_EQ(drawn(kPrompts + batch_of(3), model, threads(2), isa), first) << isa_name(isa);
    }
  }
}

TEST(PicturesAlone, DoNotDependOnWhatWasDrawnBefore) {
  for (const char* const scheduler : {"pndm", "ddim", "euler"}) {
    const std::string keys = std::string(kPrompts) + "scheduler = \"" + scheduler + "\"\n" + batch_of(3);
    SmallDrawing drawing(drawing_settings(keys));
    const std::vector<Pixels> first = drawing.all();
    EXPECT_EQ(drawing.all(), first) << scheduler;
    // Each in another place of another batch, of another size.
    EXPECT_EQ(drawing.batch({4, 0}), (std::vector<Pixels>{first[4], first[0]})) << scheduler;
    EXPECT_EQ(drawing.batch({2}), (std::vector<Pixels>{first[2]})) << scheduler;
    EXPECT_EQ(drawing.batch({1, 3, 2}), (std::vector<Pixels>{first[1], first[3], first[2]})) << scheduler;
  }
}

// Texts are kept in as many places as one batch needs; here ten texts, and places for two or four.
TEST(PicturesAlone, TextsThatWereDroppedAreEncodedAgain) {
  std::string rows;
  for (const char* text : {"a", "b", "c", "d", "e"})
    rows += "{\"prompt\": \"" + std::string(text) + "\", \"negative_prompt\": \"not " + text + "\", \"seed\": 7}\n";
  const TemporaryFolder folder;
  const std::string keys = "prompts_file = \"" + folder.write("p.jsonl", rows) + "\"\nnum_inference_steps = 3\n";
  const std::vector<Pixels> first = drawn(keys + batch_of(8));
  ASSERT_EQ(first.size(), 5u);
  expect_different(first);
  SmallDrawing one(drawing_settings(keys + batch_of(1))), two(drawing_settings(keys + batch_of(2)));
  EXPECT_EQ(one.run->options.prompts, 2);
  EXPECT_EQ(two.run->options.prompts, 4);
  for (const std::int64_t n : {0, 1, 0, 4, 3, 4, 0})
    EXPECT_EQ(one.batch({n}).front(), first[static_cast<std::size_t>(n)]) << n;
  const std::vector<std::vector<std::int64_t>> batches = {{0, 1}, {1, 2}, {0, 2}, {3, 0}, {4, 4}, {0, 1}};
  for (const std::vector<std::int64_t>& batch : batches) {
    const std::vector<Pixels> pictures = two.batch(batch);
    for (std::size_t i = 0; i < batch.size(); ++i)
      EXPECT_EQ(pictures[i], first[static_cast<std::size_t>(batch[i])]) << batch[0] << "," << batch[1];
  }
}

// A text that is one picture's prompt and another's negative prompt is kept once.
TEST(PicturesAlone, ATextMayBeBothPromptAndNegativePrompt) {
  const TemporaryFolder folder;
  const std::string both = folder.write("both.jsonl",
                                        "{\"prompt\": \"cat\", \"negative_prompt\": \"dog\", \"seed\": 3}\n"
                                        "{\"prompt\": \"dog\", \"negative_prompt\": \"cat\", \"seed\": 3}\n");
  const std::string second =
      folder.write("second.jsonl", "{\"prompt\": \"dog\", \"negative_prompt\": \"cat\", \"seed\": 3}\n");
  const std::string steps = "num_inference_steps = 2\n" + batch_of(2);
  SmallDrawing drawing(drawing_settings("prompts_file = \"" + both + "\"\n" + steps));
  EXPECT_EQ(drawing.run->options.prompts, 2);
  const std::vector<Pixels> pictures = drawing.all();
  ASSERT_EQ(pictures.size(), 2u);
  EXPECT_NE(pictures[0], pictures[1]);
  EXPECT_EQ(drawn("prompts_file = \"" + second + "\"\n" + steps).front(), pictures[1]);
}

TEST(PicturesAlone, ARowsOwnSeedDoesNotDependOnItsPlace) {
  const TemporaryFolder folder;
  const std::string row = "{\"prompt\": \"cat\", \"seed\": 5}\n", other = "{\"prompt\": \"dog\"}\n";
  const auto all = [&](const std::string& rows) {
    return drawn("prompts_file = \"" + folder.write("p.jsonl", rows) +
                 "\"\nnum_inference_steps = 2\nnum_images_per_prompt = 2\nseed = 5\n" + batch_of(3));
  };
  const std::vector<Pixels> first = all(row + other), last = all(other + other + row);
  ASSERT_EQ(first.size(), 4u);
  ASSERT_EQ(last.size(), 6u);
  expect_different(first);
  expect_different(last);
  EXPECT_EQ(last[4], first[0]);
  EXPECT_EQ(last[5], first[1]);
  EXPECT_NE(last[0], first[2]) << "without a seed of its own, a row's noise is that of its number";
}

TEST(PicturesAlone, WithoutGuidanceOneSampleAPictureIsComputed) {
  const std::string keys = std::string(kPrompts) + batch_of(2);
  const std::vector<Pixels> one = drawn(keys + "guidance_scale = 1.0\n");
  EXPECT_EQ(drawn(keys + "guidance_scale = 0.25\n"), one);
  EXPECT_EQ(drawn(keys + "guidance_scale = 1\n" + "throughput_warmup_batches = 0\n"), one);
  EXPECT_NE(drawn(keys + "guidance_scale = 2.0\n"), one);
  EXPECT_EQ(SmallDrawing(drawing_settings(keys + "guidance_scale = 1.0\n")).run->options.rows(), 2);
  EXPECT_EQ(SmallDrawing(drawing_settings(keys)).run->options.rows(), 4);
}

TEST(PicturesAlone, ThatDifferInOneSettingDiffer) {
  const std::string keys = "prompts = [\"a cat\"]\nnum_inference_steps = 4\n";
  std::vector<Pixels> pictures = drawn(keys);
  for (const char* line :
       {"seed = 43", "guidance_scale = 3.0", "negative_prompt = \"blurry\"", "scheduler = \"ddim\"",
        "scheduler = \"euler\"", "timestep_spacing = \"trailing\"", "timestep_spacing = \"linspace\""})
    pictures.push_back(drawn(keys + line + "\n").front());
  pictures.push_back(drawn("prompts = [\"a cat\"]\nnum_inference_steps = 5\n").front());
  pictures.push_back(drawn("prompts = [\"a dog\"]\nnum_inference_steps = 4\n").front());
  expect_different(pictures);
}

// Two sides that differ: rows and columns are not mixed up.
TEST(PicturesAlone, HaveTheSidesThatWereAskedFor) {
  SmallDrawing drawing(drawing_settings("prompts = [\"a\"]\nnum_inference_steps = 1\nheight = 8\nwidth = 24\n"));
  EXPECT_EQ(drawing.run->options.height, 8);
  EXPECT_EQ(drawing.run->options.width, 24);
  EXPECT_EQ(drawing.all().front().size(), 3u * 8 * 24);
  SmallDrawing usual(drawing_settings("prompts = [\"a\"]\nnum_inference_steps = 1\n", "sd_v2"));
  EXPECT_EQ(usual.run->options.height, 32);
}

// The noise of a reference case, and the pictures that Diffusers drew of it.
TEST(PicturesAlone, TheNoiseOfAFileGivesThePicturesOfDiffusers) {
  const TemporaryFolder folder;
  for (const char* const name : {"sd_v1", "sd_v2"}) {
    const std::string golden = pipeline_folder(name);
    const Json description = read_json_file(golden + "/case.json");
    const TensorSource batch = open_safetensors(golden + "/batch.safetensors");
    const TensorSource expected = open_safetensors(golden + "/expected.safetensors");
    const StoredTensor& latents = *batch.find("batch0.latents");
    std::vector<float> noise(static_cast<std::size_t>(element_count(latents.shape)));
    batch.read_bytes(noise.data(), latents);
    const std::string file = folder.path() + "/" + name + ".safetensors";
    ASSERT_TRUE(
        SafetensorsWritePlan({{"latents", DType::kFloat32, latents.shape, noise.data()}}).write(file.c_str()).ok());
    const bool is_guided = description["guidance_scale"].number() > 1.0;
    std::string rows;
    for (std::size_t i = 0; i < description["prompts"].size(); ++i) {
      Json row = {{"prompt", description["prompts"][i]}};
      if (is_guided) row["negative_prompt"] = description["negative_prompts"][i];
      rows += json_text(row) + "\n";
    }
    const std::string keys = "prompts_file = \"" + folder.write(std::string(name) + ".jsonl", rows) +
                             "\"\nlatents_file = \"" + file +
                             "\"\nnum_inference_steps = 5\nheight = " + json_text(description["height"]) +
                             "\nwidth = " + json_text(description["width"]) +
                             "\nguidance_scale = " + json_text(description["guidance_scale"]) + "\n";
    for (const char* const scheduler : {"pndm", "ddim", "euler"}) {
      // The file of sd_v2 is one for DDIM, without the key that PNDM needs.
      if (name == std::string("sd_v2") && scheduler == std::string("pndm")) continue;
      const std::vector<Pixels> pictures = drawn(keys + "scheduler = \"" + scheduler + "\"\nbatch_size = 2\n", name);
      const StoredTensor& bytes = *expected.find(std::string(scheduler) + ".bytes");
      Pixels truth(static_cast<std::size_t>(element_count(bytes.shape)));
      expected.read_bytes(truth.data(), bytes);
      std::size_t at = 0, different = 0;
      for (const Pixels& picture : pictures) {
        for (const std::uint8_t byte : picture) {
          ASSERT_LE(std::abs(byte - truth.at(at)), 1) << name << " " << scheduler << " byte " << at;
          different += byte != truth[at++] ? 1 : 0;
        }
      }
      EXPECT_EQ(at, truth.size());
      EXPECT_LE(different, truth.size() / 200) << name << " " << scheduler;
    }
  }
}

TEST(PicturesAlone, LatentsOfAnotherKindAreRefused) {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/l.safetensors";
  const std::vector<float> noise(2 * 4 * 8 * 8, 0.5f);
  const auto refusal = [&](const char* name, DType type, const std::vector<std::int64_t>& shape) {
    EXPECT_TRUE(SafetensorsWritePlan({{name, type, shape, noise.data()}}).write(file.c_str()).ok());
    return error_of(
        [&] { drawn("prompts = [\"a\", \"b\"]\nnum_inference_steps = 1\nlatents_file = \"" + file + "\"\n"); });
  };
  EXPECT_NE(refusal("noise", DType::kFloat32, {2, 4, 8, 8}).find("has no tensor \"latents\""), std::string::npos);
  EXPECT_NE(refusal("latents", DType::kFloat32, {1, 4, 8, 8})
                .find("\"latents\" has shape [1, 4, 8, 8], but the pictures need [2, 4, 8, 8]"),
            std::string::npos);
  EXPECT_NE(refusal("latents", DType::kFloat32, {2, 8, 8, 4}).find("has shape [2, 8, 8, 4]"), std::string::npos);
  EXPECT_NE(refusal("latents", DType::kInt32, {2, 4, 8, 8}).find("has integers"), std::string::npos);
}

TEST(PicturesAlone, NoiseThatIsNotFiniteGivesNoPicture) {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/l.safetensors";
  std::vector<float> noise(4 * 8 * 8, 0.5f);
  noise[17] = std::numeric_limits<float>::infinity();
  ASSERT_TRUE(
      SafetensorsWritePlan({{"latents", DType::kFloat32, {1, 4, 8, 8}, noise.data()}}).write(file.c_str()).ok());
  SmallDrawing drawing(
      drawing_settings("prompts = [\"a\"]\nnum_inference_steps = 1\nlatents_file = \"" + file + "\"\n"));
  const std::int64_t first[] = {0};
  const Status status = drawing.drawer.begin({first, 1});
  EXPECT_EQ(status.code, StatusCode::kReadFailed);
  EXPECT_EQ(status.detail[0], 0);  // the picture's number
}

TEST(PicturesAlone, LatentsThatAreNotFiniteGiveNoPicture) {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/l.safetensors";
  const std::vector<float> noise(4 * 8 * 8, 3e38f);  // times the first sigma, infinite
  ASSERT_TRUE(
      SafetensorsWritePlan({{"latents", DType::kFloat32, {1, 4, 8, 8}, noise.data()}}).write(file.c_str()).ok());
  SmallDrawing drawing(drawing_settings(
      "prompts = [\"a\"]\nnum_inference_steps = 1\nscheduler = \"euler\"\nlatents_file = \"" + file + "\"\n"));
  const std::int64_t first[] = {0};
  ASSERT_TRUE(drawing.drawer.begin({first, 1}).ok());
  drawing.drawer.call(0);
  EXPECT_EQ(drawing.drawer.decode(0), nullptr);
}

TEST(PicturesAlone, ABatchThatEndsBetweenTwoCallsLeavesNothingBehind) {
  SmallDrawing drawing(drawing_settings(std::string(kPrompts) + batch_of(3)));
  const std::vector<Pixels> first = drawing.all();
  EXPECT_EQ(drawing.drawer.calls(), 6u) << "PNDM calls the model once more than it has steps";
  const std::int64_t numbers[] = {0, 1, 2};
  ASSERT_TRUE(drawing.drawer.begin({numbers, 3}).ok());
  for (std::size_t call = 0; call < 3; ++call) drawing.drawer.call(call);
  EXPECT_EQ(drawing.all(), first);
}

}  // namespace
}  // namespace bascule::test::test_pictures_alone
