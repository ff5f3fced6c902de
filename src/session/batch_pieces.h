// SPDX-License-Identifier: Apache-2.0
// A training batch that goes through the model in pieces, so that it takes the memory of one piece, while its loss is
// over all samples: that of embeddings. Source: Gao et al. 2021, "Scaling Deep Contrastive Learning Batch Size under
// Memory Limited Setup"; CachedMultipleNegativesRankingLoss of sentence-transformers.
//
//   std::map<Use, RecordedGraph> graphs = record_pieces(&session, model, fields, bounds, 16, options, in_bf16);
//   BatchPieces pieces(session, graphs, memory);             // before the seal; memory: of pieces_bytes()
//   pieces.find_loss(threads, replay);                       // in place of a replay of the whole batch
//   for (std::int64_t i = 0; i < pieces.count(); ++i) pieces.add_gradients(i, threads, replay);
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "src/base/batch.h"
#include "src/base/span.h"
#include "src/models/model.h"
#include "src/runtime/threads.h"
#include "src/session/session.h"

namespace bascule {

struct RecordedGraph {
  std::size_t number = 0;  // in the session
  Recording recording;
};

// Adds three graphs to the session, with their backward parts and element types. Use::kTrain is the model on a piece,
// with the gradients of its embeddings as an input: the session trains this graph. Use::kEmbedText makes the embeddings
// of a piece and keeps nothing else. Use::kTrainLoss is the loss of all embeddings of a batch, and their gradients.
// bounds: of a batch, as a loader plans them, where each sample may have as many rows as any. Its samples are cut into
// pieces of `samples`; the last one may have fewer.
std::map<Use, RecordedGraph> record_pieces(Session* session, const Model& model, const Fields& fields,
                                           const BatchCounts& bounds, std::int64_t samples,
                                           const RecordOptions& options, bool in_bf16);

// Of a piece of such a batch.
BatchCounts bounds_of_piece(const BatchCounts& bounds, std::int64_t samples);

// Memory beside the session's: the embeddings of a batch, then their gradients, and the offsets of a piece's texts.
std::size_t pieces_bytes(const Session& session, const std::map<Use, RecordedGraph>& graphs);

class BatchPieces : NonCopyable {
 public:
  // After the session's seal; session and graphs outlive this. memory: 64-byte aligned.
  BatchPieces(const Session& session, const std::map<Use, RecordedGraph>& graphs, std::byte* memory);

  // After the seal. Of replay.batch, which has samples: the loss is then that of the graph Use::kTrainLoss.
  void find_loss(Threads& threads, const Replay& replay) noexcept;
  // The pieces of the batch that find_loss() was given last.
  std::int64_t count() const noexcept { return count_; }
  // Adds the gradients of a piece, the first of which is 0, to those of the pieces before it, and, where the replay
  // says so, to what was there. The same replay as that of find_loss().
  void add_gradients(std::int64_t piece, Threads& threads, const Replay& replay) noexcept;

 private:
  std::int64_t elements_of(const Batch& batch) const noexcept { return batch.counts.samples() * texts_ * width_; }
  // Its texts' offsets are those of the piece that was cut last.
  Batch cut(const Batch& batch, std::int64_t piece) noexcept;
  Replay replay_of(const Replay& replay, std::int64_t piece) noexcept;

  const Tape &embed_, &loss_, &train_;
  const Tensor embeddings_, all_embeddings_, all_gradients_, gradients_;  // of a piece, of a batch; of both
  const Fields& fields_;
  const std::int64_t samples_, texts_, width_;
  int token_stream_ = 0, offsets_field_ = -1;
  std::int64_t count_ = 0;
  float* rows_;  // of a batch: embeddings, then their gradients
  std::int32_t* offsets_;
};

}  // namespace bascule
