// SPDX-License-Identifier: Apache-2.0
#include "tests/families/translator.h"

#include <memory>
#include <utility>

#include "src/json/json.h"
#include "src/models/families.h"
#include "src/models/recorder.h"

namespace bascule::test {
namespace {

constexpr float kEpsilon = 1e-5f;
constexpr char kEncoded[] = "encoded";  // the encoder's result, which the decoder looks for in their graph

// Either model: its text has tables, positions that begin at 0, and a width that both share.
class Translator : public Model {
 public:
  Translator(const ModelSource& source, std::uint8_t text)
      : text_(text), path_(source.config_path), json_(read_json_file(path_)) {}

  const char* body_prefix() const override { return ""; }
  bool may_be_fresh(const std::string&) const override { return false; }
  std::vector<ParameterPiece> unused_tensors() const override { return {}; }
  ModelCardWords card() const override { return {}; }
  std::vector<Use> uses() const override {
    return {Use::kTrain, Use::kEvaluate, Use::kReference, kEncode, kDecodeStep};
  }
  ModelInputs inputs() const override {
    ModelInputs inputs;
    inputs.texts[text_] = {number("vocab_size"), 0, positions(), {}, 1};
    return inputs;
  }
  Fields fields(const RecordOptions&) const override {
    const Extent tokens = rows_of_stream(text_ == kSource ? kSourceTokens : kTargetTokens);
    return {{name("token_ids"), DType::kInt32, tokens, 1, FieldSource::kTokenIds, text_},
            {name("position_ids"), DType::kInt32, tokens, 1, FieldSource::kPositionIds, text_},
            {name("offsets"), DType::kInt32, {kSamples, 1, 1}, 1, FieldSource::kTextOffsets, text_}};
  }

 protected:
  static SampleRows source_rows(Graph& graph) {
    return {rows_of_stream(kSourceTokens), graph.field("source_offsets"), {}};
  }
  static SampleRows target_rows(Graph& graph) {
    return {rows_of_stream(kTargetTokens), graph.field("target_offsets"), {}};
  }
  std::int64_t number(const char* key) const { return get_int(json_, key, path_); }
  std::int64_t width() const { return number("hidden_size"); }
  std::int64_t positions() const { return number("positions"); }

  Recorder recorder(Graph& graph) const {
    Recorder r{graph, {}};
    r.deviation = 0.3;
    return r;
  }
  Tensor embed(Recorder& r) const {
    return text_embedding(r.graph, name("embedded"),
                          {r.table("word", number("vocab_size"), width(), 0.5),
                           r.table("position", positions(), width(), 0.5), r.table("type", 1, width(), 0.1)},
                          {r.graph.field(name("token_ids")), r.graph.field(name("position_ids")), {}}, {});
  }
  // x and one head of attention to itself, normalised.
  Tensor attend(Recorder& r, const std::string& name, Tensor x, const SampleRows& rows) const {
    const Tensor all = dense(r, "qkv", x, 3 * width());
    const Tensor context = attention(r.graph, name + "_context", {all, 0}, rows, {all, width()}, {all, 2 * width()},
                                     rows, 1, width(), {}, {});
    return add_norm(r, name, x, context, kEpsilon).y;
  }

 private:
  std::string name(const char* field) const { return std::string(text_ == kSource ? "source_" : "target_") + field; }

  const std::uint8_t text_;
  const std::string path_;
  const Json json_;
};

class Encoder final : public Translator {
 public:
  explicit Encoder(const ModelSource& source) : Translator(source, kSource) {}
  const char* architecture() const override { return "TranslatorEncoderForTests"; }
  Recording record(Graph& graph, Use use, const RecordOptions&) const override {
    if (use == kDecodeStep) return {};
    Recorder r = recorder(graph);
    Recording recording;
    recording.outputs = {{kEncoded, attend(r, kEncoded, embed(r), source_rows(graph))}};
    return recording;
  }
};

class Decoder final : public Translator {
 public:
  explicit Decoder(const ModelSource& source) : Translator(source, kTarget) {}
  const char* architecture() const override { return "TranslatorDecoderForTests"; }
  Fields fields(const RecordOptions& options) const override {
    const Extent predicted = rows_of_stream(kPredictedTokens);
    Fields fields = Translator::fields(options);
    fields.push_back({"predicted_rows", DType::kInt32, predicted, 1, FieldSource::kMaskedRows, kTarget});
    fields.push_back({"labels", DType::kInt32, predicted, 1, FieldSource::kMaskedLabels, kTarget});
    return fields;
  }

