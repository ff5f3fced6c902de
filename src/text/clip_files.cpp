// SPDX-License-Identifier: Apache-2.0
#include "src/text/clip_files.h"

#include <algorithm>
#include <iterator>

#include "src/base/error.h"
#include "src/json/json.h"
#include "src/text/clip_text.h"
#include "src/text/side_tokens.h"

namespace bascule {
namespace {

// The pattern as Transformers 5 writes it, and as older folders have it; Transformers 5 reads both as the first.
constexpr const char* kPatterns[] = {
    R"(<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+)",
    R"('s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+)"};

// The steps of a normalizer or a pre_tokenizer, which is a Sequence of the given types.
const Json& sequence_of(const Json& document, const char* key, const char* list, const std::vector<std::string>& types,
                        const std::string& where) {
  const std::string type = type_of(document, key, where);
  if (type != "Sequence") refuse_bpe(where, std::string("the ") + key + " is \"" + type + "\"");
  const Json& steps = get_array(get_object(document, key, where), list, where);
  bool is_same = steps.size() == types.size();
  for (std::size_t i = 0; is_same && i < types.size(); ++i) is_same = get_string(steps[i], "type", where) == types[i];
  if (!is_same) refuse_bpe(where, std::string("the steps of the ") + key + " are not CLIP's");
  return steps;
}

std::string pattern_of(const Json& step, const std::string& where) {
  return get_string(get_object(step, "pattern", where), "Regex", where);
}

void check_processing(const Json& document, const std::string& where) {
  const Json& normalizers = sequence_of(document, "normalizer", "normalizers", {"NFC", "Replace", "Lowercase"}, where);
  if (pattern_of(normalizers[1], where) != R"(\s+)" || get_string(normalizers[1], "content", where) != " ")
    refuse_bpe(where, "the normalizer does not make one space of white space");
  const Json& cutters = sequence_of(document, "pre_tokenizer", "pretokenizers", {"Split", "ByteLevel"}, where);
  const std::string pattern = pattern_of(cutters[0], where);
  if (std::find(std::begin(kPatterns), std::end(kPatterns), pattern) == std::end(kPatterns) ||
      get_string(cutters[0], "behavior", where) != "Removed" || !get_bool(cutters[0], "invert", where))
    refuse_bpe(where, "the pre_tokenizer's pattern is not CLIP's");
  if (!get_bool(cutters[1], "use_regex", where, true) || get_bool(cutters[1], "add_prefix_space", where, true))
    refuse_bpe(where, "the pre_tokenizer's ByteLevel is not CLIP's");
  const std::string ending = type_of(document, "post_processor", where);
  if (ending != "RobertaProcessing") refuse_bpe(where, "the post_processor is \"" + ending + "\"");
}

}  // namespace

BpeFiles read_clip_files(const TokenizerFolder& folder) {
  BpeFiles files;
  if (folder.document.is_null()) {
    read_vocabulary_and_merges(folder, &files);
  } else {
    check_processing(folder.document, folder.where);
    read_bpe_model(folder, &files);
  }
  files.word_end = folder.word_end;
  const SideTokens side = read_side_tokens(folder, {{kBosToken, "<|startoftext|>"},
                                                    {kEosToken, "<|endoftext|>"},
                                                    {kUnkToken, "<|endoftext|>"},
                                                    {kPadToken, "<|endoftext|>"}});
  files.added = added_tokens(
      side, static_cast<std::int32_t>(files.tokens.size()),
      [&](const std::string& text) {
        const auto found = files.tokens.find(text);
        return found == files.tokens.end() ? -1 : found->second;
      },
      files.where);
  normalise_added(normalised_clip_text, files.where, &files.added);
  files.bos = side.roles[kBosToken].text;
  files.eos = side.roles[kEosToken].text;
  files.unk = files.unknown_byte = side.roles[kUnkToken].text;
  files.pad = side.roles[kPadToken].text;
  files.mask = side.roles[kMaskToken].text;
  return files;
}

}  // namespace bascule
