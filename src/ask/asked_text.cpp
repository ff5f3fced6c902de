// SPDX-License-Identifier: Apache-2.0
#include "src/ask/asked_text.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "src/base/check.h"
#include "src/base/error.h"
#include "src/base/utf8.h"

namespace bascule {
namespace {

// which: "", or which text of a pair.
void check_utf8(std::string_view text, const char* which, const std::string& where) {
  const std::size_t byte = first_invalid_utf8(text);
  if (byte < text.size())
    throw Error(ErrorKind::kData, where, "byte " + std::to_string(byte) + which + " is not UTF-8", "write it in UTF-8");
}

void say_cut(const std::string& where, std::size_t all, std::size_t kept) {
  std::fprintf(stderr, "bascule: %s has %zu tokens and is cut to %zu\n", where.c_str(), all, kept);
}

}  // namespace

void say_if_file(const std::string& text) {
  std::error_code failure;
  if (!std::filesystem::is_regular_file(text, failure)) return;
  std::fprintf(stderr,
               "bascule: the model reads texts: \"%s\" is taken as words, and the file of that name is not read\n",
               printable_line(text).c_str());
}

EncodedText encode_text(const Tokenizer& tokenizer, const AskedText& asked, std::int64_t longest,
                        const std::string& where) {
  Texts texts{asked.first};
  if (asked.second) texts.second = *asked.second;
  const std::string_view second = texts.second.value_or("");
  check_utf8(texts.first, texts.second ? " of the first text" : "", where);
  check_utf8(second, " of the second text", where);
  EncodedText encoded;
  encoded.ids.resize(static_cast<std::size_t>(longest));
  std::vector<std::byte> scratch(tokenizer.scratch_bytes(std::max(texts.first.size(), second.size())));
  Encoded counts;
  BASCULE_CHECK(tokenizer.encode_into(texts, encoded.ids, &counts, scratch).ok());  // UTF-8, and room for it
  // Only a sequence that is full may have been cut.
  const std::size_t all =
      counts.tokens < longest ? static_cast<std::size_t>(counts.tokens) : tokenizer.encode(texts).size();
  encoded.ids.resize(static_cast<std::size_t>(counts.tokens));
  encoded.second_begin = static_cast<std::size_t>(counts.second_begin);
  if (all > encoded.ids.size()) say_cut(where, all, encoded.ids.size());
  return encoded;
}

EncodedText encode_places(const Tokenizer& tokenizer, const AskedText& asked, std::int64_t longest,
                          const std::string& where) {
  check_utf8(asked.first, "", where);
  EncodedText encoded;
  encoded.placed = tokenizer.place_tokens(asked.first);
  const std::size_t special = static_cast<std::size_t>(tokenizer.special_tokens(false));
  const std::size_t most = static_cast<std::size_t>(longest), room = most - special;
  if (encoded.placed.size() > room) {
    say_cut(where, encoded.placed.size() + special, most);
    encoded.placed.resize(room);
  }
  encoded.ids.assign(tokenizer.before().begin(), tokenizer.before().end());
  for (const PlacedToken& token : encoded.placed) encoded.ids.push_back(token.id);
  encoded.ids.insert(encoded.ids.end(), tokenizer.after().begin(), tokenizer.after().end());
  encoded.second_begin = encoded.ids.size();
  return encoded;
}

}  // namespace bascule
