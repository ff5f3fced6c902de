// SPDX-License-Identifier: Apache-2.0
#include "src/commands/tokenize.h"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>
#include <vector>

#include "src/base/error.h"
#include "src/json/json.h"
#include "src/text/tokenizer_kinds.h"

namespace bascule {
namespace {

constexpr const char* kInputName = "standard input";

TokenPadding padding_of(const TokenizeArguments& arguments) {
  if (!arguments.padding) return TokenPadding::kNone;
  const std::string& value = *arguments.padding;
  if (value == "longest") return TokenPadding::kLongest;
  if (value.empty()) return arguments.max_length > 0 ? TokenPadding::kMaxLength : TokenPadding::kLongest;
  if (value != "max_length") {
    throw Error{ErrorKind::kSettings, "--padding", "\"" + value + "\" is not a padding mode",
                "use longest or max_length"};
  }
  if (arguments.max_length == 0) {
    throw Error{ErrorKind::kSettings, "--padding", "max_length without a length", "set --max-length too"};
  }
  return TokenPadding::kMaxLength;
}

// Reads the texts from a string, or from an array of two.
Texts texts_of(const Json& row, const std::string& where) {
  if (row.is_string()) return {row.string()};
  if (row.is_array() && row.size() == 2 && row[0].is_string() && row[1].is_string())
    return {row[0].string(), row[1].string()};
  throw Error{ErrorKind::kData, where, json_text(row) + " is not a string",
              "write a string, or an array of two for a pair of texts"};
}

std::vector<std::int32_t> encode_row(const Json& row, std::size_t number, const Tokenizer& tokenizer,
                                     std::int64_t max_length) {
  const std::string where = std::string(kInputName) + ": text " + std::to_string(number);
  const Texts texts = texts_of(row, where);
  const std::int64_t special = tokenizer.special_tokens(texts.second.has_value());
  if (max_length > 0 && max_length < special) {
    throw Error{ErrorKind::kSettings, "--max-length", std::to_string(max_length) + " is too short",
                "use " + std::to_string(special) + " or more: that many special tokens are always added"};
  }
  try {
    return tokenizer.encode(texts, max_length);
  } catch (const Error& error) {
    throw Error{error.kind(), where, error.problem(), error.what_to_do()};
  }
}

void write_ids(const std::vector<std::int32_t>& ids, std::ostream& output) {
  output << '[';
  for (std::size_t i = 0; i < ids.size(); ++i) output << (i == 0 ? "" : ", ") << ids[i];
  output << ']';
}

}  // namespace

void tokenize_streams(const TokenizeArguments& arguments, std::istream& input, std::ostream& output) {
  if (arguments.max_length < 0 || arguments.max_length == 1) {
    throw Error{ErrorKind::kSettings, "--max-length", std::to_string(arguments.max_length) + " is too short",
                "use 2 or more: the tokens of the beginning and the end are always added"};
  }
  const TokenPadding padding = padding_of(arguments);
  const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(arguments.model);
  const std::string text{std::istreambuf_iterator<char>(input), std::istreambuf_iterator<char>()};
  const Json texts = parse_json(text, kInputName);
  if (!texts.is_array()) throw Error{ErrorKind::kData, kInputName, "not an array", "write a JSON array of strings"};
  std::vector<std::vector<std::int32_t>> rows;
  std::size_t width = padding == TokenPadding::kMaxLength ? static_cast<std::size_t>(arguments.max_length) : 0;
  for (const Json& value : texts) {
    rows.push_back(encode_row(value, rows.size(), *tokenizer, arguments.max_length));
    if (padding == TokenPadding::kLongest) width = std::max(width, rows.back().size());
  }
  output << '[';
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].size() < width) rows[i].resize(width, tokenizer->pad_id());
    output << (i == 0 ? "" : ",\n ");
    write_ids(rows[i], output);
  }
  output << "]\n";
}

int tokenize_command(const TokenizeArguments& arguments) {
  // A closed or unreadable standard input would look like an empty text.
  if (std::cin.peek() == std::istream::traits_type::eof() && std::ferror(stdin) != 0)
    throw Error{ErrorKind::kData, kInputName, "cannot be read", "write a JSON array of strings to it"};
  tokenize_streams(arguments, std::cin, std::cout);
  std::cout.flush();
  return 0;
}

}  // namespace bascule
