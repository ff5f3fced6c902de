// SPDX-License-Identifier: Apache-2.0
// A pipeline of two models that the program does not know: both have a tensor "weight", each in a file of its own, and
// the kernel of the first is read with its channels last.
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/checkpoint/safetensors.h"
#include "src/graph/operations.h"
#include "src/json/json.h"
#include "src/session/model_folder.h"
#include "src/session/session.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test::test_parts {
namespace {

constexpr std::int64_t kOut = 4, kIn = 3, kSide = 2;
const std::vector<std::int64_t> kKernel = {kOut, kIn, kSide, kSide};

// One kernel, (out, in, height, width) in the file and (out, height * width * in) here.
class OnePart final : public Model {
 public:
  explicit OnePart(const ModelSource& source) : has_weight_(source.has_weights("weight")) {}
  const char* architecture() const override { return "OnePart"; }
  const char* body_prefix() const override { return ""; }
  bool may_be_fresh(const std::string&) const override { return !has_weight_; }
  std::vector<ParameterPiece> unused_tensors() const override { return {}; }
  ModelCardWords card() const override { return {}; }
  ModelInputs inputs() const override { return {}; }
  Fields fields(const RecordOptions&) const override { return {}; }
  Recording record(Graph& graph, Use, const RecordOptions& options) const override {
    ParameterPiece piece;
    piece.name = "weight";
    piece.shape = kKernel;
    piece.elements = kOut * kIn * kSide * kSide;
    piece.initial = {0.0f, 1.0f};
    piece.order = {0, 2, 3, 1};
    Recording recording;
    recording.outputs = {
        {"weight", graph.parameter({"weight", kOut, kIn * kSide * kSide, options.frozen.empty(), false, {piece}})}};
    return recording;
  }

 private:
  const bool has_weight_;
};

Family family() {
  FamilyHead head;
  head.words.name = "only";
  Family family = {"OnePartForTests", "", {head}, {}, {}, nullptr};
  family.open = [](const ModelSource& source, const std::string&) {
    return std::unique_ptr<Model>(new OnePart(source));
  };
  return family;
}

class Parts : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    static const Family known = family();
    add_family(known);
  }
  void SetUp() override {
    write(
        "model_index.json",
        R"({"_class_name": "P", "unet": ["diffusers", "U"], "vae": ["diffusers", "V"], "safety_checker": [null, null]})");
    for (const auto& [part, stem, first] :
         {std::tuple("unet", "diffusion_pytorch_model", 0.0f), std::tuple("vae", "model", 100.0f)}) {
      std::filesystem::create_directory(folder.path() + "/" + part);
      write(std::string(part) + "/config.json", R"({"_class_name": "OnePartForTests"})");
      std::vector<float> values(kOut * kIn * kSide * kSide);
      std::iota(values.begin(), values.end(), first);
      TensorToWrite tensor;
      tensor.name = "weight";
      tensor.shape = kKernel;
      tensor.data = values.data();
      ASSERT_TRUE(SafetensorsWritePlan({tensor}).write(file(part, stem).c_str()).ok());
    }
  }
  void write(const std::string& name, const std::string& text) const { folder.write(name, text); }
  std::string file(const std::string& part, const std::string& stem) const {
    return folder.path() + "/" + part + "/" + stem + ".safetensors";
  }
  std::vector<Part> open() const {
    return open_parts(folder.path(), {{"unet", "only", kDiffusersWeights}, {"vae", "only"}});
  }

  const TemporaryFolder folder;
};

struct Sealed {
  Session session;
  Tensor weights[2];
  Threads threads{2, false};

  explicit Sealed(const std::vector<Part>& parts, bool trained = false) {
    RecordOptions options;
    if (!trained) options.frozen = {"weight"};
    Graph& graph = session.add_graph({}, {});
    for (std::size_t i = 0; i < parts.size(); ++i) {
      graph.set_part(parts[i].name);
      weights[i] = parts[i].model->record(graph, Use::kReference, options).output("weight");
    }
    session.seal_alone(kernels_for(best_isa()), 2);
  }
  const float* at(std::size_t part) const { return session.tape(0).at(weights[part]); }
};

class TrainedOrNot : public Parts, public ::testing::WithParamInterface<bool> {};

