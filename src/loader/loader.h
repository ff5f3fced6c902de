// SPDX-License-Identifier: Apache-2.0
// The loader: files to batches, ahead of the step, in a fixed ring of slots for each stream of batches (training,
// evaluation, prediction). Workers, media engine and their memory are shared by all streams. Order, content and bits of
// a stream do not depend on the number of workers, ring slots or queue depth.
//
//   LoaderSettings settings; ... settings.streams = {train, validation};
//   const LoaderPlan plan = plan_loader(settings);   // before the seal: reads texts and the sizes of files
//   Loader loader(settings, plan, Span<std::byte>(memory, plan.total_bytes()));
//   loader.stream(0).start(first_batch, end_batch);  // memory may be sealed from here on
//   const Batch* batch;
//   Status status = loader.stream(0).next(&batch);   // kEndOfEpoch after end_batch - 1
//   ...
//   loader.stream(0).release();
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "firmware_shims/media_engine.h"
#include "src/base/span.h"
#include "src/base/status.h"
#include "src/corpus/corpus.h"
#include "src/index/manifest.h"
#include "src/index/open_manifest.h"
#include "src/index/picture_folder.h"
#include "src/loader/augmenting.h"
#include "src/loader/label_count.h"
#include "src/loader/media.h"
#include "src/loader/sampler.h"
#include "src/loader/stream.h"
#include "src/settings/settings.h"
#include "src/text/tokenizer.h"

namespace bascule {

// The lengths of one text of a stream's samples, in tokens.
struct TextPlan {
  std::int64_t longest = 0;      // with those of the beginning and the end
  std::int64_t most_masked = 0;  // of a sample
  std::int64_t cut = 0;          // texts that are longer than they may be, of two texts a sample only; or words cut off
  bool is_limit = false;         // nothing was measured: LoaderSettings::takes_limits
  // Where a sample has several such texts in a row: of each the longest and those cut. `longest` is of one of them,
  // `cut` of all.
  std::vector<TextLengths> in_a_row = {};

  // The most tokens of a sample.
  std::int64_t of_sample() const {
    std::int64_t tokens = in_a_row.empty() ? longest : 0;
    for (const TextLengths& one : in_a_row) tokens += one.longest;
    return tokens;
  }
};

// batch_dealing() sets the seed, the rows and `dealt` of the dealing.
struct StreamSettings : BatchDealing {
  const Manifest* manifest = nullptr;  // outlives the loader
  const Corpus* corpus = nullptr;      // whose samples the manifest's rows are; outlives the loader; null: none
  std::int64_t ring_slots = 3;         // at least 2; with workers = 0 one is made
  std::int64_t max_target_length = 0;  // of its samples' second text; 0: as LoaderSettings::texts has it
  Fields fields;  // in place of LoaderSettings::fields, for another number of texts in a row; empty: those
  const TextPlan* planned = nullptr;  // by number, where a plan with the same rows and texts has measured them already
};

struct LoaderSettings {
  const Tokenizer* tokenizer = nullptr;  // outlives the loader; null where the model reads no text
  Fields fields;                         // what the model reads of a batch
  std::uint64_t seed = 42;               // of order, masks, negatives and random changes to pictures

  // By number, of the model; where it reads two, rows are pairs, and each text of a row is one of the sample's.
  TextShape texts[kMaxTexts];
  // All texts of a row are the sample's first text, one after another, each by itself; none has a second one.
  bool takes_texts_in_a_row = false;
  std::vector<std::string> text_columns = std::vector<std::string>(2);  // of a row, where texts stand; for messages
  bool reads_words = false;  // the first text is words with tags; see TextSettings
  std::vector<std::int32_t> further_labels;
  std::string source_prefix;         // before the first of two texts
  std::vector<std::string> prompts;  // before each of the texts in a row; or none
  bool pads_targets = false;         // the second is padded to its maximal length, with rows like any other
  MaskingSettings masking;           // its rule, probability and limit alone
  double negative_fraction = 0.5;

  MediaSettings media;       // without polling_threads
  RandomCrops random_crops;  // of the shuffled streams, as the next three
  RandAugmentSettings rand_augment;
  ColorJitterSettings color_jitter;
  RandomErasingSettings random_erasing;
  double mixup_alpha = 0.0, cutmix_alpha = 0.0;  // of the shuffled streams; see augmenting.h

  OnBadSample on_bad_sample = OnBadSample::kStop;
  std::int64_t max_replacements = 1000;  // that a stream lists; more are counted only

  std::int64_t workers = 1;  // 0: the thread that calls next() loads

  bool counts_labels_ahead = false;  // Stream::labelled_ahead() is used

