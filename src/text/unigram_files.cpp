// SPDX-License-Identifier: Apache-2.0
#include "src/text/unigram_files.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "src/base/error.h"
#include "src/base/span.h"
#include "src/base/utf8.h"
#include "src/json/json.h"
#include "src/text/unicode_tables.h"

namespace bascule {
namespace {

constexpr std::size_t kLongestCluster = 5;  // bytes, that is looked up whole

// The fields of a unit, as darts-clone packs them.
bool has_leaf(std::uint32_t unit) noexcept { return (unit >> 8 & 1) != 0; }
std::uint32_t value_of(std::uint32_t unit) noexcept { return unit & 0x7fffffffu; }
std::uint32_t label_of(std::uint32_t unit) noexcept { return unit & 0x800000ffu; }
std::size_t offset_of(std::uint32_t unit) noexcept {
  return static_cast<std::size_t>(unit >> 10) << ((unit & 512) >> 6);
}

[[noreturn]] void refuse_map(const std::string& where, const std::string& problem) {
  throw Error{ErrorKind::kData, where, "precompiled_charsmap " + problem, "download the tokenizer again"};
}

std::uint32_t word_at(const std::string& bytes, std::size_t place) noexcept {
  std::uint32_t word = 0;
  for (std::size_t i = 0; i < 4; ++i)
    word |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[place + i])) << 8 * i;
  return word;
}

// The end of the grapheme cluster that begins at `place`.
std::size_t cluster_end(std::string_view text, std::size_t place) noexcept {
  const Utf8Character first = utf8_character(text, place);
  std::size_t end = place + first.bytes;
  if (first.code_point == '\r' && end < text.size() && text[end] == '\n') return end + 1;
  if (end == text.size() || static_cast<unsigned char>(text[end]) < 0x80) return end;  // no ASCII continues a cluster
  if (grapheme_class(first.code_point) == GraphemeClass::kAlone) return end;
  while (end < text.size()) {
    const Utf8Character next = utf8_character(text, end);
    if (grapheme_class(next.code_point) != GraphemeClass::kContinues) break;
    end += next.bytes;
  }
  return end;
}

}  // namespace

CharacterMap::CharacterMap(const std::string& bytes, const std::string& where) {
  if (bytes.size() < 4) refuse_map(where, "is cut short");
  const std::size_t trie_bytes = word_at(bytes, 0);
  if (trie_bytes % 4 != 0 || trie_bytes == 0 || trie_bytes > bytes.size() - 4) refuse_map(where, "is cut short");
  for (std::size_t i = 0; i < trie_bytes / 4; ++i) units_.push_back(word_at(bytes, 4 + 4 * i));
  values_ = bytes.substr(4 + trie_bytes);
  if (values_.empty() || values_.back() != '\0') refuse_map(where, "is cut short");
  check(where);
}

// Visits every unit that a key leads to, the shortest keys first (keys share their ends): what apply() follows lies
// inside the units and gives UTF-8.
void CharacterMap::check(const std::string& where) {
  struct Visit {
    std::size_t unit, depth;
  };
  std::vector<Visit> visits = {{0, 0}};
  std::vector<bool> seen(units_.size(), false);
  for (std::size_t next = 0; next < visits.size(); ++next) {
    const auto [unit, depth] = visits[next];
    const std::size_t base = unit ^ offset_of(units_[unit]);
    for (std::size_t c = 1; c < 256; ++c) {
      const std::size_t child = base ^ c;
      if (child >= units_.size() || label_of(units_[child]) != c || seen[child]) continue;
      seen[child] = true;
      visits.push_back({child, depth + 1});
      if (!has_leaf(units_[child])) continue;
      const std::size_t leaf = child ^ offset_of(units_[child]);
      if (leaf >= units_.size() || value_of(units_[leaf]) >= values_.size())
        refuse_map(where, "has a value outside it");
      const std::string_view value = values_.data() + value_of(units_[leaf]);
      if (first_invalid_utf8(value) < value.size()) refuse_map(where, "has a value that is not UTF-8");
      growth_ = std::max(growth_, divide_up(value.size(), depth + 1));
    }
  }
  for (std::size_t c = 0; c < 128; ++c) {
    const char key = static_cast<char>(c);
    const std::size_t child = offset_of(units_[0]) ^ c;
    is_kept_[c] = c == 0 || child >= units_.size() || label_of(units_[child]) != c || find({&key, 1}) == nullptr;
  }
}

const char* CharacterMap::find(std::string_view key) const noexcept {
  std::size_t node = units_.empty() ? 0 : offset_of(units_[0]);
  for (const char character : key) {
    const std::size_t c = static_cast<unsigned char>(character);
    if (c == 0) return nullptr;
    node ^= c;
    if (node >= units_.size() || label_of(units_[node]) != c) return nullptr;
    const std::uint32_t unit = units_[node];
    node ^= offset_of(unit);
    if (has_leaf(unit)) return values_.data() + value_of(units_[node]);
  }
  return nullptr;
}