TEST_P(TrainedOrNot, PartsOfOneNameAreReadEachFromItsFolderAndWrittenBack) {
  const std::vector<Part> parts = open();
  Sealed sealed(parts, GetParam());
  const ParameterMemory memory = sealed.session.parameter_memory();
  ASSERT_EQ(memory.set->size(), 2);
  EXPECT_EQ((*memory.set)[0].pieces[0].name, "unet/weight");
  const WeightsStem stems[] = {kDiffusersWeights, {}};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const TensorSource source = open_hf_weights(parts[i].folder, stems[i]);
    StartWork work;
    const LoadReport report = load_parameters(&work, source, memory, *parts[i].model, 0, false, parts[i].name);
    work.run(sealed.threads);
    EXPECT_EQ(report.loaded, 1);
  }
  for (std::size_t part = 0; part < 2; ++part) {
    for (std::int64_t o = 0; o < kOut; ++o) {
      for (std::int64_t at = 0; at < kSide * kSide; ++at) {
        for (std::int64_t i = 0; i < kIn; ++i) {
          const float in_file =
              static_cast<float>(100 * static_cast<std::int64_t>(part) + (o * kIn + i) * kSide * kSide + at);
          EXPECT_EQ(sealed.at(part)[(o * kSide * kSide + at) * kIn + i], in_file);
        }
      }
    }
  }
  const std::string again = folder.path() + "/again.safetensors";
  const SafetensorsWritePlan plan(
      tensors_to_write(*memory.set, *memory.layout, memory.trained, memory.fixed, "", "vae"));
  ASSERT_TRUE(plan.write(again.c_str()).ok());
  EXPECT_EQ(read_file(again), read_file(file("vae", "model")));
}

INSTANTIATE_TEST_SUITE_P(Parts, TrainedOrNot, ::testing::Bool());

TEST_F(Parts, OfOneNameHaveFreshValuesOfTheirOwn) {
  Sealed sealed(open());
  StartWork work;
  initialise_parameters(&work, sealed.session.parameter_memory(), 7);
  work.run(sealed.threads);
  EXPECT_NE(sealed.at(0)[0], sealed.at(1)[0]);
}

TEST_F(Parts, OfOneNameKeepStatesOfTheirOwn) {
  Session session;
  Graph& graph = session.add_graph({}, {});
  for (const char* part : {"unet", "vae", "unet"}) {
    graph.set_part(part);
    graph.state({"cache", 2, 3});
  }
  ASSERT_EQ(session.states().size(), 2);
  EXPECT_EQ(session.states()[0].name, "unet/cache");
  EXPECT_EQ(session.states()[1].name, "vae/cache");
}

TEST_F(Parts, ThatAreMissingAreNamed) {
  const auto refused = [&](const std::string& part) {
    return error_of([&] { open_parts(folder.path(), {{part, "only"}}); });
  };
  EXPECT_NE(refused("text_encoder").find("model_index.json: has no \"text_encoder\", which the model needs"),
            std::string::npos);
  EXPECT_NE(refused("safety_checker").find("has no \"safety_checker\""), std::string::npos);
  EXPECT_NE(error_of([&] {
              open_parts(folder.path(), {{"unet", "another"}});
            }).find("cannot be the \"unet\""),
            std::string::npos);
  write("vae/config.json", R"({"_class_name": "AutoencoderOfNobody"})");
  EXPECT_NE(refused("vae").find("\"AutoencoderOfNobody\""), std::string::npos);
  std::filesystem::remove(folder.path() + "/model_index.json");
  EXPECT_NE(refused("unet").find("model_index.json: is missing"), std::string::npos);
}

TEST(NameInPart, IsTheFilesNameOfThatPartAlone) {
  EXPECT_EQ(name_in_part("unet/conv_in.weight", "unet"), "conv_in.weight");
  EXPECT_EQ(name_in_part("unet/conv_in.weight", "vae"), std::nullopt);
  EXPECT_EQ(name_in_part("unet/conv_in.weight", ""), std::nullopt);
  EXPECT_EQ(name_in_part("unet/conv_in.weight", "unet2"), std::nullopt);
  EXPECT_EQ(name_in_part("unet/conv_in.weight", "bert"), std::nullopt);
  EXPECT_EQ(name_in_part("conv_in.weight", ""), "conv_in.weight");
  EXPECT_EQ(name_in_part("conv_in.weight", "unet"), std::nullopt);
}

}  // namespace
}  // namespace bascule::test::test_parts
