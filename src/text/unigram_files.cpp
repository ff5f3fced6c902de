// SPDX-License-Identifier: Apache-2.0
#include "src/text/unigram_files.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "src/base/error.h"
#include "src/json/json.h"
#include "src/text/token_id.h"

namespace bascule {
namespace {

[[noreturn]] void refuse_unigram(const std::string& where, const std::string& what) {
  throw Error{ErrorKind::kData, where, what, "the only unigram tokenizer supported is T5's"};
}

std::string from_base64(const std::string& text, const std::string& where) {
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    if (c == '=') break;
    const std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const std::size_t digit = alphabet.find(c);
    if (digit == std::string_view::npos) refuse_unigram(where, "precompiled_charsmap is not base64");
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes.push_back(static_cast<char>(bits >> count & 0xff));
  }
  return bytes;
}

std::string type_of(const Json& part, const std::string& where) { return get_string(part, "type", where); }

// The parts of a sequence, or the part itself.
std::vector<const Json*> parts_of(const Json& document, const char* key, const char* list, const std::string& where) {
  const Json* const whole = find_member(document, key, where);
  if (whole == nullptr) return {};
  if (type_of(*whole, where) != "Sequence") return {whole};
  std::vector<const Json*> parts;
  for (const Json& part : get_array(*whole, list, where)) parts.push_back(&part);
  return parts;
}

bool is_joining(const Json& part, const std::string& where) {
  const std::string content = get_string(part, "content", where);
  return get_string(get_object(part, "pattern", where), "Regex", where, "") == " {2,}" &&
         (content == " " || content == "\u2581");
}

void read_normalizer(const Json& document, const std::string& where, UnigramFiles* files) {
  for (const Json* part : parts_of(document, "normalizer", "normalizers", where)) {
    const std::string type = type_of(*part, where);
    if (type == "Precompiled" && files->character_map.empty()) {
      files->character_map = from_base64(get_string(*part, "precompiled_charsmap", where), where);
    } else if (type == "Strip") {
      if (get_bool(*part, "strip_left", where) || !get_bool(*part, "strip_right", where))
        refuse_unigram(where, "the normalizer does not strip on the right alone");
    } else if (type == "Replace" && is_joining(*part, where)) {
      files->joins_spaces = true;
    } else {
      refuse_unigram(where, "the normalizer \"" + type + "\" is not supported as it stands there");
    }
  }
}

void check_metaspace(const Json& part, const std::string& where) {
  if (type_of(part, where) != "Metaspace") refuse_unigram(where, "\"" + type_of(part, where) + "\" is not Metaspace");
  if (get_string(part, "replacement", where) != "\u2581")
    refuse_unigram(where, "Metaspace's replacement is not \"\u2581\"");
  if (get_string(part, "prepend_scheme", where, "always") != "always" ||
      !get_bool(part, "add_prefix_space", where, true))
    refuse_unigram(where, "Metaspace does not put \"\u2581\" before every word");
  if (!get_bool(part, "split", where, true)) refuse_unigram(where, "Metaspace does not split");
}

void read_pre_tokenizer(const Json& document, const std::string& where, UnigramFiles* files) {
  const std::vector<const Json*> parts = parts_of(document, "pre_tokenizer", "pretokenizers", where);
  if (parts.empty() || parts.size() > 2) refuse_unigram(where, "the pre_tokenizer is not T5's");
  files->splits_at_space = parts.size() == 2;
  if (files->splits_at_space && type_of(*parts[0], where) != "WhitespaceSplit")
    refuse_unigram(where, "the pre_tokenizer \"" + type_of(*parts[0], where) + "\" is not supported");
  check_metaspace(*parts.back(), where);
}

// a </s>, and a </s> b </s>.
std::string end_token(const Json& document, const std::string& where) {
  const Json& processor = get_object(document, "post_processor", where);
  const auto is_sequence = [](const Json& part) { return part.is_object() && part.find("Sequence") != nullptr; };
  const auto token = [&](const Json& part) {
    const Json* const found = part.is_object() ? part.find("SpecialToken") : nullptr;
    return found == nullptr ? std::string() : get_string(*found, "id", where);
  };
  if (type_of(processor, where) == "TemplateProcessing") {
    const Json &single = get_array(processor, "single", where), &pair = get_array(processor, "pair", where);
    std::string end = single.size() == 2 ? token(single[1]) : "";
    if (!end.empty() && is_sequence(single[0]) && pair.size() == 4 && is_sequence(pair[0]) && token(pair[1]) == end &&
        is_sequence(pair[2]) && token(pair[3]) == end)
      return end;
  }
  refuse_unigram(where, "the post_processor is not T5's, which puts </s> behind a text");
}

void read_pieces(const Json& model, const std::string& where, UnigramFiles* files) {
  if (get_bool(model, "byte_fallback", where, false)) refuse_unigram(where, "byte_fallback is true");
  for (const Json& entry : get_array(model, "vocab", where)) {
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number())
      throw Error{ErrorKind::kData, where, "vocab has " + json_text(entry), "an entry is [piece, score]"};
    files->pieces.push_back({entry[0].string(), entry[1].number()});
    if (!std::isfinite(files->pieces.back().score))
      throw Error{ErrorKind::kData, where, "the score of \"" + entry[0].string() + "\" is not finite"};
  }
  const std::int64_t unknown = get_int(model, "unk_id", where, -1);
  if (unknown < 0 || unknown >= static_cast<std::int64_t>(files->pieces.size()))
    refuse_unigram(where, "the vocabulary has no unknown token (unk_id)");
  files->unknown = static_cast<std::int32_t>(unknown);
}

