// SPDX-License-Identifier: Apache-2.0
// A served model that writes texts, and a worker's slots of texts that are being written. A text joins when a slot is
// free, and leaves after its last token; each step writes a token of every text. step() and what is around it allocate
// nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/base/span.h"
#include "src/generate/generator.h"
#include "src/serve/text_batch.h"
#include "src/settings/settings.h"
#include "src/text/tokenizer.h"

namespace bascule {

struct ServedInput;

// What all workers share.
class ServedWriter {
 public:
  // Throws Error kData, kSettings: the folder's generation_config.json, and what it does not allow.
  ServedWriter(const std::string& folder, const Model& model, const ServeSettings& serve, const SettingsOrigin& origin);

  const SearchOptions& options() const { return options_; }
  const std::string& prefix() const { return prefix_; }        // of each source
  std::int64_t usual_tokens() const { return usual_tokens_; }  // of a text where a request names no number
  std::int64_t most_tokens() const { return options_.max_length - 1; }
  std::int64_t slots() const { return slots_; }  // of each worker
  std::string facts() const;                     // the options and the prefix, as text
  const TokenDecoder& decoder() const { return *decoder_; }

  void record(Session* session, const Model& model, const Fields& fields, const BatchCounts& bounds,
              Precision precision);
  const RecordedGeneration& recorded() const { return recorded_; }
  std::size_t bytes() const { return bytes_; }  // of a TextWriter

 private:
  SearchOptions options_;
  std::string prefix_;
  std::int64_t usual_tokens_ = 0, slots_ = 0;
  std::unique_ptr<const TokenDecoder> decoder_;
  RecordedGeneration recorded_;
  std::size_t bytes_ = 0;
};

// What a worker has of its own.
class TextWriter {
 public:
  // Before the seal. served: outlives this; memory: its bytes(), aligned to a cache line; tapes: of the worker's arena.
  TextWriter(const ServedWriter& served, const Tapes& tapes, std::byte* memory);

  std::int64_t free_slots() const noexcept { return static_cast<std::int64_t>(free_.size()); }
  // batch: of the inputs' sources. There is a slot for each.
  void join(ServedInput* const* inputs, std::size_t count, const Batch& batch, Threads& threads) noexcept;
  void step(Threads& threads) noexcept { generator_.step(threads); }
  // Whether the text is whole; then it is in the input, and the slot is free.
  bool finish(ServedInput* input) noexcept;
  void leave(const ServedInput& input) noexcept;

 private:
  const SearchOptions& options_;
  Generator generator_;
  std::vector<std::int64_t> free_;
  std::vector<Generator::Joining> joining_;
};

}  // namespace bascule
