// SPDX-License-Identifier: Apache-2.0
// A second family, which src/ knows nothing of: a linear classifier of pictures with two classes, and a judge of its
// own. Linked with main.cpp it makes `bascule` a program that trains both families.
#include <cmath>

#include "src/graph/operations.h"
#include "src/json/json.h"
#include "src/judge/judges.h"
#include "src/models/families.h"

namespace bascule::test {
namespace {

constexpr std::int64_t kClasses = 2, kChannels = 3;

class LinearClassifier final : public Model {
 public:
  explicit LinearClassifier(const ModelSource& source)
      : side_(get_int(read_json_file(source.config_path), "image_size", source.config_path, 32)) {}

  const char* architecture() const override { return "LinearForPictures"; }
  const char* body_prefix() const override { return "linear."; }
  bool may_be_fresh(const std::string&) const override { return false; }
  std::vector<ParameterPiece> unused_tensors() const override { return {}; }
  ModelCardWords card() const override {
    return {"linear", {"linear"}, "image-classification", "AutoImageProcessor", ""};
  }
  ModelInputs inputs() const override {
    ModelInputs inputs;
    inputs.image_side = side_;
    return inputs;
  }
  Fields fields(const RecordOptions&) const override {
    return {{"pixels", DType::kFloat32, rows_per_sample(1), pixels(), FieldSource::kPixels},
            {"labels", DType::kInt32, rows_per_sample(1), 1, FieldSource::kMatchLabels}};
  }

  Recording record(Graph& graph, const RecordOptions& options) const override {
    graph.set_scope("linear");
    const Tensor rows = extract_patches(graph, "rows", graph.field("pixels"), kChannels, side_, side_, side_);
    const float deviation = 1.0f / std::sqrt(static_cast<float>(pixels()));
    const Tensor weight = graph.parameter(
        {"linear.weight", kClasses, pixels(), true, true, {piece("linear.weight", {kClasses, pixels()}, deviation)}});
    const Tensor bias =
        graph.parameter({"linear.bias", 1, kClasses, true, false, {piece("linear.bias", {kClasses}, 0.0f)}});
    const Tensor logits = linear(graph, "logits", rows, weight, bias);
    const ClassLoss loss = cross_entropy_loss(graph, logits, graph.field("labels"), options.label_smoothing);
    Recording recording;
    recording.loss = loss.loss;
    recording.outputs = {{"loss", loss.loss}, {"hits", loss.hits}};
    return recording;
  }

 private:
  std::int64_t pixels() const { return kChannels * side_ * side_; }
  static ParameterPiece piece(const std::string& name, std::vector<std::int64_t> shape, float deviation) {
    ParameterPiece piece;
    piece.name = name;
    piece.elements = 1;
    for (const std::int64_t extent : shape) piece.elements *= extent;
    piece.shape = std::move(shape);
    piece.initial = {0.0f, deviation};
    return piece;
  }

  std::int64_t side_;
};

constexpr Metric kMetrics[] = {{"top_1", "top-1 accuracy", 6, true, false, 1, 1}};

class Top1 final : public Judge {
 public:
  explicit Top1(const JudgeShape& shape) : Judge(shape) {}
  const char* file() const override { return "top_1.txt"; }
  std::int64_t file_bytes(std::int64_t) const override { return 0; }
  void write_files(const JudgedFiles&, Report*) const override {}

 protected:
  void found(GemmCache&) override { hits_ = integers("hits"); }
  double take_rows(const Batch&, const Manifest&, std::int64_t counted) noexcept override {
    double right = 0.0;
    for (std::int64_t i = 0; i < counted; ++i) right += hits_[i];
    return right;
  }
  void move_row(std::int64_t, std::int64_t) noexcept override {}
  void judge_rows(Threads&, const Sums& sums, EvaluationRecord* record) noexcept override {
    (*record)[kMetrics[0]] = sums.right / sums.counted;
  }

 private:
  const std::int32_t* hits_ = nullptr;
};

const JudgeKind kTop1 = {
    "top_1", {kMetrics, 1}, false, "", [](const JudgeShape& shape) { return std::unique_ptr<Judge>(new Top1(shape)); }};

const Family kLinear = {
    "linear",
    "LinearImageProcessor",
    {{{"picture_classes", true, false, true, {}}, "top_1", false}},
    {},
    {},
    [](const ModelSource& source, const std::string&) { return std::unique_ptr<Model>(new LinearClassifier(source)); },
    [](const std::string&) { return "LinearForPictures"; }};

// Before main.
const bool kRegistered = (add_judge(kTop1), add_family(kLinear), true);

}  // namespace
}  // namespace bascule::test
