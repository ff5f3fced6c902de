// SPDX-License-Identifier: Apache-2.0
// A second family, which src/ knows nothing of: linear classifiers with two classes, one of pictures without texts and
// one of texts without pictures, and a judge of their own. Linked with main.cpp it makes `bascule` a program that
// trains both families.
#include <cmath>

#include "src/graph/operations.h"
#include "src/json/json.h"
#include "src/judge/judges.h"
#include "src/models/families.h"

namespace bascule::test {
namespace {

constexpr std::int64_t kClasses = 2, kChannels = 3;

ParameterPiece piece(const std::string& name, std::vector<std::int64_t> shape, float deviation) {
  ParameterPiece piece;
  piece.name = name;
  piece.elements = 1;
  for (const std::int64_t extent : shape) piece.elements *= extent;
  piece.shape = std::move(shape);
  piece.initial = {0.0f, deviation};
  return piece;
}

Tensor matrix(Graph& graph, const std::string& name, std::int64_t rows, std::int64_t cols, float deviation) {
  return graph.parameter({name, rows, cols, true, true, {piece(name, {rows, cols}, deviation)}});
}

class Linear : public Model {
 public:
  const char* body_prefix() const override { return "linear."; }
  bool may_be_fresh(const std::string&) const override { return false; }
  std::vector<ParameterPiece> unused_tensors() const override { return {}; }

  Recording record(Graph& graph, const RecordOptions& options) const override {
    graph.set_scope("linear");
    const Tensor rows = record_rows(graph);
    const std::int64_t width = graph[rows].cols;
    const Tensor weight = matrix(graph, "linear.weight", kClasses, width, 1.0f / std::sqrt(static_cast<float>(width)));
    const Tensor bias =
        graph.parameter({"linear.bias", 1, kClasses, true, false, {piece("linear.bias", {kClasses}, 0.0f)}});
    const Tensor logits = linear(graph, "logits", rows, weight, bias);
    const ClassLoss loss = cross_entropy_loss(graph, logits, graph.field("labels"), options.label_smoothing);
    Recording recording;
    recording.loss = loss.loss;
    recording.outputs = {{"loss", loss.loss}, {"hits", loss.hits}};
    return recording;
  }

 protected:
  static Field labels() { return {"labels", DType::kInt32, rows_per_sample(1), 1, FieldSource::kMatchLabels}; }
  virtual Tensor record_rows(Graph& graph) const = 0;  // one a sample
};

class OfPictures final : public Linear {
 public:
  explicit OfPictures(const Json& config, const std::string& path) : side_(get_int(config, "image_size", path)) {}

  const char* architecture() const override { return "LinearForPictures"; }
  ModelCardWords card() const override {
    return {"linear", {"linear"}, "image-classification", "AutoImageProcessor", ""};
  }
  ModelInputs inputs() const override {
    ModelInputs inputs;
    inputs.image_side = side_;
    return inputs;
  }
  Fields fields(const RecordOptions&) const override {
    return {{"pixels", DType::kFloat32, rows_per_sample(1), kChannels * side_ * side_, FieldSource::kPixels}, labels()};
  }

 protected:
  Tensor record_rows(Graph& graph) const override {
    return extract_patches(graph, "rows", graph.field("pixels"), kChannels, side_, side_, side_);
  }

 private:
  std::int64_t side_;
};

class OfTexts final : public Linear {
 public:
  explicit OfTexts(const Json& config, const std::string& path) : vocabulary_(get_int(config, "vocab_size", path)) {}

  const char* architecture() const override { return "LinearForTexts"; }
  ModelCardWords card() const override { return {"linear", {"linear"}, "text-classification", "AutoTokenizer", ""}; }
  ModelInputs inputs() const override {
    ModelInputs inputs;
    inputs.vocabulary_size = vocabulary_;
    inputs.max_positions = kPositions;
    inputs.pad_id = 1;
    return inputs;
  }
  Fields fields(const RecordOptions&) const override {
    const Extent tokens = rows_of_stream(kFirstModelStream);
    return {{"token_ids", DType::kInt32, tokens, 1, FieldSource::kTokenIds},
            {"position_ids", DType::kInt32, tokens, 1, FieldSource::kPositionIds},
            {"text_offsets", DType::kInt32, {kSamples, 1, 1}, 1, FieldSource::kTextOffsets},
            labels()};
  }

 protected:
  // Every token attends to all of its text, so the first one's row is a mean.
  Tensor record_rows(Graph& graph) const override {
    const Tensor words = matrix(graph, "linear.words", vocabulary_, kWidth, 0.5f);
    const Tensor positions = matrix(graph, "linear.positions", kPositions, kWidth, 0.02f);
    const Tensor type = matrix(graph, "linear.type", 1, kWidth, 0.02f);
    const Tensor tokens = text_embedding(graph, "tokens", words, positions, type, graph.field("token_ids"),
                                         graph.field("position_ids"), 1);
    const SampleRows rows{rows_of_stream(kFirstModelStream), graph.field("text_offsets"), {}};
    const Tensor mixed =
        attention(graph, "mixed", {tokens, 0}, rows, {tokens, 0}, {tokens, 0}, rows, 1, kWidth, {}, {});
    return first_rows(graph, "first", mixed, rows);
  }

 private:
  static constexpr std::int64_t kWidth = 16, kPositions = 40;
  std::int64_t vocabulary_;
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

const char* class_of(const std::string& head) {
  return head == "text_classes" ? "LinearForTexts" : "LinearForPictures";
}

std::unique_ptr<Model> open_linear(const ModelSource& source, const std::string& head) {
  const Json config = read_json_file(source.config_path);
  if (head == "text_classes") return std::make_unique<OfTexts>(config, source.config_path);
  return std::make_unique<OfPictures>(config, source.config_path);
}

const Family kLinear = {"linear",
                        "LinearImageProcessor",
                        {{{"picture_classes", true, false, true, {}}, "top_1", false},
                         {{"text_classes", true, false, true, {}}, "top_1", false}},
                        {},
                        {},
                        open_linear,
                        class_of};

// Before main.
const bool kRegistered = (add_judge(kTop1), add_family(kLinear), true);

}  // namespace
}  // namespace bascule::test
