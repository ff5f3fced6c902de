// SPDX-License-Identifier: Apache-2.0
// A loader over a manifest, with the memory that it was planned for; and the fingerprint of the batches that it gives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "src/index/manifest.h"
#include "src/loader/loader.h"
#include "src/text/tokenizer_kinds.h"

namespace bascule::test {

// The kinds of batches that a model may ask for, with keys of five image rows.
enum class Task { kPairs, kMatching, kMasking };
inline constexpr int kTokens = kFirstModelStream, kMasked = kFirstModelStream + 1;
Fields loader_fields(Task task, std::int64_t image_side = 32);
// Fields of one of two texts, whose streams are its own: as a model reads them that only attends to the text, that
// also predicts its masked tokens, or that writes it token by token. Their names begin with the text's number.
enum class Reads { kAttended, kPredicted, kWritten };
constexpr int tokens_of_text(int text) { return kFirstModelStream + 3 * text; }
Fields text_fields(int text, Reads reads);

// A batch with its fields by name; null where none is declared.
struct FilledBatch : Batch {
  FilledBatch(const Batch& batch, const Fields& declared);

  const float* pixels;
  const std::int32_t *token_ids, *position_ids, *text_offsets, *selected_rows, *labels;
  const std::uint64_t *text_row_keys, *image_row_keys, *sample_keys;
};

std::string emoji_folder();
const Tokenizer& emoji_tokenizer();
// Settings that fit the emoji data's small model; a side of 32 keeps tests quick.
LoaderSettings emoji_settings(const Manifest& manifest);

class LoaderRun {
 public:
  explicit LoaderRun(const LoaderSettings& settings) : LoaderRun(settings, plan_loader(settings)) {}
  LoaderRun(const LoaderSettings& settings, const LoaderPlan& plan);

  const LoaderPlan& plan() const { return plan_; }
  Loader& loader() { return *loader_; }
  Stream& stream(std::size_t number = 0) { return loader_->stream(number); }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };

  LoaderPlan plan_;
  std::unique_ptr<std::byte, Free> memory_;  // not touched beforehand: most of it is for pictures larger than any here
  std::unique_ptr<Loader> loader_;
};

// Calls read(batch) with each batch of so many epochs of the first stream, of all its ranks.
template <typename Read>
void for_batches(LoaderSettings settings, std::int64_t epochs, Read read) {
  StreamSettings& stream = settings.streams[0];
  for (stream.rank = 0; stream.rank < stream.world_size; ++stream.rank) {
    LoaderRun run(settings);
    run.stream().start(0, epochs * run.stream().batches_per_epoch());
    const Batch* batch = nullptr;
    while (run.stream().next(&batch).ok()) {
      read(*batch);
      run.stream().release();
    }
  }
}

// A fingerprint of everything in a batch, byte for byte.
std::uint64_t fingerprint(const Batch& batch, const LoaderSettings& settings);

// The fingerprints of batches first .. end - 1, each expected to come.
std::vector<std::uint64_t> fingerprints(Stream& stream, const LoaderSettings& settings, std::int64_t first,
                                        std::int64_t end);
// The fingerprints of a new loader.
std::vector<std::uint64_t> fingerprints(const LoaderSettings& settings, std::int64_t first, std::int64_t end);

}  // namespace bascule::test
