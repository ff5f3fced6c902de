// SPDX-License-Identifier: Apache-2.0
#include "src/text/word_piece_files.h"

#include <algorithm>
#include <sstream>

#include "src/base/error.h"
#include "src/files/input_file.h"
#include "src/json/json.h"

namespace bascule {

int WordPieceNormalizer::code_points(std::uint32_t code_point, std::uint32_t (&out)[3]) const noexcept {
  std::uint32_t parts[4] = {code_point};
  int count = 0;
  for (int part = 0, of = strips_marks ? decomposed(code_point, parts) : 1; part < of; ++part) {
    if (strips_marks && is_mark(parts[part])) continue;
    const CodePointPair lower = lowers ? lower_case(parts[part]) : CodePointPair{parts[part]};
    out[count++] = lower.first;
    if (lower.second != 0) out[count++] = lower.second;
  }
  return count;
}

std::string WordPieceNormalizer::normalised(std::string_view text) const {
  std::string bytes(most_bytes(text.size()), '\0');
  NormalisedText out{bytes.data()};
  normalise(
      text, 0, text.size(), [] { return false; },
      [&](std::uint32_t code_point, std::size_t from, std::size_t to) { out.add(code_point, from, to); });
  bytes.resize(out.size);
  return bytes;
}

namespace {

[[noreturn]] void refuse_word_piece(const std::string& where, const std::string& what) {
  throw Error{ErrorKind::kData, where, what, "the only WordPiece tokenizer supported is BERT's"};
}

// strips_marks null: as the lower case.
void set_case(bool lowers, const Json* strips_marks, const std::string& where, WordPieceFiles* files) {
  if (strips_marks != nullptr && !strips_marks->is_boolean())
    throw Error{ErrorKind::kData, where, "strip_accents is " + json_text(*strips_marks), "write true, false or null"};
  files->normalizer.lowers = lowers;
  files->normalizer.strips_marks = strips_marks != nullptr ? strips_marks->boolean() : lowers;
  if (files->normalizer.strips_marks && !lowers)
    refuse_word_piece(where, "lowercase = false with strip_accents = true is not supported");
}

std::string type_of(const Json& document, const char* key, const std::string& where) {
  return get_string(get_object(document, key, where), "type", where + ": " + key);
}

void read_normalizer(const Json& document, const std::string& where, WordPieceFiles* files) {
  if (type_of(document, "normalizer", where) != "BertNormalizer")
    refuse_word_piece(where, "the normalizer is not BertNormalizer");
  const Json& normalizer = get_object(document, "normalizer", where);
  if (!get_bool(normalizer, "clean_text", where, true)) refuse_word_piece(where, "normalizer.clean_text is false");
  files->normalizer.splits_chinese = get_bool(normalizer, "handle_chinese_chars", where, true);
  set_case(get_bool(normalizer, "lowercase", where, true), find_member(normalizer, "strip_accents", where), where,
           files);
  if (type_of(document, "pre_tokenizer", where) != "BertPreTokenizer")
    refuse_word_piece(where, "the pre_tokenizer is not BertPreTokenizer");
}

// [CLS] a [SEP], and [CLS] a [SEP] b [SEP] with types 0 and 1.
void check_template(const Json& document, const std::string& where, WordPieceFiles* files) {
  const std::string type = type_of(document, "post_processor", where);
  const Json& processor = get_object(document, "post_processor", where);
  if (type == "BertProcessing") {
    for (const auto& [key, role] : {std::pair{"cls", &files->cls}, std::pair{"sep", &files->sep}}) {
      const Json& pair = get_array(processor, key, where);
      if (pair.size() != 2 || !pair[0].is_string())
        refuse_word_piece(where, std::string("post_processor.") + key + " is not a pair of token and id");
      *role = pair[0].string();
    }
    return;
  }
  if (type != "TemplateProcessing") refuse_word_piece(where, "the post_processor is \"" + type + "\"");
  const auto part = [&](const Json& parts, std::size_t i, const char* kind, std::int64_t type_id) {
    const Json* const found = parts[i].find(kind);
    if (found == nullptr || get_int(*found, "type_id", where) != type_id)
      refuse_word_piece(where, "the post_processor's template is not BERT's");
    return get_string(*found, "id", where);
  };
  const Json &single = get_array(processor, "single", where), &pair = get_array(processor, "pair", where);
  if (single.size() != 3 || pair.size() != 5) refuse_word_piece(where, "the post_processor's template is not BERT's");
  files->cls = part(single, 0, "SpecialToken", 0);
  files->sep = part(single, 2, "SpecialToken", 0);
  (void)part(single, 1, "Sequence", 0);
  (void)part(pair, 1, "Sequence", 0);
  (void)part(pair, 3, "Sequence", 1);
  const bool is_berts = part(pair, 0, "SpecialToken", 0) == files->cls &&
                        part(pair, 2, "SpecialToken", 0) == files->sep &&
                        part(pair, 4, "SpecialToken", 1) == files->sep;
  if (!is_berts) refuse_word_piece(where, "the post_processor's template is not BERT's");
}

void read_tokenizer_json(const Json& document, const std::string& where, WordPieceFiles* files) {
  const Json& model = get_object(document, "model", where);
  if (get_string(model, "continuing_subword_prefix", where, "##") != "##")
    refuse_word_piece(where, "continuing_subword_prefix is not \"##\"");
  if (get_int(model, "max_input_chars_per_word", where, 100) != 100)
    refuse_word_piece(where, "max_input_chars_per_word is not 100");
  files->unk = get_string(model, "unk_token", where, "[UNK]");
  read_normalizer(document, where, files);
  check_template(document, where, files);
  const Json& vocabulary = get_object(model, "vocab", where);
  files->tokens.reserve(vocabulary.size());
  for (const auto& [token, id] : vocabulary.items()) files->tokens.emplace(token, token_id(id, token, where));
}

void read_vocabulary(const std::string& path, WordPieceFiles* files) {
  std::istringstream file(text_of_file(path));
  std::string line;
  for (std::int32_t id = 0; std::getline(file, line); ++id) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    files->tokens[line] = id;  // of two equal lines the later counts, as in Transformers
  }
}

// How BertTokenizer normalises, beside tokenizer.json too. Where tokenizer_config.json does not say strip_accents,
// tokenizer.json counts.
void read_config(const TokenizerFolder& folder, WordPieceFiles* files) {
  const std::string& where = folder.config_where;
  const Json& config = folder.config;
  const Json* const strips_marks = find_member(config, "strip_accents", where);
  const Json kept(files->normalizer.strips_marks);
  const bool lowers = get_bool(config, "do_lower_case", where, true);
  const bool is_kept = strips_marks == nullptr && lowers && files->normalizer.lowers;
  set_case(lowers, is_kept ? &kept : strips_marks, where, files);
  files->normalizer.splits_chinese = get_bool(config, "tokenize_chinese_chars", where, true);
}

}  // namespace

