// SPDX-License-Identifier: Apache-2.0
// `bascule tokenize`: a JSON array of strings on standard input, a JSON array of arrays of ids on standard output. An
// array of two strings in the place of a string is a pair of texts. With --decode the way back: an array of arrays of
// ids on standard input, an array of strings on standard output.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>

namespace bascule {

// Rows that are shorter are filled with <pad> on the right.
enum class TokenPadding {
  kNone,
  kLongest,    // to the longest row
  kMaxLength,  // to max_length
};

struct TokenizeArguments {
  std::string model;            // a Hugging Face folder
  std::int64_t max_length = 0;  // cut to this many ids, special ones among them; 0: do not cut
  // --padding: not given, given alone (empty: to max_length where that is given, else to the longest row), or given
  // with a value, "longest" or "max_length".
  std::optional<std::string> padding;
  bool decodes = false;  // from ids to texts; neither max_length nor padding is given
};

// Throws Error (kSettings for the arguments, kData for the model and the input). Returns the exit code, 0.
int tokenize_command(const TokenizeArguments& arguments);

// The same between streams of the caller.
void tokenize_streams(const TokenizeArguments& arguments, std::istream& input, std::ostream& output);

}  // namespace bascule
