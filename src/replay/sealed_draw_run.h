// SPDX-License-Identifier: Apache-2.0
// The seal of a run that draws: memory is mapped and touched, weights are read, tapes made. Everything that drawing
// needs exists when the constructor returns; then draw() and decode() allocate nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/isa.h"
#include "src/base/span.h"
#include "src/base/status.h"
#include "src/distributed/group.h"
#include "src/distributed/shared_memory.h"
#include "src/record/recorded_draw_run.h"
#include "src/runtime/threads.h"
#include "src/session/sealed_memory.h"

namespace bascule {

// Seconds since the seal.
struct DrawingSeconds {
  double prompts = 0.0, calls = 0.0, decoding = 0.0;
};

class SealedDrawRun {
 public:
  // `say` is told one line of facts at a time. group: of the ranks that the run was recorded for, all together; null:
  // there is one. Throws Error: kMemory, kData for weights that are missing or not finite, kRank where another rank
  // failed.
  SealedDrawRun(RecordedDrawRun& run, Isa isa, void (*say)(const std::string& line), Group* group = nullptr);
  SealedDrawRun(const SealedDrawRun&) = delete;
  SealedDrawRun& operator=(const SealedDrawRun&) = delete;

  // The pictures with these numbers in the list, at most a batch. signal: 0, or what the watch gave, and then nothing
  // was drawn. kReadFailed where latents cannot be read.
  Status draw(Span<const std::int64_t> numbers, DrawingWatch* watch, int* signal) noexcept;
  // A picture drawn last, by its place among them: (height, width, 3), until the next call. Null: its latents or
  // its pixels are not finite.
  const std::uint8_t* decode(std::int64_t place) noexcept;
  // Digests of a picture drawn last, by place: of its noise, then of its latents after each call.
  Span<const std::uint64_t> latent_digests(std::int64_t place) const noexcept;

  // The queue of several ranks.
  DrawnQueue queue() const;

  // A digest of every weight as it lies in memory, which the precision alone changes; 0 in ranks other than the first.
  std::uint64_t weights_digest() const { return weights_digest_; }

  const DrawingSeconds& seconds() const { return seconds_; }
  // How often a text was encoded.
  std::int64_t encoded_texts() const { return encoded_texts_; }
  const Tape& tape(std::size_t graph) const { return run_.session.tape(graph); }
  Isa isa() const { return isa_; }
  // For measuring single replays.
  Drawer& drawer() { return drawer_; }
  Threads& threads() { return threads_; }

 private:
  class DigestedCalls;
  void load(void (*say)(const std::string& line));
  void check_weights();
  // The place of a text's keys and values, encoded if they are not there.
  std::int32_t place_of(std::int32_t text, std::int64_t batch) noexcept;
  Status set_noise(const ListedPicture& picture, std::int64_t number, std::int64_t place) noexcept;
  // After this call, from 1; 0: before the first.
  void digest_latents(std::int64_t call, std::int64_t pictures) noexcept;

  RecordedDrawRun& run_;
  const Isa isa_;
  const std::unique_ptr<Group> alone_;  // where no group was given
  Group& group_;
  Threads threads_;
  std::unique_ptr<SealedMemory> memory_;
  Drawer drawer_;
  std::uint8_t* bytes_ = nullptr;
  std::uint64_t* digests_ = nullptr;  // of latents: (batch, latent_digests())
  std::vector<float> noise_;          // of one picture, where latents come from a file
  std::vector<std::int32_t> kept_;    // by place: the text there; -1: none
  std::vector<std::int64_t> used_;    // by place: the last batch that read it
  std::vector<DrawnPrompt> prompts_;  // of the batch
  std::int64_t batches_ = 0, encoded_texts_ = 0;
  DrawingSeconds seconds_;
  std::uint64_t weights_digest_ = 0;
};

}  // namespace bascule
