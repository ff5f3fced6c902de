// SPDX-License-Identifier: Apache-2.0
// Four model families and two judges that the program does not know: a linear classifier of pictures, classifiers of
// texts and of pairs of texts without pictures, and a writer of targets. Linked with main.cpp they make
// bascule_classifiers, which trains them beside those of src/.
#include <memory>
#include <string>
#include <utility>

#include "src/base/error.h"
#include "src/graph/operations.h"
#include "src/json/json.h"
#include "src/judge/judge.h"
#include "src/models/families.h"

namespace bascule {
namespace {

constexpr Metric kMetrics[] = {{"class_accuracy", "right classes", 0, true, false, 1, 1}};
constexpr Metric kTargetMetrics[] = {{"target_accuracy", "right tokens of targets", 0, true, false, 1, 1}};

// The share of rows whose class has the largest logit.
class ClassAccuracy final : public Judge {
 public:
  explicit ClassAccuracy(const JudgeShape& shape) : Judge(shape) { read(&hits_, "hits"); }
  const char* file() const override { return "classes.txt"; }
  std::int64_t file_bytes(std::int64_t) const override { return 0; }
  void write_files(const JudgedFiles&, Report*) const override {}

 protected:
  void take_rows(const Batch& batch, const Manifest&, Sums* sums) noexcept override {
    for (std::int64_t s = 0; s < batch.counts.samples(); ++s) sums->right += hits_[s];
  }
  void move_row(std::int64_t, std::int64_t) noexcept override {}
  void judge_rows(Threads&, const Sums* sums, EvaluationRecord* record) noexcept override {
    (*record)[kMetrics[0]] = sums->share_right();
  }

 private:
  const std::int32_t* hits_ = nullptr;  // (samples)
};

const JudgeKind kClassAccuracy = {
    "class_accuracy", {kMetrics, std::size(kMetrics)}, false, "", [](const JudgeShape& shape) {
      return std::unique_ptr<Judge>(new ClassAccuracy(shape));
    }};

// The share of tokens of targets that have the largest logit. The loss is a mean over them.
class TargetAccuracy final : public Judge {
 public:
  explicit TargetAccuracy(const JudgeShape& shape) : Judge(shape) { read(&hits_, "hits"); }
  const char* file() const override { return "targets.txt"; }
  std::int64_t file_bytes(std::int64_t) const override { return 0; }
  void write_files(const JudgedFiles&, Report*) const override {}

 protected:
  void take_rows(const Batch&, const Manifest&, Sums* sums) noexcept override {
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(sums->counted); ++i) sums->right += hits_[i];
  }
  void move_row(std::int64_t, std::int64_t) noexcept override {}
  void judge_rows(Threads&, const Sums* sums, EvaluationRecord* record) noexcept override {
    (*record)[kTargetMetrics[0]] = sums->share_right();
  }

 private:
  const std::int32_t* hits_ = nullptr;  // (labelled tokens)
};

const JudgeKind kTargetAccuracy = {
    "target_accuracy", {kTargetMetrics, std::size(kTargetMetrics)}, false, "", [](const JudgeShape& shape) {
      return std::unique_ptr<Judge>(new TargetAccuracy(shape));
    }};

Tensor weight(Graph& graph, const std::string& name, std::int64_t rows, std::int64_t cols, float deviation) {
  ParameterPiece piece;
  piece.name = name;
  piece.shape = {rows, cols};
  piece.elements = rows * cols;
  piece.initial = {0.0f, deviation};
  return graph.parameter({name, rows, cols, true, true, {piece}});
}

Tensor bias(Graph& graph, const std::string& name, std::int64_t cols) {
  ParameterPiece piece;
  piece.name = name;
  piece.shape = {cols};
  piece.elements = cols;
  return graph.parameter({name, 1, cols, true, false, {piece}});
}

class Classifier : public Model {
 public:
  explicit Classifier(const ModelSource& source) : path_(source.config_path), json_(read_json_file(path_)) {}

  const char* body_prefix() const override { return ""; }
  bool may_be_fresh(const std::string&) const override { return false; }
  std::vector<ParameterPiece> unused_tensors() const override { return {}; }
  ModelCardWords card() const override { return {"Classifier", {"classifier"}, "other", "AutoTokenizer", ""}; }

 protected:
  std::int64_t number(const char* key) const { return get_int(json_, key, path_); }
  Recording classify(Graph& graph, const RecordOptions& options, Tensor rows) const {
    const std::int64_t classes = number("classes");
    const Tensor logits =
        linear(graph, "logits", rows, weight(graph, "classifier.weight", classes, graph[rows].cols, 0.02f),
               bias(graph, "classifier.bias", classes));
    const ClassLoss loss = cross_entropy_loss(graph, logits, graph.field("labels"), options.label_smoothing);
    Recording recording;
    recording.losses = {{"loss", loss.loss, kSamples}};
    recording.outputs = {{"hits", loss.hits}};
    return recording;
  }
  Field labels() const { return {"labels", DType::kInt32, rows_per_sample(1), 1, FieldSource::kClassLabels}; }