WordPieceFiles read_word_piece_files(const TokenizerFolder& folder) {
  WordPieceFiles files;
  files.where = folder.where;
  if (folder.document.is_null()) {
    read_vocabulary(folder.where, &files);
  } else {
    read_tokenizer_json(folder.document, folder.where, &files);
  }
  if (folder.is_rebuilt) read_config(folder, &files);
  // Transformers 5 alone writes this class, and gives types only where the names of inputs have them.
  files.has_types = folder.class_as_written != "TokenizersBackend";
  if (find_member(folder.config, "model_input_names", folder.config_where) != nullptr) {
    const std::vector<std::string> names = get_strings(folder.config, "model_input_names", folder.config_where);
    files.has_types = std::find(names.begin(), names.end(), "token_type_ids") != names.end();
  }
  const SideTokens side = read_side_tokens(folder, {{kUnkToken, files.unk.c_str()},
                                                    {kPadToken, files.pad.c_str()},
                                                    {kSepToken, files.sep.c_str()},
                                                    {kClsToken, files.cls.c_str()},
                                                    {kMaskToken, files.mask.c_str()}});
  files.added = added_tokens(side, files.tokens.size(), files.tokens, files.where);
  normalise_added([&](std::string_view text) { return files.normalizer.normalised(text); }, files.where, &files.added);
  if (!folder.is_rebuilt && (side.roles[kClsToken].text != files.cls || side.roles[kSepToken].text != files.sep)) {
    const std::string& name = folder.class_as_written;
    refuse_word_piece(folder.config_where, "cls_token or sep_token is not that of tokenizer.json, which counts " +
                                               (name.empty() ? "where no class is named" : "with " + name));
  }
  if (folder.is_rebuilt) files.unk = side.roles[kUnkToken].text;
  files.pad = side.roles[kPadToken].text;
  files.sep = side.roles[kSepToken].text;
  files.cls = side.roles[kClsToken].text;
  files.mask = side.roles[kMaskToken].text;
  return files;
}

}  // namespace bascule
