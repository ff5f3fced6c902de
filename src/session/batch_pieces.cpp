// SPDX-License-Identifier: Apache-2.0
#include "src/session/batch_pieces.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/graph/backward.h"
#include "src/graph/element_types.h"

namespace bascule {
namespace {

struct RowsOfBatch {
  std::int64_t texts = 0, width = 0;  // of a sample, and of each of its texts
};

RowsOfBatch rows_of(const Session& session, const RecordedGraph& of_piece) {
  const TensorInfo& info = session.graph(of_piece.number)[of_piece.recording.output(kSentenceEmbedding)];
  BASCULE_CHECK(info.rows.stream == kSamples && info.rows.fixed == 0);
  return {info.rows.per_row, info.cols};
}

std::size_t embeddings_bytes(const Session& session, const std::map<Use, RecordedGraph>& graphs) {
  const RowsOfBatch rows = rows_of(session, graphs.at(Use::kTrain));
  const std::int64_t samples = session.graph(graphs.at(Use::kTrainLoss).number).bounds().samples();
  return align_up(static_cast<std::size_t>(samples * rows.texts * rows.width) * sizeof(float), kCacheLine);
}

std::int64_t samples_of_piece(const Session& session, const std::map<Use, RecordedGraph>& graphs) {
  return session.graph(graphs.at(Use::kTrain).number).bounds().samples();
}

}  // namespace

BatchCounts bounds_of_piece(const BatchCounts& bounds, std::int64_t samples) {
  BatchCounts piece = bounds;
  piece[kSamples] = std::min(samples, bounds.samples());
  piece[kSamplesOfAllRanks] = 0;
  // Every sample is counted with as many rows of the other streams.
  for (int stream = kFirstModelStream; stream < kMaxStreams; ++stream)
    piece[stream] = divide_up(bounds[stream] * piece.samples(), bounds.samples());
  return piece;
}

std::map<Use, RecordedGraph> record_pieces(Session* session, const Model& model, const Fields& fields,
                                           const BatchCounts& bounds, std::int64_t samples,
                                           const RecordOptions& options, bool in_bf16) {
  std::map<Use, RecordedGraph> graphs;
  const auto add = [&](Use key, Use use, const BatchCounts& own) -> Graph& {
    RecordedGraph& recorded = graphs[key];
    recorded.number = session->graphs();
    Graph& graph = session->add_graph(own, fields);
    recorded.recording = model.record(graph, use, options);
    return graph;
  };
  const BatchCounts piece = bounds_of_piece(bounds, samples);
  derive_backward(add(Use::kTrain, Use::kTrainPiece, piece));
  add(Use::kEmbedText, Use::kEmbedText, piece);
  Graph& loss = add(Use::kTrainLoss, Use::kTrainLoss, bounds);
  Recording& of_loss = graphs[Use::kTrainLoss].recording;
  of_loss.outputs.push_back({kEmbeddingGradients, derive_backward(loss, of_loss.output(kSentenceEmbedding))});
  for (const auto& [use, recorded] : graphs) {
    if (in_bf16) choose_element_types(session->graph(recorded.number));
  }
  return graphs;
}

std::size_t pieces_bytes(const Session& session, const std::map<Use, RecordedGraph>& graphs) {
  const std::int64_t offsets = samples_of_piece(session, graphs) * rows_of(session, graphs.at(Use::kTrain)).texts + 1;
  return embeddings_bytes(session, graphs) +
         align_up(static_cast<std::size_t>(offsets) * sizeof(std::int32_t), kCacheLine);
}

BatchPieces::BatchPieces(const Session& session, const std::map<Use, RecordedGraph>& graphs, std::byte* memory)
    : embed_(session.tape(graphs.at(Use::kEmbedText).number)),
      loss_(session.tape(graphs.at(Use::kTrainLoss).number)),
      train_(session.tape(graphs.at(Use::kTrain).number)),
      embeddings_(graphs.at(Use::kEmbedText).recording.output(kSentenceEmbedding)),
      all_embeddings_(graphs.at(Use::kTrainLoss).recording.output(kSentenceEmbedding)),
      all_gradients_(graphs.at(Use::kTrainLoss).recording.output(kEmbeddingGradients)),
      gradients_(graphs.at(Use::kTrain).recording.output(kEmbeddingGradients)),
      fields_(train_.fields()),
      samples_(samples_of_piece(session, graphs)),
      texts_(rows_of(session, graphs.at(Use::kTrain)).texts),
      width_(rows_of(session, graphs.at(Use::kTrain)).width),
      offsets_field_(field_from(fields_, FieldSource::kTextOffsets)),
      rows_(static_cast<float*>(static_cast<void*>(memory))),
      offsets_(static_cast<std::int32_t*>(static_cast<void*>(memory + embeddings_bytes(session, graphs)))) {
  const int ids = field_from(fields_, FieldSource::kTokenIds);
  BASCULE_CHECK(ids >= 0 && offsets_field_ >= 0);
  token_stream_ = fields_[static_cast<std::size_t>(ids)].rows.stream;
  for (const Field& field : fields_) {
    const bool is_cut = field.rows.fixed == 0 || field.source == FieldSource::kTextOffsets;
    BASCULE_CHECK(is_cut && (field.rows.stream == kSamples || field.rows.stream == token_stream_));
  }
}

Batch BatchPieces::cut(const Batch& batch, std::int64_t piece) noexcept {
  const std::int64_t first = piece * samples_, count = std::min(samples_, batch.counts.samples() - first);
  const std::int32_t* const offsets = batch.field<std::int32_t>(offsets_field_) + first * texts_;
  BatchCounts before;
  before[kSamples] = first;
  before[token_stream_] = offsets[0];
  Batch cut = batch;
  cut.counts = BatchCounts();
  cut.counts[kSamples] = count;
  cut.counts[token_stream_] = offsets[count * texts_] - offsets[0];
  for (std::int64_t text = 0; text <= count * texts_; ++text) offsets_[text] = offsets[text] - offsets[0];
  for (std::size_t f = 0; f < fields_.size(); ++f) {
    const Field& field = fields_[f];
    const std::int64_t elements = field.rows.per_row * before[field.rows.stream] * field.cols;
    if (batch.fields[f] != nullptr)
      cut.fields[f] = static_cast<const std::byte*>(batch.fields[f]) +
                      static_cast<std::size_t>(elements) * element_bytes(field.dtype);
  }
  cut.fields[offsets_field_] = offsets_;
  return cut;
}

Replay BatchPieces::replay_of(const Replay& replay, std::int64_t piece) noexcept {
  Replay own = replay;
  own.batch = cut(replay.batch, piece);
  own.add_to_gradients = replay.add_to_gradients || piece > 0;
  return own;
}

void BatchPieces::find_loss(Threads& threads, const Replay& replay) noexcept {
  count_ = divide_up(replay.batch.counts.samples(), samples_);
  float* to = rows_;
  for (std::int64_t piece = 0; piece < count_; ++piece) {
    const Replay own = replay_of(replay, piece);
    embed_.replay(threads, own);
    to = std::copy_n(embed_.at(embeddings_), elements_of(own.batch), to);
  }
  std::copy_n(rows_, elements_of(replay.batch), loss_.at(all_embeddings_));
  loss_.replay(threads, replay);
  std::copy_n(loss_.at(all_gradients_), elements_of(replay.batch), rows_);
}

void BatchPieces::add_gradients(std::int64_t piece, Threads& threads, const Replay& replay) noexcept {
  const Replay own = replay_of(replay, piece);
  std::copy_n(rows_ + piece * samples_ * texts_ * width_, elements_of(own.batch), train_.at(gradients_));
  train_.replay(threads, own);
}

}  // namespace bascule