  // Texts of which the cache should have the lengths but has none are taken to be as long as they may be, and not
  // tokenised: for a plan that no run is made of.
  bool takes_limits = false;
  IndexCache cache;  // where lengths of texts are kept between runs; none by default

  std::vector<StreamSettings> streams;
};

struct StreamPlan {
  std::int64_t slots = 0;
  TextPlan texts[kMaxTexts];  // by number
  std::size_t slot_bytes = 0;
  BatchCounts bounds;  // of every batch
};

struct LoaderPlan {
  std::vector<StreamPlan> streams;
  std::int64_t longest_text = 0;  // in tokens, of all streams
  std::size_t largest_file_bytes = 0;
  std::size_t picture_bytes = 0;  // what one picture may take in the engine
  // Pictures that a worker reads before the first is decoded; 1 for engines without threads.
  std::int64_t jobs_per_worker = 0;

  // By category; the sum is what the loader is to be given.
  std::size_t slots_bytes = 0;         // ring slots of all streams
  std::size_t encoded_bytes = 0;       // one buffer a job
  std::size_t media_engine_bytes = 0;  // the engine's budget
  std::size_t scratch_bytes = 0;       // tokenizers and masks, one a worker
  std::size_t augmenting_bytes = 0;    // pictures that are changed, one a worker
  std::size_t replacement_bytes = 0;   // lists of replaced samples
  std::size_t label_count_bytes = 0;   // counting labels ahead
  std::size_t total_bytes() const {
    return slots_bytes + encoded_bytes + media_engine_bytes + scratch_bytes + augmenting_bytes + replacement_bytes +
           label_count_bytes;
  }
};

// Before the seal. Tokenises every text, unless the cache has their lengths, and asks every picture's size, unless
// the manifest is measured. Throws Error: kData naming the row for a picture that is missing or no file and for a token
// outside the model's vocabulary, and where an epoch has no batch; kSettings for numbers that do not fit each other.
LoaderPlan plan_loader(const LoaderSettings& settings);
// Those of its checks of texts that need no stream, for callers that open large texts in between. Throws Error.
void check_texts(const LoaderSettings& settings);

// Picture digests of all streams of a loader: one for each picture of their manifests, stream after stream.
std::size_t picture_digest_count(const LoaderSettings& settings);

struct LoaderStatistics {
  std::int64_t loaded_samples = 0;   // of all streams, also those that no step has asked for yet
  double worker_wait_seconds = 0.0;  // no slot was free or nothing was left to do; summed over workers
  media_engine_statistics media = {};
};

class Workers;
struct StreamState;

class Loader : NonCopyable {
 public:
  // Before the seal: takes threads and what a few small objects need; everything else lies in `memory` (64-byte
  // aligned, at least plan.total_bytes(), the caller's, outlives this). digests: picture_digest_count() of them, or
  // none. Throws Error.
  Loader(const LoaderSettings& settings, const LoaderPlan& plan, Span<std::byte> memory,
         Span<PictureDigest> digests = {});
  // As close().
  ~Loader();

  // In the order of LoaderSettings::streams. They live as long as the loader.
  Stream& stream(std::size_t number) noexcept;
  // The digests of the stream's pictures by image id; workers may add to them meanwhile. Empty: none are kept.
  Span<PictureDigest> picture_digests(std::size_t number) noexcept;
  LoaderStatistics statistics() const noexcept;
  // Samples of all streams so far; any thread may ask.
  std::uint64_t loaded_samples() const noexcept;
  // The row whose file a worker is reading; -1: none is. Any thread may ask.
  std::int64_t row_being_read() const noexcept;
  // Ends the workers, whatever they are doing, and the engine. Afterwards no stream may be used but for its statistics
  // and replacements.
  void close() noexcept;

 private:
  std::vector<std::unique_ptr<StreamState>> states_;
  std::optional<LabelCount> label_count_;
  std::unique_ptr<Workers> workers_;  // goes before what it works on
  std::vector<std::unique_ptr<Stream>> streams_;
};

// One line for a status that a stream gave: "train.jsonl:17: images/x.jpg: the picture is truncated". Allocates.
std::string describe(const Status& status, const Manifest& manifest);
// For an evaluation that left out every row: the status of the first of them.
Status all_left_out(const ReplacedSample& first) noexcept;
// An update ends with it: the model's vector of a text of the row is zero or not finite, so that no other can be
// compared with it. text: from 0.
Status bad_vector(std::int64_t step, std::int64_t row, std::int64_t text, bool is_zero) noexcept;
// The problem with the picture of a sample that was replaced or skipped: "the JPEG file is truncated". Allocates.
std::string bad_picture_text(const ReplacedSample& replaced);

}  // namespace bascule
