// SPDX-License-Identifier: Apache-2.0
#include "src/models/masked_words.h"

namespace bascule {
namespace {

bool find_whether_they_differ(const std::string& a, const std::string& b, const BertVariant& variant,
                              const ModelSource& source) {
  return source.has_weights && source.has_weights(a) && source.has_weights(b) && source.are_equal &&
         !source.are_equal(a, b, FileNames(variant.prefix()));
}

TiedDecoder decoder_of(const MaskedWordNames& names, const BertConfig& config, const BertVariant& variant,
                       const ModelSource& source) {
  const std::string prefix = variant.prefix();
  FileNames files(prefix);
  add_tied_words(&files, names, config, variant);
  return {config.tie_word_embeddings, source, std::string(names.decoder) + ".weight", files};
}

}  // namespace

void add_tied_words(FileNames* files, const MaskedWordNames& names, const BertConfig& config,
                    const BertVariant& variant) {
  files->table = word_table_name(variant);
  if (config.tie_word_embeddings) files->tied = {std::string(names.decoder) + ".weight"};
}

FamilyHead masked_words_head() {
  FamilyHead head;
  head.words.name = kMaskedWordsHead;
  head.words.has_classes = true;
  head.judge = "masked_tokens";
  head.command = "fill";
  return head;
}

MaskedWords::MaskedWords(const MaskedWordNames& names, const BertConfig& config, const BertVariant& variant,
                         const ModelSource& source)
    : names_(names), vocabulary_size_(config.vocab_size), decoder_(decoder_of(names, config, variant, source)) {
  const std::string decoders = std::string(names.decoder) + ".bias";
  const bool reads_decoders =
      names.bias == nullptr || !decoder_.is_tied() || find_whether_they_differ(decoders, names.bias, variant, source);
  bias_ = reads_decoders ? decoders : names.bias;
}

Fields MaskedWords::fields() const {
  const Extent masked = rows_of_stream(kMaskedStream);
  return {{"selected_rows", DType::kInt32, masked, 1, FieldSource::kMaskedRows},
          {"labels", DType::kInt32, masked, 1, FieldSource::kMaskedLabels},
          {"masked_among_read", DType::kInt32, masked, 1, FieldSource::kMaskedAmongRead}};
}

std::vector<ParameterPiece> MaskedWords::unused_tensors() const {
  if (names_.bias == nullptr || bias_ == names_.bias) return {};
  ParameterPiece bias;
  bias.name = names_.bias;
  bias.shape = {vocabulary_size_};
  bias.elements = vocabulary_size_;
  return {bias};
}

void MaskedWords::record(BertRecorder& r, const RowStream& last, Use use, const RecordOptions& options,
                         Recording* recording) const {
  Graph& graph = r.graph;
  const std::int64_t width = r.config.hidden_size;
  graph.set_scope(names_.scope);
  const Tensor rows =
      gather_rows(graph, "selected", last.x, graph.field(last.rows.are_picked ? "masked_among_read" : "selected_rows"));
  const Tensor h =
      activation(graph, std::string(names_.dense) + ".act", dense(r, names_.dense, rows, width), r.config.head_act);
  const Tensor normed = norm(r, names_.norm, h, r.config.layer_norm_eps);
  const Tensor weight = decoder_.is_tied()
                            ? word_table(r)
                            : r.weight(std::string(names_.decoder) + ".weight", vocabulary_size_, width, r.deviation);
  const Tensor logits = linear(graph, "logits", normed, weight, r.bias(bias_, vocabulary_size_));
  const ClassLoss loss = cross_entropy_loss(graph, logits, graph.field("labels"), options.label_smoothing);
  recording->losses.push_back({names_.loss, loss.loss, kMaskedStream});
  recording->outputs.push_back({"hits", loss.hits});
  if (use == Use::kReference) graph.keep(logits);
  if (options.predictions) {
    const ClassPredictions predictions = class_predictions(graph, logits, graph.field("labels"), loss);
    recording->outputs.push_back({"predicted", predictions.classes});
    recording->outputs.push_back({"predicted_probabilities", predictions.class_probabilities});
    recording->outputs.push_back({"probabilities", predictions.probabilities});
  }
  recording->reference.push_back({names_.logits, {logits}, ReferenceRows::kTokens});
}

}  // namespace bascule