 private:
  std::string path_;
  Json json_;
};

class PictureClassifier final : public Classifier {
 public:
  using Classifier::Classifier;
  const char* architecture() const override { return "PictureClassifierForTests"; }
  ModelInputs inputs() const override {
    ModelInputs inputs;
    inputs.image_side = number("image_size");
    inputs.classes = number("classes");
    return inputs;
  }
  Fields fields(const RecordOptions&) const override {
    const std::int64_t side = number("image_size");
    return {{"pixels", DType::kFloat32, rows_per_sample(1), 3 * side * side, FieldSource::kPixels}, labels()};
  }
  // One patch that is the whole picture.
  Recording record(Graph& graph, Use, const RecordOptions& options) const override {
    const std::int64_t side = number("image_size");
    return classify(graph, options, extract_patches(graph, "picture", graph.field("pixels"), 3, side, side, side));
  }
};

// Embeddings, one head of attention over each text, and its first row.
class TextClassifier : public Classifier {
 public:
  using Classifier::Classifier;
  const char* architecture() const override { return "TextClassifierForTests"; }
  ModelInputs inputs() const override {
    ModelInputs inputs;
    inputs.texts[0].vocabulary_size = number("vocab_size");
    inputs.texts[0].max_positions = kPositions;
    inputs.texts[0].positions = {kPad + 1, kPad};
    inputs.classes = number("classes");
    return inputs;
  }
  Fields fields(const RecordOptions&) const override {
    const Extent tokens = rows_of_stream(kTokens);
    return {{"token_ids", DType::kInt32, tokens, 1, FieldSource::kTokenIds},
            {"position_ids", DType::kInt32, tokens, 1, FieldSource::kPositionIds},
            {"text_offsets", DType::kInt32, {kSamples, 1, 1}, 1, FieldSource::kTextOffsets},
            labels()};
  }
  Recording record(Graph& graph, Use, const RecordOptions& options) const override {
    const std::int64_t width = number("hidden_size");
    const SampleRows rows{rows_of_stream(kTokens), graph.field("text_offsets"), {}};
    const Tensor embedded =
        text_embedding(graph, "embeddings",
                       {weight(graph, "word.weight", number("vocab_size"), width, 0.1f),
                        weight(graph, "position.weight", kPositions, width, 0.02f),
                        weight(graph, "type.weight", inputs().texts[0].token_types, width, 0.1f)},
                       {graph.field("token_ids"), graph.field("position_ids"), token_types(graph)}, {kPad, kPad});
    const Tensor all = linear(graph, "qkv", embedded, weight(graph, "qkv.weight", 3 * width, width, 0.1f),
                              bias(graph, "qkv.bias", 3 * width));
    const Tensor context =
        attention(graph, "attention", {all, 0}, rows, {all, width}, {all, 2 * width}, rows, 1, width, {}, {});
    return classify(graph, options, first_rows(graph, "first", context, rows));
  }

 protected:
  static constexpr int kTokens = kFirstModelStream;

 private:
  virtual Tensor token_types(Graph&) const { return {}; }

  static constexpr std::int64_t kPositions = 40;
  static constexpr std::int32_t kPad = 1;
};

// The same of pairs: the texts of columns "caption" and "reply", told apart by the types of their tokens.
class PairClassifier final : public TextClassifier {
 public:
  using TextClassifier::TextClassifier;
  const char* architecture() const override { return "PairClassifierForTests"; }
  ModelInputs inputs() const override {
    ModelInputs inputs = TextClassifier::inputs();
    inputs.texts[0].token_types = number("type_vocab_size");
    inputs.reads_pairs = true;
    return inputs;
  }
  Fields fields(const RecordOptions& options) const override {
    Fields fields = TextClassifier::fields(options);
    fields.push_back({"token_types", DType::kInt32, rows_of_stream(kTokens), 1, FieldSource::kTokenTypes});
    return fields;
  }