std::size_t CharacterMap::apply(std::string_view text, char* out) const noexcept {
  std::size_t written = 0;
  const auto put = [&](std::string_view what) {
    std::memcpy(out + written, what.data(), what.size());
    written += what.size();
  };
  if (units_.empty()) {
    put(text);
    return written;
  }
  const auto ascii = [&](std::size_t place) { return static_cast<unsigned char>(text[place]) < 0x80; };
  for (std::size_t place = 0; place < text.size();) {
    if (ascii(place) && is_kept_[static_cast<unsigned char>(text[place])] &&
        (place + 1 == text.size() || ascii(place + 1))) {  // most of English
      out[written++] = text[place++];
      continue;
    }
    const std::size_t end = cluster_end(text, place);
    if (end - place <= kLongestCluster) {
      if (const char* const value = find(text.substr(place, end - place))) {
        put(value);
        place = end;
        continue;
      }
    }
    while (place < end) {
      const std::size_t bytes = utf8_character(text, place).bytes;
      const char* const value = find(text.substr(place, bytes));
      put(value != nullptr ? std::string_view(value) : text.substr(place, bytes));
      place += bytes;
    }
  }
  return written;
}

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
      files->joins_with_sign = get_string(*part, "content", where) != " ";
    } else {
      refuse_unigram(where, "the normalizer \"" + type + "\" is not supported as it stands there");
    }
  }
}

void check_metaspace(const Json& part, const std::string& where) {
  if (type_of(part, where) != "Metaspace")
    refuse_unigram(where, "the pre_tokenizer's \"" + type_of(part, where) + "\" is not Metaspace");
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

std::int32_t required_id(const std::string& text, const TokenIds& ids, const UnigramFiles& files) {
  const std::int32_t id = id_in(ids, files.added, text);
  if (id < 0) throw Error{ErrorKind::kData, files.where, "there is no token \"" + text + "\""};
  return id;
}

// T5Tokenizer takes the map of characters, the pieces and the tokens of tokenizer.json, and no more.
void rebuild(const TokenizerFolder& folder, const std::string& end, const TokenIds& ids, SideTokens* side,
             UnigramFiles* files) {
  files->splits_at_space = true;
  files->joins_spaces = files->joins_with_sign = false;
  const std::string& where = folder.config_where;
  if (files->unknown != 2) refuse_unigram(files->where, "unk_id is not 2, which T5Tokenizer takes");
  if (side->roles[kEosToken].text != end)
    refuse_unigram(where, "eos_token is \"" + side->roles[kEosToken].text + "\", but texts end with \"" + end + "\"");
  if (find_member(folder.config, "extra_special_tokens", where) != nullptr) return;
  const std::int64_t extra = get_int(folder.config, "extra_ids", where, 100);
  for (std::int64_t i = 0; i < extra; ++i) {
    AddedToken token;
    token.text = "<extra_id_" + std::to_string(i) + ">";
    const bool is_listed = std::any_of(side->listed.begin(), side->listed.end(),
                                       [&](const auto& entry) { return entry.second.text == token.text; });
    if (!is_listed && ids.count(token.text) == 0) {
      throw Error{ErrorKind::kData, where,
                  "extra_ids is " + std::to_string(extra) + ", but there is no token \"" + token.text + "\"",
                  "write the number of extra_id tokens"};
    }
    side->further.push_back(std::move(token));
  }
}

}  // namespace

UnigramFiles read_unigram_files(const TokenizerFolder& folder) {
  if (folder.document.is_null()) {
    if (folder.has("sentencepiece.bpe.model")) refuse_unigram(folder.where, "XLM-RoBERTa's kind is not supported");
    throw Error{ErrorKind::kData, folder.where, "is not read: tokenizer.json is missing",
                "write it with Python: from transformers import AutoTokenizer; "
                "AutoTokenizer.from_pretrained('FOLDER').save_pretrained('FOLDER')"};
  }
  UnigramFiles files;
  files.where = folder.where;
  const Json& model = get_object(folder.document, "model", files.where);
  read_pieces(model, files.where, &files);
  read_normalizer(folder.document, files.where, &files);
  read_pre_tokenizer(folder.document, files.where, &files);
  const std::string end = end_token(folder.document, files.where);
  SideTokens side =
      read_side_tokens(folder, {{kEosToken, end.c_str()},
                                {kUnkToken, files.pieces[static_cast<std::size_t>(files.unknown)].text.c_str()},
                                {kPadToken, "<pad>"}});
  TokenIds ids;
  for (std::size_t i = 0; i < files.pieces.size(); ++i) ids.emplace(files.pieces[i].text, static_cast<std::int32_t>(i));
  if (folder.is_rebuilt) rebuild(folder, end, ids, &side, &files);
  files.added = added_tokens(side, files.pieces.size(), ids, files.where);
  const auto normalized =
      std::find_if(files.added.begin(), files.added.end(), [](const AddedToken& token) { return token.normalized; });
  if (files.joins_with_sign && normalized != files.added.end()) {
    refuse_unigram(files.where, "token \"" + normalized->text +
                                    "\" has normalized where the normalizer makes \"\u2581\" of several spaces");
  }
  files.end = required_id(end, ids, files);
  files.pad = required_id(side.roles[kPadToken].text, ids, files);
  return files;
}

}  // namespace bascule
