// SPDX-License-Identifier: Apache-2.0
#include "src/ask/ask.h"

#include <algorithm>
#include <cstdio>
#include <memory>

#include "src/ask/finished_model.h"
#include "src/base/error.h"
#include "src/json/json.h"
#include "src/text/tokenizer_kinds.h"

namespace bascule {
namespace {

constexpr char kTextToFillIn[] = "the text to fill in";

[[noreturn]] void refuse(const std::string& what, const std::string& what_to_do) {
  throw Error(ErrorKind::kSettings, kTextToFillIn, what, what_to_do);
}

std::vector<std::int32_t> encode(const Tokenizer& tokenizer, const std::string& text) {
  try {
    return tokenizer.encode(text);
  } catch (const Error& error) {
    refuse(error.problem(), error.what_to_do());
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

int fill_command(const FillArguments& arguments) {
  const std::string& folder = arguments.folder;
  const std::unique_ptr<Model> model = open_finished_model(folder, "fill");
  const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(folder);
  const std::vector<std::string> tokens = load_token_texts(folder), shown = load_shown_tokens(folder);
  const TextShape needs = model->inputs().texts[0];
  if (tokenizer->mask_id() < 0) throw Error(ErrorKind::kData, folder, "its tokenizer has no mask token");
  const std::vector<std::int32_t> ids = encode(*tokenizer, arguments.text);
  const std::int64_t masks = std::count(ids.begin(), ids.end(), tokenizer->mask_id());
  if (masks == 0)
    refuse("contains no " + tokens[static_cast<std::size_t>(tokenizer->mask_id())], "put it where a word is missing");
  const std::int64_t most = needs.max_positions - needs.positions.first;
  if (static_cast<std::int64_t>(ids.size()) > most)
    refuse("has " + std::to_string(ids.size()) + " tokens; the model takes " + std::to_string(most) + " at most",
           "shorten it");
  AskedModel asked(*model, folder);
  const PackedBatch packed(masked_batch(ids, tokenizer->mask_id()), model->inputs(), false, kTextToFillIn);
  const Tensor logits = asked.record_logits(packed.counts(asked.fields()));
  asked.load();
  const float* rows = asked.run(packed.batch(asked.fields()), logits);
  asked.check_finite(rows, masks * needs.vocabulary_size);
  Json all = Json::array();
  std::string lines;
  for (std::int64_t mask = 0; mask < masks; ++mask, rows += needs.vocabulary_size) {
    Json guesses = Json::array();
    if (masks > 1) lines += "mask " + std::to_string(mask + 1) + "\n";
    for (const TokenOrClass& one : most_probable(rows, needs.vocabulary_size, arguments.top)) {
      const std::size_t id = static_cast<std::size_t>(one.id);  // the table may have rows that no token uses
      const std::string none = "row " + std::to_string(id) + ", not a token";
      // As in the vocabulary, where "##s" continues a word and byte-level BPE writes a space as U+0120; or for people.
      guesses.push_back({{"token", id < tokens.size() ? tokens[id] : none}, {"probability", one.probability}});
      lines += shown_guess(one.probability, id < shown.size() ? shown[id] : none);
    }
    all.push_back(guesses);
  }
  if (arguments.json) lines = json_text({{"text", arguments.text}, {"masks", all}}) + "\n";
  std::fwrite(lines.data(), 1, lines.size(), stdout);
  return 0;
}

}  // namespace bascule
