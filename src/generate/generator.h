// SPDX-License-Identifier: Apache-2.0
// Texts that a model writes: the replays, who follows them, and their ids.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "src/generate/token_search.h"
#include "src/graph/operations.h"
#include "src/models/model.h"
#include "src/session/session.h"
#include "src/settings/settings.h"

namespace bascule {

// The texts of a batch as ids, for whoever judges them: by sample of the batch.

class GeneratedRows {
 public:
  // most_ids: of one text, without the start token.
  GeneratedRows(std::int64_t samples, std::int64_t most_ids) : samples_(samples), most_ids_(most_ids) {}

  std::size_t bytes() const noexcept;
  // memory: bytes(), 64-byte aligned.
  void seal(std::byte* memory) noexcept;

  // After the seal. clear(): no text was generated.
  void take(const TokenSearch& search, std::int64_t samples) noexcept;
  void clear() noexcept;

  std::int64_t most_ids() const noexcept { return most_ids_; }
  const std::int32_t* ids() const noexcept { return ids_; }        // (samples, most_ids)
  const std::int32_t* counts() const noexcept { return counts_; }  // of ids; below 0: no text was generated
  const float* scores() const noexcept { return scores_; }

 private:
  const std::int64_t samples_, most_ids_;
  std::int32_t *ids_ = nullptr, *counts_ = nullptr;
  float* scores_ = nullptr;
};

// Follows a generation, which may take minutes.

class DecodingWatch {
 public:
  virtual ~DecodingWatch() = default;
  // After each token of so many rows; ended: samples of the batch that are done. Returns 0, or the number of a signal
  // for which decoding ends at once. Sealed.
  virtual int decoded(std::int64_t rows, std::int64_t ended) noexcept = 0;
};

// Texts that a model writes: one replay encodes the sources of a batch, then each replay of another tape decodes the
// next token of every row that has not ended, until none is left. Caches of keys and values are states of the session.
//
//   generation = record_generation(&session, model, bounds, options, precision)   record
//   Generator generator(generation, options); generator.bytes()                   plan
//   generator.seal(memory, session.tapes())                                       seal
//   generator.run(batch, threads); generator.search().generated(sample)           replay

// The graphs of a session that generate, and what is read of them.
struct RecordedGeneration {
  std::size_t encode = 0, decode = 0;  // their numbers in the session
  DecodingShape shape;
  int source_stream = 0, source_offsets = 0;  // of a batch: the stream of the source's tokens, its field of offsets
  int kept_sources = 0;                       // its field of places, where sources come and go
  std::int64_t slots = 0;                     // for samples
  Tensor logits;
  LogSums sums;  // none for greedy search
};

// fields: of the batches that run() or join() will be given; bounds: their largest; frozen: as in the session's other
// graphs, which share the parameters. slots: how many samples are there at a time where they come and go; 0: those of a
// batch come and go together.
RecordedGeneration record_generation(Session* session, const Model& model, const Fields& fields,
                                     const BatchCounts& bounds, const SearchOptions& options, Precision precision,
                                     const std::vector<std::string>& frozen = {}, std::int64_t slots = 0);

class Generator {
 public:
  Generator(const RecordedGeneration& recorded, const SearchOptions& options, std::int64_t max_samples);

  std::size_t bytes() const;
  // memory: bytes(), 64-byte aligned. tapes: of the session, which is sealed.
  void seal(std::byte* memory, const Tapes& tapes);
  // The same in memory of its own: for a generator outside a run.
  void seal_alone(const Session& session);

  // After the seal. Allocates nothing. watch: null: nobody follows. Returns 0, or the signal that the watch gave; then
  // nothing was generated.
  int run(const Batch& batch, Threads& threads, DecodingWatch* watch = nullptr) noexcept;
  // After run(): what was generated, by sample of the batch.
  const TokenSearch& search() const { return search_; }

  // Instead of run(): samples that come and go, by slot. What a sample generates does not depend on the others.

  // A sample that joins. wants_logs: greedy; the log p of each of its tokens is kept.
  struct Joining {
    std::int64_t slot = 0, max_length = 0;
    bool wants_logs = false;
  };
  // No sample is there.
  void open() noexcept;
  // batch: the sources of samples into slots that are free, within the bounds.
  void join(const Batch& batch, Span<const Joining> joining, Threads& threads) noexcept;
  void leave(std::int64_t slot) noexcept { search_.leave(slot); }
  // Decodes a token of every row.
  void step(Threads& threads) noexcept;
  // Of the sample that is, or was last, in the slot.
  bool is_finite(std::int64_t slot) const noexcept { return is_finite_[slot]; }
  const float* logs(std::int64_t slot) const noexcept { return logs_ + slot * recorded_.shape.max_length; }

  // In all runs: tokens that were decoded, those of all beams, and replays that decoded them.
  std::int64_t decoded_rows() const { return decoded_rows_; }
  std::int64_t decoded_steps() const { return decoded_steps_; }
  // Whether a row of logits has begun with a number that is not finite, in any run: the weights are damaged then.
  bool saw_not_finite() const { return saw_not_finite_; }

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };

  std::size_t cut_memory(std::byte* memory);  // bytes of the arrays; memory null: only counts
  std::int64_t fill_places() noexcept;
  void keep_logs(Threads& threads, std::int64_t rows) noexcept;

  const RecordedGeneration recorded_;
  const std::int64_t max_samples_;
  TokenSearch search_;
  std::unique_ptr<void, Free> memory_;  // of seal_alone()
  const Tape *encode_ = nullptr, *decode_ = nullptr;
  const float *logits_ = nullptr, *top_ = nullptr, *log_sum_ = nullptr;
  std::int64_t vocabulary_size_;
  std::int64_t decoded_rows_ = 0, decoded_steps_ = 0;
  bool saw_not_finite_ = false;
  // The fields of a decoding batch (models/model.h) that are not the search's own.
  std::int32_t *next_places_ = nullptr, *past_places_ = nullptr, *past_counts_ = nullptr, *live_offsets_ = nullptr,
               *source_places_ = nullptr, *source_counts_ = nullptr;
  // By sample: its source's first row in the cache and their number, and where samples come and go the rest.
  std::int32_t *sources_ = nullptr, *source_lengths_ = nullptr;
  std::int32_t *kept_sources_ = nullptr, *stepped_ = nullptr, *wants_logs_ = nullptr, *is_finite_ = nullptr;
  float* logs_ = nullptr;  // (slots, max_length)
};

}  // namespace bascule
