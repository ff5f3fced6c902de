// SPDX-License-Identifier: Apache-2.0
#include "src/checkpoint/hf_folder.h"

#include <cstring>
#include <filesystem>
#include <utility>

#include "kernels/reference/bf16.h"
#include "src/checkpoint/safetensors.h"
#include "src/json/json.h"
#include "tests/checkpoint/files.h"
#include "tests/support/reference_dir.h"
#include "tests/support/temporary_folder.h"

namespace bascule {
namespace {

using test::expect_data_error;
using test::TemporaryFolder;
using Names = std::vector<std::string>;

constexpr const char* kPrefix = "bridgetower.";

// Writes a safetensors file of float32 tensors [2, 2], all elements of which are `value`.
void write_weights(const TemporaryFolder& folder, const std::string& name, const Names& tensors, float value = 1.0f) {
  const std::vector<float> values(4, value);
  std::vector<TensorToWrite> all;
  for (const std::string& tensor : tensors) all.push_back({tensor, DType::kFloat32, {2, 2}, values.data()});
  ASSERT_TRUE(SafetensorsWritePlan(all).write((folder.path() + "/" + name).c_str()).ok());
}

WantedTensor wanted(const std::string& name, float* destination = nullptr, bool required = true) {
  WantedTensor tensor;
  tensor.name = name;
  tensor.shape = {2, 2};
  tensor.destination = destination;
  tensor.required = required;
  return tensor;
}

LoadReport load(const TensorSource& source, const std::vector<WantedTensor>& wanted, const char* prefix) {
  const TensorReads reads = plan_reads(source, wanted, prefix);
  for (const TensorPart& part : reads.parts) EXPECT_TRUE(read_part(source, part).ok());
  return reads.report;
}

TEST(HfFolder, ReferenceFoldersOpenWhole) {
  int folders = 0;
  for (const auto& entry : std::filesystem::directory_iterator(test::reference_dir() + "/goldens")) {
    if (!entry.is_directory()) continue;
    ++folders;
    const std::string folder = entry.path().string();
    const TensorSource source = open_hf_weights(folder);
    const TensorSource expected = open_safetensors(folder + "/expected.safetensors");
    for (const StoredTensor& stored : expected.tensors()) {
      if (stored.name.compare(0, 5, "grad.") != 0) continue;
      const StoredTensor* parameter = find_tensor(source, stored.name.substr(5), kPrefix);
      ASSERT_NE(parameter, nullptr) << folder << " " << stored.name;
      EXPECT_EQ(parameter->shape, stored.shape) << folder << " " << stored.name;
      test::read_all(source, *parameter);
    }
  }
  EXPECT_GE(folders, 7);
}

TEST(HfFolder, ReferenceShardsHoldTheParametersTheIndexCounts) {
  const std::string folder = test::reference_dir() + "/goldens/itm_scaled_add";
  const Json index = read_json_file(folder + "/model.safetensors.index.json");
  const TensorSource source = open_hf_weights(folder);
  std::int64_t count = 0;
  for (const StoredTensor& tensor : source.tensors()) count += element_count(tensor.shape);
  EXPECT_EQ(count, index["metadata"]["total_parameters"].integer());
}

TEST(HfFolder, ShardsOfTorchFilesOpen) {
  const TensorSource source = open_hf_weights(test::fixture("bin_shards"));
  EXPECT_EQ(source.find("first")->shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(source.find("second")->dtype, DType::kFloat16);
}

TEST(HfFolder, SafetensorsArePreferredToTorchAndOneFileToShards) {
  const TemporaryFolder folder;
  std::filesystem::copy(test::fixture("bin_shards"), folder.path());
  std::filesystem::copy(test::fixture("torch_plain_dict.bin"), folder.path() + "/pytorch_model.bin");
  EXPECT_NE(open_hf_weights(folder.path()).find("weight"), nullptr);
  write_weights(folder, "a.safetensors", {"in_shard"});
  folder.write("model.safetensors.index.json", R"({"weight_map": {"in_shard": "a.safetensors"}})");
  EXPECT_NE(open_hf_weights(folder.path()).find("in_shard"), nullptr);
  write_weights(folder, "model.safetensors", {"in_one"});
  EXPECT_NE(open_hf_weights(folder.path()).find("in_one"), nullptr);
}

TEST(HfFolder, FilesOfWeightsAreTheOneOrTheIndexAndItsShards) {
  EXPECT_EQ(hf_weight_files(test::fixture("bin_shards")).back(), "pytorch_model.bin.index.json");
  EXPECT_EQ(hf_weight_files(test::fixture("bin_shards")).size(),
            open_hf_weights(test::fixture("bin_shards")).files().size() + 1);
  const TemporaryFolder folder;
  expect_data_error("holds no weights", [&] { hf_weight_files(folder.path()); });
  folder.write("pytorch_model.bin", "");
  EXPECT_EQ(hf_weight_files(folder.path()), Names{"pytorch_model.bin"});
  folder.write(
      "model.safetensors.index.json",
      R"({"weight_map": {"a": "model-2.safetensors", "b": "model-1.safetensors", "c": "model-2.safetensors"}})");
  EXPECT_EQ(hf_weight_files(folder.path()),
            (Names{"model-1.safetensors", "model-2.safetensors", "model.safetensors.index.json"}));
}

TEST(HfFolder, RefusesFoldersWhoseWeightsAreNotThere) {
  const TemporaryFolder folder;
  expect_data_error("holds no weights", [&] { open_hf_weights(folder.path()); });
  folder.write("model.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n");
  expect_data_error("Git LFS pointer", [&] { open_hf_weights(folder.path()); });
}

TEST(HfFolder, NamesWeightsOfOtherSoftwareAndWhatConvertsThem) {
  for (const auto& [file, said] :
       {std::pair<const char*, std::string>{
            "tf_model.h5",
            "tf_model.h5 holds weights of TensorFlow; convert them with Transformers 4 or Diffusers: "
            "from_pretrained(FOLDER, from_tf=True).save_pretrained(NEW_FOLDER) of the model's class"},
        {"tf_model.h5.index.json", "from_tf=True"},
        {"model.ckpt.index", "from_tf=True"},
        {"flax_model.msgpack", "holds weights of Flax; convert them with "},
        {"flax_model.msgpack.index.json", "from_pretrained(FOLDER, from_flax=True)"},
        {"diffusion_flax_model.msgpack", "from_flax=True"},
        {"model.onnx", "model.onnx holds weights of ONNX; nothing converts them back"},
        {"onnx/model.onnx", "onnx/model.onnx holds weights of ONNX; nothing converts them back"},
        {"openvino_model.xml", "weights of OpenVINO; nothing"},
        {"rust_model.ot", "weights of Rust's tch; nothing"}}) {
    const TemporaryFolder folder;
    std::filesystem::create_directory(folder.path() + "/onnx");
    folder.write(file, "x");
    expect_data_error(said, [&] { open_hf_weights(folder.path()); });
    write_weights(folder, "model.safetensors", {"a"});
    EXPECT_NE(open_hf_weights(folder.path()).find("a"), nullptr) << file;
  }
}

TEST(HfFolder, RefusesAnIndexThatDoesNotFitItsShards) {
  const TemporaryFolder folder;
  write_weights(folder, "a.safetensors", {"x", "y"});
  write_weights(folder, "b.safetensors", {"z"});
  const auto open_with = [&](const std::string& map) {
    folder.write("model.safetensors.index.json", "{\"weight_map\": {" + map + "}}");
    open_hf_weights(folder.path());
  };
  EXPECT_NO_THROW(open_with(R"("x": "a.safetensors", "y": "a.safetensors", "z": "b.safetensors")"));
  expect_data_error("c.safetensors: is missing", [&] { open_with(R"("x": "a.safetensors", "w": "c.safetensors")"); });
  expect_data_error("lacks tensor \"w\"", [&] { open_with(R"("x": "a.safetensors", "w": "a.safetensors")"); });
  expect_data_error("lacks tensor \"x\"", [&] { open_with(R"("x": "b.safetensors", "y": "a.safetensors")"); });
  expect_data_error("must be the name of a file", [&] { open_with(R"("x": "../a.safetensors")"); });
  expect_data_error("must be the name of a file", [&] { open_with(R"("x": 3)"); });
  expect_data_error("\"weight_map\" is missing", [&] {
    folder.write("model.safetensors.index.json", "{}");
    open_hf_weights(folder.path());
  });
  write_weights(folder, "b.safetensors", {"x", "z"});
  expect_data_error("tensor \"x\" is stored twice",
                    [&] { open_with(R"("x": "a.safetensors", "z": "b.safetensors")"); });
}

TEST(HfFolder, NamesAreFoundWithAndWithoutThePrefix) {
  const TemporaryFolder folder;
  write_weights(folder, "model.safetensors", {"text.w", "bridgetower.image.w", "head.w"});
  const TensorSource source = open_hf_weights(folder.path());
  EXPECT_NE(find_tensor(source, "bridgetower.text.w", kPrefix), nullptr);  // a bare model's file
  EXPECT_NE(find_tensor(source, "image.w", kPrefix), nullptr);             // a bare model that is wanted
  EXPECT_NE(find_tensor(source, "head.w", kPrefix), nullptr);
  EXPECT_EQ(find_tensor(source, "other.w", kPrefix), nullptr);
  EXPECT_EQ(find_tensor(source, "bridgetower.text.w", ""), nullptr);
  constexpr NameChange kChanges[] = {{"picture.", "image."}, {".weight", ".w"}};
  EXPECT_EQ(find_tensor(source, "picture.weight", kPrefix), nullptr);
  EXPECT_EQ(find_tensor(source, "picture.weight", {kPrefix, kChanges}), find_tensor(source, "image.w", kPrefix));
}

TEST(HfFolder, LoadsWhatIsWantedAndSaysWhatIsMissingAndLeftOut) {
  const TemporaryFolder folder;
  write_weights(folder, "model.safetensors",
                {"text.w", "text.embeddings.position_ids", "text.embeddings.token_type_ids", "other_head.w"}, 2.5f);
  float text[4] = {0, 0, 0, 0};
  float head[4] = {7, 7, 7, 7};
  const LoadReport report = load(open_hf_weights(folder.path()),
                                 {wanted("bridgetower.text.w", text), wanted("head.w", head, false)}, kPrefix);
  EXPECT_EQ(report.loaded, 1);
  EXPECT_EQ(report.missing, Names{"head.w"});
  EXPECT_EQ(report.unused, Names{"other_head.w"});
  EXPECT_EQ(text[3], 2.5f);
  EXPECT_EQ(head[0], 7.0f);
}

TEST(HfFolder, LoadsARangeOfATensorAndNothingBeyond) {
  const TensorSource source = open_safetensors(test::fixture("all_dtypes.safetensors"));
  WantedTensor part;
  part.name = "f64";
  part.shape = {5, 3};
  part.first = 4;
  part.count = 3;
  float values[4] = {0, 0, 0, 9};
  part.destination = values;
  load(source, {part}, "");
  const std::vector<float> whole = test::read_all(source, *source.find("f64"));
  EXPECT_EQ(values[0], whole[4]);
  EXPECT_EQ(values[2], whole[6]);
  EXPECT_EQ(values[3], 9.0f);
}

// What is read as float32 and rounded, for every type of a file, row by row and in another order of dimensions.
TEST(HfFolder, ReadsIntoBf16) {
  const TensorSource source = open_safetensors(test::fixture("all_dtypes.safetensors"));
  for (const char* name : {"f32", "f64", "f16", "bf16"}) {
    const StoredTensor& stored = *source.find(name);
    const std::vector<float> whole = test::read_all(source, stored);
    ASSERT_EQ(stored.shape.size(), 2u) << name;
    const auto rows = static_cast<std::size_t>(stored.shape[0]), cols = static_cast<std::size_t>(stored.shape[1]);
    for (const DimensionOrder& order : {DimensionOrder{}, DimensionOrder{1, 0}}) {
      std::vector<std::uint16_t> values(whole.size() + 1, 9);
      WantedTensor tensor;
      tensor.name = name;
      tensor.shape = stored.shape;
      tensor.destination = values.data();
      tensor.order = order;
      load(source, {tensor}, "");
      for (std::size_t i = 0; i < whole.size(); ++i) {
        std::uint16_t truth = 0;
        reference::to_bf16({&truth, &whole[i], 1});
        EXPECT_EQ(values[order.empty() ? i : i % cols * rows + i / cols], truth) << name << " " << i;
      }
      EXPECT_EQ(values.back(), 9) << name;
    }
  }
}

// Longer than what is converted at a time.
TEST(HfFolder, ReadsALongTensorIntoBf16) {
  const TemporaryFolder folder;
  constexpr std::int64_t kRows = 3, kCols = 3001;
  std::vector<float> numbers;
  for (std::int64_t i = 0; i < kRows * kCols; ++i) numbers.push_back(1.001f * static_cast<float>(i));
  const std::string path = folder.path() + "/a.safetensors";
  ASSERT_TRUE(SafetensorsWritePlan({{"a", DType::kFloat32, {kRows, kCols}, numbers.data()}}).write(path.c_str()).ok());
  const TensorSource source = open_safetensors(path);
  std::vector<std::uint16_t> truth(numbers.size());
  reference::to_bf16({truth.data(), numbers.data(), kRows * kCols});
  for (const DimensionOrder& order : {DimensionOrder{}, DimensionOrder{1, 0}}) {
    std::vector<std::uint16_t> values(numbers.size());
    WantedTensor tensor;
    tensor.name = "a";
    tensor.shape = {kRows, kCols};
    tensor.destination = values.data();
    tensor.order = order;
    load(source, {tensor}, "");
    for (std::int64_t i = 0; i < kRows * kCols; ++i) {
      const std::int64_t at = order.empty() ? i : i % kCols * kRows + i / kCols;
      ASSERT_EQ(values[static_cast<std::size_t>(at)], truth[static_cast<std::size_t>(i)]) << i;
    }
  }
}

TEST(HfFolder, RoundsAsKernelsDo) {
  std::vector<float> numbers;
  for (std::uint32_t high = 0; high < 0x10000; high += 7) {
    for (const std::uint32_t low : {0x0u, 0x1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      const std::uint32_t bits = high << 16 | low;
      float number = 0.0f;
      std::memcpy(&number, &bits, sizeof number);
      numbers.push_back(number);
    }
  }
  std::vector<std::uint16_t> ours(numbers.size()), truth(numbers.size());
  const auto count = static_cast<std::int64_t>(numbers.size());
  convert_to_bf16(ours.data(), numbers.data(), count);
  reference::to_bf16({truth.data(), numbers.data(), count});
  EXPECT_EQ(ours, truth);
}

// A decoder with one row more than the table is another tensor, whatever the rows that both have.
TEST(HfFolder, TensorsOfOtherShapesAreNotEqual) {
  const TemporaryFolder folder;
  const std::vector<float> values(6, 1.0f);
  const std::string path = folder.path() + "/model.safetensors";
  ASSERT_TRUE(SafetensorsWritePlan({{"table", DType::kFloat32, {2, 2}, values.data()},
                                    {"equal", DType::kFloat32, {2, 2}, values.data()},
                                    {"longer", DType::kFloat32, {3, 2}, values.data()},
                                    {"flat", DType::kFloat32, {4}, values.data()}})
                  .write(path.c_str())
                  .ok());
  const TensorSource source = open_hf_weights(folder.path());
  EXPECT_TRUE(are_equal(source, "table", "equal", ""));
  for (const char* other : {"longer", "flat", "absent"}) {
    EXPECT_FALSE(are_equal(source, "table", other, "")) << other;
    EXPECT_FALSE(are_equal(source, other, "table", "")) << other;
  }
}

TEST(HfFolder, RefusesMissingAndMisshapenTensorsByName) {
  const TemporaryFolder folder;
  write_weights(folder, "model.safetensors", {"w"});
  const TensorSource source = open_hf_weights(folder.path());
  expect_data_error("tensor \"bridgetower.a\" and 1 more are missing", [&] {
    plan_reads(source, {wanted("w"), wanted("bridgetower.a"), wanted("b")}, kPrefix);
  });
  WantedTensor wide = wanted("w");
  wide.shape = {2, 3};
  expect_data_error("tensor \"w\" has shape [2, 2], but the model needs [2, 3]",
                    [&] { plan_reads(source, {wide}, ""); });
  const TensorSource integers = open_safetensors(test::fixture("all_dtypes.safetensors"));
  WantedTensor ids = wanted("i64");
  ids.shape = {5, 3};
  expect_data_error("holds integers", [&] { plan_reads(integers, {ids}, ""); });
}

}  // namespace
}  // namespace bascule
