// SPDX-License-Identifier: Apache-2.0
// A model of a folder that is asked, and what it computes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/isa.h"
#include "src/loader/media.h"
#include "src/models/families.h"
#include "src/models/model.h"
#include "src/models/sentence_folder.h"
#include "src/runtime/choose_isa.h"
#include "src/runtime/threads.h"
#include "src/session/packed_batch.h"
#include "src/session/session.h"

namespace bascule {

// A model of a folder that is asked, not trained: what `bascule search`, `classify`, `fill` and `generate` share.
// Allocates, throws Error.

// In one batch: enough rows for full matrix tiles, and little memory.
inline constexpr std::size_t kMostPicturesAtOnce = 8;

// The model of a folder, with the head that the command asks (FamilyHead::command). Throws Error kData if its family
// has none.
std::unique_ptr<Model> open_finished_model(const std::string& folder, const std::string& command);

// The model that makes vectors of texts in a folder of sentence-transformers or of a body, and what the folder says of
// it. Throws Error kData.
std::unique_ptr<Model> open_sentence_model(const std::string& folder, SentenceFolder* sentence);

// How a run prepared what the model saw: bascule.json of its folder. Where there is none, as Transformers prepares it
// for the folder: pictures by the processor file.
struct RunInputs {
  bool are_of_run = false;
  Preprocessing preprocessing = Preprocessing::kProcessor;
  Interpolation interpolation = Interpolation::kBicubic;
  double eval_crop_ratio = 1.0;
  std::int64_t max_seq_length = 128;
  bool reads_pairs = true;                   // false: of a run whose rows had one text each
  std::optional<std::string> source_prefix;  // of a run that has read sources
  std::int64_t max_source_length = 512;
};
// Throws Error kData.
RunInputs read_run_inputs(const std::string& folder);
// The prefix of each source of a model that writes: of the run, or of config.json, which is told. what_to_do: behind
// that line.
std::string source_prefix(const std::string& folder, const RunInputs& run, const char* what_to_do = "");
// For pictures of that side, prepared as read_run_inputs() says. Throws Error kData.
MediaSettings media_settings_of_model(const std::string& folder, std::int64_t image_side);

// The part of load() behind the seal of the session; runs the work, to which it adds the reading.
void load_weights(Session* session, const Model& model, const std::string& folder, StartWork* work, Threads& threads,
                  const ParameterSet* whole = nullptr);

// Threads within the limits of this process.
int threads_of_process();

// A model of a folder with a session, memory and threads of its own. Its graphs are recorded, then it loads, then it
// runs.
class AskedModel {
 public:
  // The model outlives this.
  AskedModel(const Model& model, std::string folder, Isa isa = choose_isa("auto"), int threads = threads_of_process())
      : folder_(std::move(folder)), model_(model), fields_(model.fields({})), isa_(isa), threads_(threads, false) {}

  Session& session() { return session_; }
  Threads& threads() { return threads_; }
  const Threads& threads() const { return threads_; }
  const Fields& fields() const { return fields_; }
  // Of a batch of so many texts of so many tokens together, each of at most `longest`.
  static BatchCounts bounds_of(const Fields& fields, std::int64_t texts, std::int64_t tokens, std::int64_t longest);

  // Adds a graph for Use::kReference. Returns the tensor that the reference calls "logits". Without one: Error
  // kInternal.
  Tensor record_logits(const BatchCounts& bounds);
  // Plans and seals the graphs, and loads the folder's weights; says which it does not use. `whole`: the parameters of
  // all that the model computes, where the graphs compute a part of it. Throws Error kData if one of theirs is missing:
  // nothing that is asked may be left to chance.
  void load(const ParameterSet* whole = nullptr);
  // Each: the numbers of a tensor of that graph, until the next run. where: of the texts, for the error about one.
  const float* run(const Batch& batch, Tensor output, std::size_t graph = 0);
  const float* run(const PaddedBatch& texts, Tensor output, const std::string& where = "the text");
  // Throws Error kData if one of them is NaN or an infinity.
  void check_finite(const float* logits, std::int64_t count) const;
  [[noreturn]] void refuse_not_finite() const;

 private:
  const std::string folder_;
  const Model& model_;
  const Fields fields_;
  const Isa isa_;
  Session session_;
  Threads threads_;
};

// A batch of these, each with its `ids`.
template <typename Texts>
PaddedBatch padded_texts(const Texts& texts) {
  PaddedBatch batch;
  PaddedText& all = batch.texts[0];
  batch.samples = static_cast<std::int64_t>(texts.size());
  for (const auto& one : texts) all.length = std::max(all.length, static_cast<std::int64_t>(one.ids.size()));
  for (const auto& one : texts) {
    all.input_ids.insert(all.input_ids.end(), one.ids.begin(), one.ids.end());
    all.attention_mask.insert(all.attention_mask.end(), one.ids.size(), 1);
    const std::size_t padding = static_cast<std::size_t>(all.length) - one.ids.size();
    for (std::vector<std::int64_t>* row : {&all.input_ids, &all.attention_mask}) row->insert(row->end(), padding, 0);
  }
  return batch;
}

// The logits that an asked model computes, and the best of them.

// As AskedModel::record_logits() finds it.
Tensor reference_logits(const Recording& recording);

struct TokenOrClass {
  std::int64_t id = 0;
  double probability = 0.0;  // softmax, summed in float64
};
// The most probable of `count`, as many as `best` holds (at most `count`), best first; equal ones by id. Allocates
// nothing.
void most_probable(const float* logits, std::int64_t count, Span<TokenOrClass> best) noexcept;
std::vector<TokenOrClass> most_probable(const float* logits, std::int64_t count, std::size_t top);

// "     12.3 %  cat\n", with two significant digits at least: "   0.0042 %". The name as printable_line() has it.
std::string shown_guess(double probability, const std::string& name);

}  // namespace bascule
