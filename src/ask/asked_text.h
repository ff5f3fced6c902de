// SPDX-License-Identifier: Apache-2.0
// Texts that a model is asked about: as its tokens, as lines of standard input, and the commands that answer them.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/error.h"
#include "src/base/span.h"
#include "src/json/value.h"
#include "src/text/tokenizer.h"

namespace bascule {

// A text that a model is asked about, and its tokens as the model reads them. Before the seal.

struct AskedText {
  std::string first;
  std::optional<std::string> second;  // of a pair
};

// Whether these texts of a command line are "-" alone, which asks for the lines of standard input. Else it says of each
// text that names a file that the file is not read.
bool are_lines_of_input(const std::vector<std::string>& texts);

// Throws Error kData at `where` for a text that is not UTF-8. which: of a pair: " of the first text".
void check_utf8(std::string_view text, const std::string& where, const char* which = "");

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

inline constexpr char kLineOfInput[] = "standard input: line ";
// All that standard input has, at least one. Throws Error kData.
std::vector<std::string> all_lines();

// Calls `answer`, which adds to the answers, and prints {"texts": [...]} where `is_json`, with a member "error" after
// an Error. Returns and throws as TextCommand::run().
int end_with_document(const std::function<void()>& answer, const Json& answers, bool is_json);

// A command that answers texts one after the other: those of its command line, or the lines of standard input as they
// come. Asked: what a text becomes, with its `ids`.

template <typename Asked>
class TextCommand {
 public:
  // Up to `most` texts are answered together. longest: ids of a line. is_json: answers go into one document.
  TextCommand(std::size_t most, std::int64_t longest, bool is_json)
      : most_(most), longest_(longest), is_json_(is_json) {}
  virtual ~TextCommand() = default;

  // are_lines: not the texts, but the lines of standard input. Returns the exit code: 0, or that of an Error behind the
  // first answer, which is printed on standard error and in the document. Throws an Error that no answer precedes.
  int run(const std::vector<std::string>& texts, bool are_lines) {
    return end_with_document([&] { answer_all(texts, are_lines); }, answers_, is_json_);
  }

 protected:
  // where: the text in messages. Throws Error kData.
  virtual Asked encode(const std::string& text, const std::string& where) const = 0;
  // Once, before the first answer: for so many texts, of so many ids together and each at most.
  virtual void plan(std::size_t texts, std::int64_t ids, std::int64_t longest) = 0;
  virtual void answer(Span<const std::string> texts, Span<const Asked> asked) = 0;
  // Behind the last answer.
  virtual void finish() {}
  // All lines are read before the first answer.
  virtual bool reads_ahead() const { return false; }

  std::size_t most() const { return most_; }
  std::int64_t longest() const { return longest_; }
  bool is_json() const { return is_json_; }
  void add(Json answer) { answers_.push_back(std::move(answer)); }

 private:
  void answer_all(const std::vector<std::string>& texts, bool are_lines) {
    if (!are_lines) {
      answer_known(texts, "text ");
    } else if (reads_ahead()) {
      answer_known(all_lines(), kLineOfInput);
    } else {
      answer_lines();
    }
    finish();
  }

  void answer_known(const std::vector<std::string>& texts, const std::string& where) {
    std::vector<Asked> asked;
    std::int64_t ids = 0, longest = 1;
    for (const std::string& text : texts) {
      asked.push_back(encode(text, where + std::to_string(asked.size() + 1)));
      ids += static_cast<std::int64_t>(asked.back().ids.size());
      longest = std::max(longest, static_cast<std::int64_t>(asked.back().ids.size()));
    }
    plan(texts.size(), ids, longest);
    for (std::size_t first = 0; first < texts.size(); first += most_) {
      const std::size_t count = std::min(most_, texts.size() - first);
      answer({texts.data() + first, count}, {asked.data() + first, count});
    }
  }

  void answer_lines() {
    plan(most_, static_cast<std::int64_t>(most_) * longest_, longest_);
    InputLines lines(STDIN_FILENO);
    for (std::size_t read = 0;;) {
      const std::vector<std::string> texts = lines.read(most_, kMostBytesOfALine);
      if (texts.empty()) return;
      std::vector<Asked> asked;
      std::optional<Error> refused;  // after the answers to the lines before it
      for (std::size_t i = 0; i < texts.size() && !refused; ++i) {
        try {
          asked.push_back(encode(texts[i], kLineOfInput + std::to_string(++read)));
        } catch (const Error& error) {
          refused = error;
        }
      }
      if (!asked.empty()) answer({texts.data(), asked.size()}, asked);
      if (std::fflush(stdout) != 0) return;  // nobody reads on, or the disk is full, which main() says
      if (refused) throw Error(*refused);
    }
  }

  const std::size_t most_;
  const std::int64_t longest_;
  const bool is_json_;
  Json answers_ = Json::array();
};

}  // namespace bascule
