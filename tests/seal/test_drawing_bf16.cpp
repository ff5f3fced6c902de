// SPDX-License-Identifier: Apache-2.0
// Runs that draw in bf16: which weights take half the memory, and that pictures are the same bytes everywhere.
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <set>

#include "kernels/isa.h"
#include "src/checkpoint/safetensors.h"
#include "tests/record/small_drawing.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test {
namespace {

constexpr char kPrompts[] = "prompts = [\"a cat\", \"a red heart\", \"two dogs\"]\nnum_inference_steps = 2\n";

Settings bf16_settings(const std::string& keys, const std::string& model = "sd_v1", const std::string& more = "") {
  Settings settings = drawing_settings(keys, model, more);
  settings.model.precision = Precision::kBf16;
  return settings;
}

std::string batch_of(int size) { return "batch_size = " + std::to_string(size) + "\n"; }
std::string threads(int count) { return "[machine]\nthreads = " + std::to_string(count) + "\n"; }

TEST(DrawingInBf16, DependsNeitherOnTheBatchNorOnThreadsNorOnTheInstructionSet) {
  const auto drawn_in_bf16 = [&](int batch, int count, Isa isa) {
    return SmallDrawing(bf16_settings(kPrompts + batch_of(batch), "sd_v1", threads(count)), isa).all();
  };
  const std::vector<Pixels> first = drawn_in_bf16(1, 1, best_isa());
  ASSERT_EQ(first.size(), 3u);
  EXPECT_EQ(std::set<Pixels>(first.begin(), first.end()).size(), 3u);
  int count = 1;
  for (const Isa isa : kAllIsas) {
    if (!isa_supported(isa)) continue;
    EXPECT_EQ(drawn_in_bf16(3, ++count, isa), first) << isa_name(isa) << ", " << count << " threads";
  }
}

TEST(DrawingInBf16, GivesAlmostThePicturesOfFloat32) {
  const std::vector<Pixels> float32 = drawn(kPrompts), bf16 = SmallDrawing(bf16_settings(kPrompts)).all();
  EXPECT_NE(bf16, float32);
  for (std::size_t i = 0; i < float32.size(); ++i) {
    double squares = 0.0;
    for (std::size_t b = 0; b < float32[i].size(); ++b) squares += std::pow(bf16[i][b] - float32[i][b], 2.0);
    EXPECT_LT(std::sqrt(squares / static_cast<double>(float32[i].size())), 4.0) << i;  // of 255
  }
}

// A copy of a pipeline whose weights of that name begin with these bits.
std::string pipeline_with(const std::string& copy, const std::string& file, const std::string& tensor,
                          std::uint16_t bits) {
  std::filesystem::copy(pipeline_folder("sd_v1"), copy, std::filesystem::copy_options::recursive);
  const std::int64_t place = open_safetensors(copy + file).find(tensor)->offset;
  std::filesystem::permissions(copy + file, std::filesystem::perms::owner_all);
  std::fstream(copy + file, std::ios::in | std::ios::out | std::ios::binary)
      .seekp(place)
      .write(static_cast<const char*>(static_cast<const void*>(&bits)), sizeof bits);
  return copy;
}

TEST(DrawingInBf16, WeightsThatAreNotFiniteAreRefused) {
  const std::string name = "down_blocks.0.resnets.0.conv1.weight";
  for (const std::uint16_t bits : std::initializer_list<std::uint16_t>{0x7f80, 0xffc0}) {  // infinite; no number
    const TemporaryFolder folder;
    Settings settings = bf16_settings(kPrompts);
    settings.model.model_name_or_path.resolved =
        pipeline_with(folder.path() + "/m", "/unet/diffusion_pytorch_model.safetensors", name, bits);
    EXPECT_NE(
        error_of([&] { SmallDrawing{settings}; }).find("tensor unet/" + name + " has numbers that are not finite"),
        std::string::npos)
        << bits;
  }
}

// Weights of linear layers and of convolutions; what reads a timestep is one row, and stays float32.
bool is_weight_of_products(const ParameterPiece& piece) {
  const bool is_of_time = piece.name.find("time_emb") != std::string::npos,
             is_table = piece.name.find("embedding") != std::string::npos;
  return piece.shape.size() >= 2 && !is_of_time && !is_table;
}

TEST(DrawingInBf16, WeightsOfProductsTakeHalfTheMemory) {
  for (const char* const model : {"sd_v1", "sd_v2"}) {
    const std::unique_ptr<RecordedDrawRun> float32 = record_draw_run(drawing_settings(kPrompts, model)),
                                           bf16 = record_draw_run(bf16_settings(kPrompts, model));
    std::int64_t rounded = 0, whole = 0;
    for (int p = 0; p < bf16->session.parameters().size(); ++p) {
      const Parameter& parameter = bf16->session.parameters()[p];
      const bool is_rounded = is_weight_of_products(parameter.pieces.front());
      EXPECT_EQ(parameter.rounded, is_rounded) << parameter.name;
      (is_rounded ? rounded : whole) += align_up<std::int64_t>(parameter.elements(), is_rounded ? 32 : 16);
    }
    EXPECT_GT(rounded, 3 * whole);
    EXPECT_EQ(bf16->plan["parameters, bf16"].bytes, 2u * static_cast<std::size_t>(rounded));
    EXPECT_EQ(bf16->plan["parameters, fixed"].bytes, 4u * static_cast<std::size_t>(whole));
    EXPECT_EQ(bf16->plan["parameters, trained"].bytes, 0u);
    EXPECT_LT(bf16->plan["workspace"].bytes, float32->plan["workspace"].bytes);
  }
}

}  // namespace
}  // namespace bascule::test