  Recording record(Graph& graph, Use use, const RecordOptions& options) const override {
    Recorder r = recorder(graph);
    if (use == kEncode) {
      store_rows(graph, source_cache(graph), keys_and_values(r), graph.field("source_position_ids"));
      return {};
    }
    const bool is_step = use == kDecodeStep;
    const Tensor source = is_step
                              ? gather_rows(graph, "source", source_cache(graph), graph.field("source_position_ids"))
                              : keys_and_values(r);
    Tensor written =
        read_source(r, embed(r), is_step ? SampleRows{rows_per_sample(1), {}, {}} : target_rows(graph), source);
    if (is_step) {
      const Tensor cache = graph.state({"written", positions(), width()});
      store_rows(graph, cache, written, graph.field("target_position_ids"));
      written = gather_rows(graph, "written_so_far", cache, graph.field("written_rows"));
    }
    const Tensor decoded = attend(r, "decoded", written, target_rows(graph));
    Recording recording;
    if (is_step || use == Use::kReference) {
      recording.outputs = {{"logits", logits(r, "all_logits", decoded)}};
      graph.keep(recording.outputs[0].tensor);
    }
    if (is_step) return recording;
    const Tensor predicted = gather_rows(graph, "predicted", decoded, graph.field("predicted_rows"));
    const ClassLoss loss =
        cross_entropy_loss(graph, logits(r, "logits", predicted), graph.field("labels"), options.label_smoothing);
    recording.losses = {{"loss", loss.loss, kPredictedTokens}};
    recording.outputs.push_back({"hits", loss.hits});
    return recording;
  }

 private:
  Tensor source_cache(Graph& graph) const { return graph.state({"source", number("source_positions"), 2 * width()}); }
  Tensor logits(Recorder& r, const std::string& name, Tensor x) const {
    return linear(r.graph, name, x, r.weight("words.weight", number("vocab_size"), width(), r.deviation),
                  r.bias("words.bias", number("vocab_size")));
  }
  // Of the source's rows, side by side.
  Tensor keys_and_values(Recorder& r) const { return dense(r, "source_kv", r.graph.find(kEncoded), 2 * width()); }
  Tensor read_source(Recorder& r, Tensor x, const SampleRows& rows, Tensor source) const {
    const Tensor query = dense(r, "source_query", x, width());
    const Tensor context = attention(r.graph, "read", {query, 0}, rows, {source, 0}, {source, width()},
                                     source_rows(r.graph), 1, width(), {}, {});
    return add_norm(r, "written", x, context, kEpsilon).y;
  }
};

FamilyHead translation(const char* architecture) {
  FamilyHead head;
  head.architecture = architecture;
  head.words.name = "translation";
  return head;
}

template <typename Opened>
std::unique_ptr<Model> open(const ModelSource& source, const std::string&) {
  return std::make_unique<Opened>(source);
}

const Family kEncoders = {"translator_encoder", "", {translation("TranslatorEncoderForTests")}, {}, {}, open<Encoder>};
const Family kDecoders = {"translator_decoder", "", {translation("TranslatorDecoderForTests")}, {}, {}, open<Decoder>};

// Before main.
[[maybe_unused]] const bool kRegistered = [] {
  add_family(kEncoders);
  add_family(kDecoders);
  return true;
}();

// The source as kEncode left it, the target's next token, and the rows of the target's tokens so far.
Fields fields_of_step() {
  const Extent source = rows_of_stream(kSourceTokens), target = rows_of_stream(kTargetTokens);
  const Extent step = rows_per_sample(1), offsets = {kSamples, 1, 1};
  return {{"source_position_ids", DType::kInt32, source, 1, FieldSource::kPositionIds, kSource},
          {"source_offsets", DType::kInt32, offsets, 1, FieldSource::kTextOffsets, kSource},
          {"target_token_ids", DType::kInt32, step, 1, FieldSource::kTokenIds, kTarget},
          {"target_position_ids", DType::kInt32, step, 1, FieldSource::kPositionIds, kTarget},
          {"written_rows", DType::kInt32, target, 1, FieldSource::kReadRows, kTarget},
          {"target_offsets", DType::kInt32, offsets, 1, FieldSource::kTextOffsets, kTarget}};
}

}  // namespace

std::vector<Part> open_translator(const std::string& folder) {
  return open_parts(folder, {{"encoder", "translation"}, {"decoder", "translation"}});
}

ModelInputs translator_inputs(const std::vector<Part>& parts) {
  ModelInputs inputs = parts[0].model->inputs();
  inputs.texts[kTarget] = parts[1].model->inputs().texts[kTarget];
  return inputs;
}

Fields translator_fields(const std::vector<Part>& parts, Use use) {
  if (use == kDecodeStep) return fields_of_step();
  Fields fields = parts[0].model->fields({});
  if (use == kEncode) return fields;
  for (Field& field : parts[1].model->fields({})) fields.push_back(std::move(field));
  return fields;
}

Recording record_translator(Graph& graph, const std::vector<Part>& parts, Use use) {
  Recording recording;
  for (const Part& part : parts) {
    graph.set_part(part.name);
    recording = part.model->record(graph, use, {});
  }
  graph.set_part("");
  return recording;
}

}  // namespace bascule::test
