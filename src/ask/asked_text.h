// SPDX-License-Identifier: Apache-2.0
// Texts that a model is asked about: as its tokens, as lines of standard input, and their answers as a document.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/json/value.h"
#include "src/text/tokenizer.h"

namespace bascule {

// A text that a model is asked about, and its tokens as the model reads them. Before the seal.

struct AskedText {
  std::string first;
  std::optional<std::string> second;  // of a pair
};

// Says of a text that names a file that the file is not read.
void say_if_file(const std::string& text);

struct EncodedText {
  std::vector<std::int32_t> ids;
  std::size_t second_begin = 0;     // of the ids; of one text: all of them
  std::vector<PlacedToken> placed;  // where tokens have tags: those that are not special
};

// Both: at most `longest` tokens; says on stderr when it cuts the text. where: the text in messages. Throws Error kData
// where it is not UTF-8.
EncodedText encode_text(const Tokenizer& tokenizer, const AskedText& asked, std::int64_t longest,
                        const std::string& where);
// With the places of its tokens; of one text alone.
EncodedText encode_places(const Tokenizer& tokenizer, const AskedText& asked, std::int64_t longest,
                          const std::string& where);

// The JSON document of a command that answers texts one after the other, and the command's end: answers that were made
// before an error are printed with it.

class AnswerDocument {
 public:
  void add(Json answer);
  bool is_empty() const { return answers_.size() == 0; }
  // Prints {"texts": [...]}, with a member "error" where `error` is not null.
  void print(const Error* error) const;

 private:
  Json answers_ = Json::array();
};

// Calls `answer`, which fills the document, and prints the document where `is_json`. Returns the exit code: 0, or that
// of an Error behind the first answer, which is printed on standard error too. Throws an Error that no answer precedes.
int end_with_document(const std::function<void()>& answer, const AnswerDocument& document, bool is_json);

// Lines of a descriptor as they come, so that those that are there can be worked on while others are still being
// written.

// The most bytes of a line of the commands.
inline constexpr std::size_t kMostBytesOfALine = std::size_t{1} << 24;

class InputLines {
 public:
  explicit InputLines(int descriptor) : descriptor_(descriptor) {}

  // Up to `most` lines without their breaks ("\n" or "\r\n"): waits for the first, and takes of the others what is
  // there. None at the end. Throws Error kData for a line above max_bytes, and where the descriptor cannot be read.
  std::vector<std::string> read(std::size_t most, std::size_t max_bytes);

 private:
  // The next line; none if it has not come whole, or at the end.
  std::optional<std::string> take_line(std::size_t max_bytes);
  // Whether something was read. waits: until something can be.
  bool fill(bool waits);

  const int descriptor_;
  std::string pending_;
  std::size_t begin_ = 0;  // of what was not taken yet
  bool is_at_end_ = false;
};

}  // namespace bascule
