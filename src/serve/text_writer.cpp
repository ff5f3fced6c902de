// SPDX-License-Identifier: Apache-2.0
#include "src/serve/text_writer.h"

#include <algorithm>
#include <cstdio>

#include "src/ask/finished_model.h"
#include "src/base/error.h"
#include "src/generate/generation_config.h"
#include "src/serve/served_model.h"
#include "src/text/tokenizer_kinds.h"

namespace bascule {

ServedWriter::ServedWriter(const std::string& folder, const Model& model, const ServeSettings& serve,
                           const SettingsOrigin& origin)
    : prefix_(source_prefix(folder, read_run_inputs(folder))),
      slots_(serve.generation_slots),
      decoder_(load_token_decoder(folder)) {
  const GenerationConfig config = read_generation_config(folder, model.inputs().texts[kMaxTexts - 1].vocabulary_size);
  for (const std::string& note : config.notes) std::fprintf(stderr, "bascule: %s\n", note.c_str());
  options_ = config.options;
  const std::int64_t most = serve.max_new_tokens;
  usual_tokens_ = std::min(options_.max_length - 1, most);
  options_.max_length = most + 1;
  if (options_.min_length > options_.max_length)
    throw Error(ErrorKind::kSettings, where_written(origin, "serve.max_new_tokens"),
                "serve.max_new_tokens = " + std::to_string(most) + " is less than the texts of the model have, " +
                    std::to_string(options_.min_length - 1) + " tokens",
                "write " + std::to_string(options_.min_length - 1) + " or more");
}

std::string ServedWriter::facts() const {
  char text[256];
  std::snprintf(
      text, sizeof text, "%lld beams, %lld to %lld ids, usually %lld, penalty %.17g, stopping %d, n-grams %lld; ",
      static_cast<long long>(options_.num_beams), static_cast<long long>(options_.min_length),
      static_cast<long long>(options_.max_length), static_cast<long long>(usual_tokens_), options_.length_penalty,
      static_cast<int>(options_.early_stopping), static_cast<long long>(options_.no_repeat_ngram_size));
  return text + prefix_;
}

void ServedWriter::record(Session* session, const Model& model, const Fields& fields, const BatchCounts& bounds,
                          Precision precision) {
  recorded_ = record_generation(session, model, fields, bounds, options_, precision, {}, slots_);
  bytes_ = Generator(recorded_, options_, slots_).bytes();
}

TextWriter::TextWriter(const ServedWriter& served, const Tapes& tapes, std::byte* memory)
    : options_(served.options()), generator_(served.recorded(), options_, served.slots()) {
  joining_.reserve(static_cast<std::size_t>(served.slots()));
  for (std::int64_t slot = served.slots(); slot > 0; --slot) free_.push_back(slot - 1);
  generator_.seal(memory, tapes);
  generator_.open();
}

void TextWriter::join(ServedInput* const* inputs, std::size_t count, const Batch& batch, Threads& threads) noexcept {
  joining_.clear();
  for (std::size_t i = 0; i < count; ++i) {
    ServedInput& input = *inputs[i];
    input.slot = free_.back();
    free_.pop_back();
    joining_.push_back({input.slot, input.most_written + 1, input.wants_logs});
  }
  generator_.join(batch, Span<const Generator::Joining>(joining_), threads);
}

bool TextWriter::finish(ServedInput* input) noexcept {
  input->is_finite = generator_.is_finite(input->slot);
  if (input->is_finite && !generator_.search().has_ended(input->slot)) return false;
  if (input->is_finite) {
    const Span<const std::int32_t> ids = generator_.search().generated(input->slot);
    std::copy(ids.begin(), ids.end(), input->written);
    input->written_tokens = static_cast<std::int64_t>(ids.size());
    if (input->wants_logs) std::copy_n(generator_.logs(input->slot), ids.size(), input->logs);
    const auto& ends = options_.end_ids;
    input->is_cut = ids.size() == 0 || std::find(ends.begin(), ends.end(), ids[ids.size() - 1]) == ends.end();
  }
  leave(*input);
  return true;
}

void TextWriter::leave(const ServedInput& input) noexcept {
  generator_.leave(input.slot);
  free_.push_back(input.slot);
}

}  // namespace bascule
