// SPDX-License-Identifier: Apache-2.0
// Gradients of a whole UNet beside those that PyTorch's autograd makes of Diffusers' class in float64
// (tools/make_unet_gradients.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/isa.h"
#include "src/checkpoint/hf_folder.h"
#include "src/checkpoint/safetensors.h"
#include "src/checkpoint/tensor_source.h"
#include "src/json/json.h"
#include "src/models/families.h"
#include "tests/graph/graph_run.h"

namespace bascule::test {
namespace {

const std::string kFolder = std::string(BASCULE_TEST_DATA) + "/unet_gradients";
const std::string kUnetFolder = std::string(BASCULE_TEST_DATA) + "/goldens-families/sd_v2/unet";

std::vector<float> values_of(const TensorSource& source, const std::string& name) {
  const StoredTensor* const stored = source.find(name);
  EXPECT_NE(stored, nullptr) << name;
  if (stored == nullptr) return {};
  const std::int64_t count = element_count(stored->shape);
  std::vector<float> values(static_cast<std::size_t>(count));
  source.read_float32(values.data(), *stored, 0, count);
  return values;
}

// A tensor (samples, channels, height, width) as rows of pixels.
std::vector<float> rows_of_pictures(const TensorSource& source, const std::string& name) {
  const std::vector<float> values = values_of(source, name);
  const Extents shape = source.find(name)->shape;
  std::vector<float> rows(values.size());
  scatter(rows.data(), shape, strides_in_memory(shape, {0, 2, 3, 1}), 0, static_cast<std::int64_t>(values.size()),
          values.data());
  return rows;
}

// The norm of the difference over that of the truth.
double error_of(const std::vector<float>& ours, const std::vector<float>& truth) {
  double difference = 0.0, norm = 0.0;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const double t = static_cast<double>(truth[i]), d = static_cast<double>(ours[i]) - t;
    difference += d * d;
    norm += t * t;
  }
  return std::sqrt(difference / norm);
}

// The UNet with its weights and the golden's inputs, all weights trained, after one replay.
class WholeUnet {
 public:
  explicit WholeUnet(Isa isa = best_isa(), int threads = 2)
      : run_(counts_of(kSamplesOfGolden, 0, 0), threads, Fields{}),
        golden_(open_safetensors(kFolder + "/sd_v2.safetensors")) {
    const std::string config = kUnetFolder + "/config.json";
    const auto model = family_of_part(config).open({config, {}}, "");
    const Extents latents = golden_.find("latents")->shape, text = golden_.find("text")->shape;
    RecordOptions options;
    options.drawing = {latents[2], latents[3], 0, text[1]};
    run_.input(kNoisyLatents, rows_per_sample(latents[2] * latents[3]), latents[1]);
    run_.input(kTextEmbeddings, rows_per_sample(text[1]), text[2]);
    const Tensor output = model->record(run_.graph(), Use::kPredictNoise, options).output(kModelOutput);
    run_.graph().keep(output);
    run_.finish({output}, kernels_for(isa));
    load_weights();
    run_.set_values(kNoisyLatents, rows_of_pictures(golden_, "latents"));
    run_.set_values(kTextEmbeddings, values_of(golden_, "text"));
    run_.set_values("cotangent0", rows_of_pictures(golden_, "cotangent"));
    const std::vector<float> time = values_of(golden_, "time");
    std::copy(time.begin(), time.end(), run_.at(run_.graph().find(kTimeEmbedding)));
    Batch batch;
    batch.counts[kSamples] = kSamplesOfGolden;
    run_.replay(batch);
    const std::int64_t rows = kSamplesOfGolden * latents[2] * latents[3];
    output_ = run_.rows_of(output, rows);
  }

  const TensorSource& golden() const { return golden_; }
  const ParameterSet& parameters() { return run_.parameters(); }
  const std::vector<float>& output() const { return output_; }
  std::vector<float> all_gradients() const { return run_.all_gradients(); }
  // In the order of the file.
  std::vector<float> gradient(const Parameter& parameter, const ParameterPiece& piece) {
    const std::vector<float> whole = run_.gradient(parameter.name);
    std::vector<float> values(static_cast<std::size_t>(piece.elements));
    gather(values.data(), whole.data() + piece.first_element, piece.shape, strides_in_memory(piece.shape, piece.order),
           0, piece.elements);
    return values;
  }

 private:
  static constexpr std::int64_t kSamplesOfGolden = 2;

  void load_weights() {
    const TensorSource weights = open_hf_weights(kUnetFolder, kDiffusersWeights);
    for (int p = 0; p < run_.parameters().size(); ++p) {
      const Parameter& parameter = run_.parameters()[p];
      std::vector<float> whole(static_cast<std::size_t>(parameter.elements()));
      for (const ParameterPiece& piece : parameter.pieces) {
        const std::vector<float> values = values_of(weights, piece.name);
        scatter(whole.data() + piece.first_element, piece.shape, strides_in_memory(piece.shape, piece.order), 0,
                piece.elements, values.data());
      }
      run_.set_values(parameter.name, whole);
    }
  }

  GraphRun run_;
  TensorSource golden_;
  std::vector<float> output_;
};

TEST(UnetGradients, AreThoseOfPyTorchForEveryWeight) {
  WholeUnet unet;
  const Json errors = read_json_file(kFolder + "/float32_error.json");
  // The rule of tests/data/goldens/README.md.
  const auto bound = [&](const std::string& name) { return std::max(3.0 * errors[name].number(), 2e-6); };
  EXPECT_LE(error_of(unet.output(), rows_of_pictures(unet.golden(), "output")), bound("output"));
  std::size_t compared = 0;
  for (int p = 0; p < unet.parameters().size(); ++p) {
    const Parameter& parameter = unet.parameters()[p];
    EXPECT_TRUE(parameter.trained) << parameter.name;
    for (const ParameterPiece& piece : parameter.pieces) {
      const std::string name = "gradient/" + piece.name;
      EXPECT_LE(error_of(unet.gradient(parameter, piece), values_of(unet.golden(), name)), bound(name)) << name;
      ++compared;
    }
  }
  EXPECT_EQ(compared + 5, unet.golden().tensors().size());  // beside output and inputs: every weight has its gradient
}

TEST(UnetGradients, HaveTheSameBitsOnEveryInstructionSetAndWithAnyNumberOfThreads) {
  const std::vector<float> gradients = WholeUnet(Isa::kScalar, 1).all_gradients();
  for (const Isa isa : kAllIsas) {
    if (!isa_supported(isa)) continue;
    EXPECT_EQ(WholeUnet(isa, 3).all_gradients(), gradients) << isa_name(isa);
  }
}

}  // namespace
}  // namespace bascule::test