void read_added(const Json& document, const std::string& where, UnigramFiles* files) {
  if (find_member(document, "added_tokens", where) == nullptr) return;
  for (const Json& value : get_array(document, "added_tokens", where)) {
    AddedToken token;
    token.text = get_string(value, "content", where);
    if (token.text.empty()) throw Error{ErrorKind::kData, where, "an added token is empty"};
    for (const char* key : {"single_word", "normalized"}) {
      if (get_bool(value, key, where, false))
        throw Error{ErrorKind::kData, where, "token \"" + token.text + "\" has " + key + ", which is not supported"};
    }
    const Json* const id = value.find("id");
    token.id = token_id(id != nullptr ? *id : Json(), token.text, where);
    token.takes_space_before = get_bool(value, "lstrip", where, false);
    token.takes_space_after = get_bool(value, "rstrip", where, false);
    token.special = get_bool(value, "special", where, true);
    files->added.push_back(std::move(token));
  }
}

// -1: there is none.
std::int32_t id_of(const std::string& text, const UnigramFiles& files) {
  for (const AddedToken& token : files.added) {
    if (token.text == text) return token.id;
  }
  const auto found = std::find_if(files.pieces.begin(), files.pieces.end(),
                                  [&](const UnigramFiles::Piece& piece) { return piece.text == text; });
  return found == files.pieces.end() ? -1 : static_cast<std::int32_t>(found - files.pieces.begin());
}

}  // namespace

UnigramFiles read_unigram_files(const TokenizerFolder& folder) {
  if (folder.document.is_null()) {
    throw Error{ErrorKind::kData, folder.where, "is not read: tokenizer.json is missing",
                "write it with Python: from transformers import AutoTokenizer; "
                "AutoTokenizer.from_pretrained('FOLDER').save_pretrained('FOLDER')"};
  }
  UnigramFiles files;
  files.where = folder.where;
  const Json& model = get_object(folder.document, "model", files.where);
  read_pieces(model, files.where, &files);
  read_added(folder.document, files.where, &files);
  read_normalizer(folder.document, files.where, &files);
  read_pre_tokenizer(folder.document, files.where, &files);
  const std::string end = end_token(folder.document, files.where);
  files.end = id_of(end, files);
  if (files.end < 0) throw Error{ErrorKind::kData, files.where, "there is no token \"" + end + "\""};
  std::string pad = "<pad>";
  if (folder.has("tokenizer_config.json")) {
    const std::string path = folder.path + "/tokenizer_config.json";
    const Json config = read_json_file(path);
    const Json* const written = find_member(config, "pad_token", path);
    if (written != nullptr)
      pad = written->is_object() ? get_string(*written, "content", path) : get_string(config, "pad_token", path);
  }
  files.pad = id_of(pad, files);
  if (files.pad < 0) throw Error{ErrorKind::kData, files.where, "there is no token \"" + pad + "\""};
  return files;
}

}  // namespace bascule
