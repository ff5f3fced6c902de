// SPDX-License-Identifier: Apache-2.0
#include "src/checkpoint/tensor_source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "src/checkpoint/hf_folder.h"
#include "src/checkpoint/safetensors.h"
#include "tests/checkpoint/files.h"
#include "tests/support/seeded.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test {
namespace {

std::vector<float> numbered(const Extents& shape) {
  std::vector<float> values(static_cast<std::size_t>(element_count(shape)));
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

// By the definition, element by element.
std::vector<float> reordered(const std::vector<float>& file, const Extents& shape, const DimensionOrder& order) {
  Extents index(shape.size(), 0);
  std::vector<float> memory;
  for (std::size_t i = 0; i < file.size(); ++i) {
    std::int64_t rest = static_cast<std::int64_t>(i);  // index of memory, whose dimension d is the file's order[d]
    for (std::size_t d = order.size(); d-- > 0;) {
      const auto of_file = static_cast<std::size_t>(order[d]);
      index[of_file] = rest % shape[of_file];
      rest /= shape[of_file];
    }
    std::int64_t place = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) place = place * shape[d] + index[d];
    memory.push_back(file[static_cast<std::size_t>(place)]);
  }
  return memory;
}

struct Case {
  Extents shape;
  DimensionOrder order;
};
const Case kCases[] = {
    {{4, 3, 5, 2}, {0, 2, 3, 1}}, {{7, 1, 1, 3}, {0, 2, 3, 1}}, {{6, 5}, {1, 0}}, {{3, 4, 2}, {2, 0, 1}}, {{9}, {0}},
    {{2, 3, 4}, {0, 1, 2}}};

TEST(DimensionOrder, ScatterAndGatherAreTheDefinitionForAnyCut) {
  Seeded random(1);
  for (const auto& [shape, order] : kCases) {
    const std::vector<float> file = numbered(shape), wanted = reordered(file, shape, order);
    const auto all = static_cast<std::int64_t>(file.size());
    const Extents strides = strides_in_memory(shape, order);
    std::vector<float> memory(file.size(), 0.0f), back(file.size(), 0.0f);
    for (std::int64_t first = 0; first < all;) {
      const std::int64_t count = std::min(all - first, random.integer(1, 7));
      scatter(memory.data(), shape, strides, first, count, file.data() + first);
      first += count;
    }
    EXPECT_EQ(memory, wanted) << shape_text(shape);
    for (std::int64_t first = 0; first < all; first += 4)
      gather(back.data() + first, memory.data(), shape, strides, first, std::min<std::int64_t>(4, all - first));
    EXPECT_EQ(back, file) << shape_text(shape);
  }
}

TEST(DimensionOrder, TensorsAreReadInItAndWrittenBackInTheFiles) {
  const TemporaryFolder folder;
  const Extents shape = {530, 331, 3, 4};
  ASSERT_GT(element_count(shape) * 4, TensorPart::kMostBytes);  // read in two parts
  const DimensionOrder order = {0, 2, 3, 1};
  const std::vector<float> values = numbered(shape);
  const std::string path = folder.path() + "/model.safetensors", again = folder.path() + "/again.safetensors";
  TensorToWrite tensor;
  tensor.name = "conv.weight";
  tensor.shape = shape;
  tensor.data = values.data();
  ASSERT_TRUE(SafetensorsWritePlan({tensor}).write(path.c_str()).ok());
  const TensorSource source = open_hf_weights(folder.path());
  std::vector<float> memory(values.size());
  const TensorReads reads = plan_reads(source, {{"conv.weight", shape, memory.data(), 0, -1, true, order}}, "");
  for (const TensorPart& part : reads.parts) ASSERT_TRUE(read_part(source, part).ok());
  EXPECT_EQ(memory, reordered(values, shape, order));
  tensor.data = memory.data();
  tensor.strides = strides_in_memory(shape, order);
  ASSERT_TRUE(SafetensorsWritePlan({tensor}).write(again.c_str()).ok());
  EXPECT_EQ(read_file(again), read_file(path));
}

TEST(HfFolder, FilesOfAnotherLibraryHaveAnotherStem) {
  const TemporaryFolder folder;
  const std::vector<float> values = numbered({3});
  TensorToWrite tensor;
  tensor.name = "a";
  tensor.shape = {3};
  tensor.data = values.data();
  ASSERT_TRUE(
      SafetensorsWritePlan({tensor}).write((folder.path() + "/diffusion_pytorch_model.safetensors").c_str()).ok());
  EXPECT_EQ(hf_weight_files(folder.path(), kDiffusersWeights),
            std::vector<std::string>{"diffusion_pytorch_model.safetensors"});
  EXPECT_NE(open_hf_weights(folder.path(), kDiffusersWeights).find("a"), nullptr);
  expect_data_error("no model.safetensors, no pytorch_model.bin", [&] { open_hf_weights(folder.path()); });
  std::filesystem::remove(folder.path() + "/diffusion_pytorch_model.safetensors");
  expect_data_error("no diffusion_pytorch_model.safetensors, no diffusion_pytorch_model.bin",
                    [&] { open_hf_weights(folder.path(), kDiffusersWeights); });
}

}  // namespace
}  // namespace bascule::test