 private:
  Tensor token_types(Graph& graph) const override { return graph.field("token_types"); }
};

// Two texts a sample: a source, and a target whose tokens are predicted from the source and from what a decoder reads
// of the target, all of it. They have tables and streams of their own.
class TargetWriter final : public Classifier {
 public:
  using Classifier::Classifier;
  const char* architecture() const override { return "TargetWriterForTests"; }
  ModelInputs inputs() const override {
    ModelInputs inputs;
    inputs.texts[kSource] = {number("vocab_size"), 0, kPositions, {kPad + 1, kPad}, 1};
    inputs.texts[kTarget] = {number("vocab_size"), 0, kPositions, {}, 1, 2, kPad};
    return inputs;
  }
  Fields fields(const RecordOptions&) const override {
    const Extent labelled = rows_of_stream(kLabelled);
    Fields fields = {{"labelled_rows", DType::kInt32, labelled, 1, FieldSource::kLabelledRows, kTarget},
                     {"labels", DType::kInt32, labelled, 1, FieldSource::kTokenLabels, kTarget},
                     {"target_decoder_ids", DType::kInt32, rows_of_stream(kFirstModelStream + kTarget), 1,
                      FieldSource::kDecoderIds, kTarget}};
    for (const std::uint8_t text : {kSource, kTarget}) {
      const Extent tokens = rows_of_stream(kFirstModelStream + text);
      const std::string name = names(text);
      fields.push_back({name + "token_ids", DType::kInt32, tokens, 1, FieldSource::kTokenIds, text});
      fields.push_back({name + "position_ids", DType::kInt32, tokens, 1, FieldSource::kPositionIds, text});
      fields.push_back({name + "offsets", DType::kInt32, {kSamples, 1, 1}, 1, FieldSource::kTextOffsets, text});
    }
    return fields;
  }
  Recording record(Graph& graph, Use, const RecordOptions& options) const override {
    const SampleRows source = rows(graph, kSource), target = rows(graph, kTarget);
    const Tensor read = embed(graph, kSource, "token_ids"), embedded = embed(graph, kTarget, "decoder_ids");
    const Tensor written = attend(graph, "self", embedded, target, embedded, target);
    const Tensor both = concatenate(graph, "both", embedded, attend(graph, "cross", written, target, read, source));
    const Tensor predicted = gather_rows(graph, "predicted", both, graph.field("labelled_rows"));
    const std::int64_t words = number("vocab_size");
    const Tensor logits =
        linear(graph, "logits", predicted, weight(graph, "classifier.weight", words, graph[predicted].cols, 0.02f),
               bias(graph, "classifier.bias", words));
    const ClassLoss loss = cross_entropy_loss(graph, logits, graph.field("labels"), options.label_smoothing);
    Recording recording;
    recording.losses = {{"loss", loss.loss, kLabelled}};
    recording.outputs = {{"hits", loss.hits}};
    return recording;
  }

 private:
  static constexpr std::uint8_t kSource = 0, kTarget = 1;
  static constexpr int kLabelled = kFirstModelStream + 2;
  static constexpr std::int64_t kPositions = 40;
  static constexpr std::int32_t kPad = 1;

  static std::string names(std::uint8_t text) { return text == kSource ? "source_" : "target_"; }
  static SampleRows rows(Graph& graph, std::uint8_t text) {
    return {rows_of_stream(kFirstModelStream + text), graph.field(names(text) + "offsets"), {}};
  }
  Tensor embed(Graph& graph, std::uint8_t text, const std::string& ids) const {
    const std::int64_t width = number("hidden_size");
    const TextShape shape = inputs().texts[text];
    const std::string name = names(text);
    return text_embedding(graph, name + "embeddings",
                          {weight(graph, name + "word.weight", shape.vocabulary_size, width, 0.1f),
                           weight(graph, name + "position.weight", shape.max_positions, width, 0.02f),
                           weight(graph, name + "type.weight", 1, width, 0.1f)},
                          {graph.field(name + ids), graph.field(name + "position_ids"), {}}, {});
  }
  // One head of attention.
  Tensor attend(Graph& graph, const std::string& name, Tensor x, const SampleRows& x_rows, Tensor read,
                const SampleRows& read_rows) const {
    const std::int64_t width = number("hidden_size");
    const auto project = [&](const char* part, Tensor of) {
      const std::string whole = name + "_" + part;
      return linear(graph, whole, of, weight(graph, whole + ".weight", width, width, 0.1f),
                    bias(graph, whole + ".bias", width));
    };
    const Tensor query = project("query", x), key = project("key", read), value = project("value", read);
    return attention(graph, name, {query, 0}, x_rows, {key, 0}, {value, 0}, read_rows, 1, width, {}, {});
  }
};

FamilyHead classes(const char* architecture, bool reads_pairs = false) {
  FamilyHead head;
  head.architecture = architecture;
  head.words.name = "classes";
  head.words.reads_labels = head.words.has_classes = true;
  head.words.reads_pairs = reads_pairs;
  head.judge = kClassAccuracy.name;
  return head;
}

FamilyHead targets() {
  FamilyHead head;
  head.words.name = "targets";
  head.architecture = "TargetWriterForTests";
  head.words.reads_targets = true;
  head.judge = kTargetAccuracy.name;
  return head;
}

template <typename Opened>
std::unique_ptr<Model> open(const ModelSource& source, const std::string&) {
  return std::make_unique<Opened>(source);
}

const Family kPictures = {"picture_classifier",   "ViTImageProcessor", {classes("PictureClassifierForTests")}, {}, {},
                          open<PictureClassifier>};
const Family kTexts = {"text_classifier", "", {classes("TextClassifierForTests")}, {}, {}, open<TextClassifier>};
const Family kPairs = {"pair_classifier", "", {classes("PairClassifierForTests", true)}, {}, {}, open<PairClassifier>};
const Family kTargets = {"target_writer", "", {targets()}, {}, {}, open<TargetWriter>};

// Before main.
[[maybe_unused]] const bool kRegistered = [] {
  add_judge(kClassAccuracy);
  add_judge(kTargetAccuracy);
  add_family(kPictures);
  add_family(kTexts);
  add_family(kPairs);
  add_family(kTargets);
  return true;
}();

}  // namespace
}  // namespace bascule
