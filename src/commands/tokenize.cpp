// SPDX-License-Identifier: Apache-2.0
#include "src/commands/commands.h"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <limits>
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

void check_length(std::int64_t max_length, std::int64_t special_tokens) {
  if (max_length != 0 && max_length < special_tokens) {
    throw Error{ErrorKind::kSettings, "--max-length", std::to_string(max_length) + " is too short",
                "use " + std::to_string(special_tokens) + " or more: that many special tokens are always added"};
  }
}

std::vector<std::int32_t> encode_row(const Json& row, std::size_t number, const Tokenizer& tokenizer,
                                     std::int64_t max_length) {
  const std::string where = std::string(kInputName) + ": text " + std::to_string(number);
  const Texts texts = texts_of(row, where);
  check_length(max_length, tokenizer.special_tokens(texts.second.has_value()));
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

Json read_array(std::istream& input, const char* of_what) {
  const std::string text{std::istreambuf_iterator<char>(input), std::istreambuf_iterator<char>()};
  Json rows = parse_json(text, kInputName);
  if (!rows.is_array())
    throw Error{ErrorKind::kData, kInputName, "not an array", std::string("write a JSON array of ") + of_what};
  return rows;
}

std::vector<std::int32_t> ids_of(const Json& row, std::size_t number) {
  const std::string where = std::string(kInputName) + ": row " + std::to_string(number);
  const auto refuse = [&](const Json& what) {
    throw Error{ErrorKind::kData, where, json_text(what) + " is not a token id",
                "write arrays of whole numbers from 0"};
  };
  std::vector<std::int32_t> ids;
  if (!row.is_array()) refuse(row);
  for (const Json& id : row) {
    if (!id.is_integer() || id.integer() < 0 || id.integer() > std::numeric_limits<std::int32_t>::max()) refuse(id);
    ids.push_back(static_cast<std::int32_t>(id.integer()));
  }
  return ids;
}

void decode_streams(const std::string& model, std::istream& input, std::ostream& output) {
  const std::unique_ptr<const TokenDecoder> decoder = load_token_decoder(model);
  const Json rows = read_array(input, "arrays of token ids");
  output << '[';
  for (std::size_t i = 0; i < rows.size(); ++i)
    output << (i == 0 ? "" : ",\n ") << json_text(Json(decoder->decode(ids_of(rows[i], i))));
  output << "]\n";
}

}  // namespace

void tokenize_streams(const TokenizeArguments& arguments, std::istream& input, std::ostream& output) {
  if (arguments.decodes) return decode_streams(arguments.model, input, output);
  const TokenPadding padding = padding_of(arguments);
  const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(arguments.model);
  check_length(arguments.max_length, tokenizer->special_tokens(false));
  const Json texts = read_array(input, "strings");
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
