// SPDX-License-Identifier: Apache-2.0
#include "src/ask/ask.h"

#include <algorithm>
#include <cstdio>
#include <memory>

#include "src/ask/finished_model.h"
#include "src/base/error.h"
#include "src/json/json.h"
#include "src/machine/process_limits.h"
#include "src/runtime/choose_isa.h"
#include "src/session/packed_batch.h"
#include "src/text/tokenizer_kinds.h"

namespace bascule {
namespace {

constexpr char kTextToFillIn[] = "the text to fill in";

std::vector<std::int32_t> encode(const Tokenizer& tokenizer, const std::string& text) {
  try {
    return tokenizer.encode(text);
  } catch (const Error& error) {
    throw Error(ErrorKind::kSettings, kTextToFillIn, error.problem(), error.what_to_do());
  }
}

// One sample, whose masks are the rows that have a label: their logits are computed. The label itself does not matter.
PaddedBatch masked_batch(const std::vector<std::int32_t>& ids, std::int32_t mask_id) {
  PaddedBatch batch;
  batch.samples = 1;
  PaddedText& text = batch.texts[0];
  text.length = static_cast<std::int64_t>(ids.size());
  text.input_ids.assign(ids.begin(), ids.end());
  text.attention_mask.assign(ids.size(), 1);
  for (const std::int32_t id : ids) text.token_labels.push_back(id == mask_id ? 0 : -100);
  return batch;
}

}  // namespace

FilledText fill(const FillArguments& arguments, Isa isa, int threads) {
  const std::string& folder = arguments.folder;
  const std::unique_ptr<Model> model = open_finished_model(folder, "fill");
  const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(folder);
  const std::vector<std::string> tokens = load_token_texts(folder), shown = load_shown_tokens(folder);
  const ModelInputs inputs = model->inputs();
  const TextShape& needs = inputs.texts[0];
  if (tokenizer->mask_id() < 0) throw Error(ErrorKind::kData, folder, "its tokenizer has no mask token");
  const std::vector<std::int32_t> ids = encode(*tokenizer, arguments.text);
  const std::int64_t masks = std::count(ids.begin(), ids.end(), tokenizer->mask_id());
  if (masks == 0) {
    const std::string& mask = tokens[static_cast<std::size_t>(tokenizer->mask_id())];
    throw Error(ErrorKind::kSettings, kTextToFillIn, "contains no " + mask, "put it where a word is missing");
  }
  const std::int64_t most = needs.max_positions - needs.positions.first;
  if (static_cast<std::int64_t>(ids.size()) > most) {
    throw Error(ErrorKind::kSettings, kTextToFillIn,
                "has " + std::to_string(ids.size()) + " tokens; the model takes " + std::to_string(most) + " at most",
                "shorten it");
  }
  const PackedBatch packed(masked_batch(ids, tokenizer->mask_id()), inputs, false, kTextToFillIn);
  const Fields fields = model->fields({});
  Session session;
  Graph& graph = session.add_graph(packed.counts(fields), fields);
  const Tensor logits = reference_logits(model->record(graph, Use::kReference, {}));
  Threads pool(threads, false);
  seal_with_weights(&session, *model, folder, isa, pool);
  Replay replay;
  replay.batch = packed.batch(fields);
  session.tape(0).replay(pool, replay);
  const float* rows = session.tape(0).at(logits);
  refuse_not_finite_logits(rows, masks * needs.vocabulary_size, folder);
  FilledText filled{arguments.text, {}};
  for (std::int64_t mask = 0; mask < masks; ++mask, rows += needs.vocabulary_size) {
    filled.masks.emplace_back();
    for (const TokenOrClass& one : most_probable(rows, needs.vocabulary_size, arguments.top)) {
      const std::size_t id = static_cast<std::size_t>(one.id);  // the table may have rows that no token uses
      const std::string none = "row " + std::to_string(id) + ", not a token";
      filled.masks.back().push_back(
          {id < tokens.size() ? tokens[id] : none, id < shown.size() ? shown[id] : none, one.probability});
    }
  }
  return filled;
}

std::string fill_json(const FilledText& filled) {
  Json masks = Json::array();
  for (const std::vector<TokenGuess>& mask : filled.masks) {
    Json guesses = Json::array();
    for (const TokenGuess& guess : mask)
      guesses.push_back({{"token", guess.token}, {"probability", guess.probability}});
    masks.push_back(guesses);
  }
  return json_text({{"text", filled.text}, {"masks", masks}});
}

std::string fill_text(const FilledText& filled) {
  std::string text;
  for (std::size_t mask = 0; mask < filled.masks.size(); ++mask) {
    if (filled.masks.size() > 1) text += "mask " + std::to_string(mask + 1) + "\n";
    for (const TokenGuess& guess : filled.masks[mask]) text += shown_guess(guess.probability, guess.shown);
  }
  return text;
}

int fill_command(const FillArguments& arguments) {
  const FilledText filled =
      fill(arguments, choose_isa("auto"), threads_within(read_process_limits(), usable_cores(), 1));
  const std::string text = arguments.json ? fill_json(filled) + "\n" : fill_text(filled);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return 0;
}

}  // namespace bascule
