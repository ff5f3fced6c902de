// SPDX-License-Identifier: Apache-2.0
// The pipeline of `make demo-draw`, which was trained and saved in float16: it draws what Diffusers draws with it.
#include <fstream>

#include "src/checkpoint/safetensors.h"
#include "tests/record/small_drawing.h"

namespace bascule::test {
namespace {

const std::string kFolder = std::string(BASCULE_TEST_DATA) + "/emoji-drawing";

// diffusers.safetensors: noise of pictures of the first prompts, and what 4 steps with guidance 3 make of it.
TEST(DrawingDemo, DrawsThePicturesOfDiffusers) {
  const TensorSource golden = open_safetensors(kFolder + "/diffusers.safetensors");
  const StoredTensor& bytes = *golden.find("bytes");
  ASSERT_EQ(bytes.shape, (std::vector<std::int64_t>{3, 64, 64, 3}));
  Pixels truth(static_cast<std::size_t>(element_count(bytes.shape)));
  golden.read_bytes(truth.data(), bytes);

  std::ifstream lines(kFolder + "/prompts.txt");
  std::string prompts, line;
  for (int i = 0; i < 3 && std::getline(lines, line); ++i) prompts += "\"" + line + "\", ";
  const Settings settings =
      read_settings_text("[model]\nmodel_name_or_path = \"" + kFolder + "\"\n[draw]\noutput_dir = \"o\"\nprompts = [" +
                             prompts + "]\nlatents_file = \"" + kFolder +
                             "/diffusers.safetensors\"\nnum_inference_steps = 4\nguidance_scale = 3.0\n",
                         "test.toml", "/place", drawing_words);

  std::size_t at = 0, different = 0;
  for (const Pixels& picture : SmallDrawing(settings).all()) {
    for (const std::uint8_t byte : picture) {
      ASSERT_LE(std::abs(byte - truth.at(at)), 1) << "byte " << at;
      different += byte != truth[at++] ? 1 : 0;
    }
  }
  EXPECT_EQ(at, truth.size());
  EXPECT_LE(different, truth.size() / 200);
}

}  // namespace
}  // namespace bascule::test
