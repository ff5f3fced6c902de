// SPDX-License-Identifier: Apache-2.0
#include "src/ask/classify_texts.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "src/ask/answer_document.h"
#include "src/ask/asked_text.h"
#include "src/ask/finished_model.h"
#include "src/ask/input_lines.h"
#include "src/ask/logits.h"
#include "src/ask/text_classifier.h"
#include "src/ask/text_entities.h"
#include "src/base/as_written.h"
#include "src/base/error.h"
#include "src/base/utf8.h"
#include "src/logs/readable.h"
#include "src/text/tokenizer_kinds.h"

namespace bascule {
namespace {

constexpr std::size_t kLines = 8;  // worked on together
constexpr std::size_t kMostShownBytes = 240;

class ClassifyCommand {
 public:
  ClassifyCommand(const ClassifyArguments& arguments, const Model& model)
      : arguments_(arguments),
        model_(model),
        has_values_(model.inputs().has_values),
        has_tags_(model.inputs().reads_words),
        names_(class_names(arguments.folder, model.inputs().classes)),
        tokenizer_(load_tokenizer(arguments.folder)),
        tokens_(has_tags_ ? load_token_texts(arguments.folder) : std::vector<std::string>()) {
    const TextShape shape = model.inputs().texts[0];
    const RunInputs run = read_run_inputs(arguments.folder);
    const std::int64_t most = shape.max_positions - shape.positions.first;
    longest_ = run.are_of_run ? std::min(run.max_seq_length, most) : most;
    reads_pairs_ = run.reads_pairs && !has_tags_;
  }

  void answer_arguments() {
    const std::vector<AskedText> asked = asked_arguments();
    std::vector<EncodedText> encoded;
    std::size_t longest = 0;
    for (const AskedText& one : asked) {
      encoded.push_back(encode(one, asked.size() == 1 ? "the text" : "text " + std::to_string(encoded.size() + 1)));
      longest = std::max(longest, encoded.back().ids.size());
    }
    plan(std::min(asked.size(), kLines), static_cast<std::int64_t>(longest));
    for (std::size_t first = 0; first < asked.size(); first += kLines) {
      const auto from = static_cast<std::ptrdiff_t>(first);
      const auto to = static_cast<std::ptrdiff_t>(std::min(asked.size(), first + kLines));
      answer({asked.begin() + from, asked.begin() + to}, {encoded.begin() + from, encoded.begin() + to});
    }
  }

  void answer_lines() {
    plan(kLines, longest_);
    InputLines lines(STDIN_FILENO);
    std::size_t read = 0;
    for (;;) {
      std::vector<AskedText> asked;
      std::vector<EncodedText> encoded;
      std::optional<Error> refused;  // after the answers to the lines before it
      const std::vector<std::string> texts = lines.read(kLines, kMostBytesOfALine);
      if (texts.empty()) return;
      for (const std::string& text : texts) {
        const std::size_t tab = reads_pairs_ ? text.find('\t') : std::string::npos;
        AskedText one{text.substr(0, tab), {}};
        if (tab != std::string::npos) one.second = text.substr(tab + 1);
        try {
          encoded.push_back(encode(one, "standard input: line " + std::to_string(++read)));
        } catch (const Error& error) {
          refused = error;
          break;
        }
        asked.push_back(std::move(one));
      }
      if (!asked.empty()) answer(asked, encoded);
      if (std::fflush(stdout) != 0) return;  // nobody reads on, or the disk is full, which main() says
      if (refused) throw Error(*refused);
    }
  }

  const AnswerDocument& document() const { return document_; }

 private:
  // Each a text; or two that are a pair.
  std::vector<AskedText> asked_arguments() const {
    const std::vector<std::string>& inputs = arguments_.inputs;
    for (const std::string& text : inputs) say_if_file(text);
    if (reads_pairs_ && inputs.size() == 2) return {{inputs[0], inputs[1]}};
    if (reads_pairs_ && inputs.size() > 2) {
      throw Error(ErrorKind::kSettings, "command line", "the model reads pairs, and there are more than two texts",
                  "name a text, or a text and the second one of its pair; - reads one a line of standard input");
    }
    std::vector<AskedText> asked;
    for (const std::string& text : inputs) asked.push_back({text, {}});
    return asked;
  }

  EncodedText encode(const AskedText& asked, const std::string& where) const {
    return (has_tags_ ? encode_places : encode_text)(*tokenizer_, asked, longest_, where);
  }

  void plan(std::size_t batch, std::int64_t longest) {
    classifier_ = std::make_unique<TextClassifier>(arguments_.folder, model_, tokenizer_->second_type(),
                                                   static_cast<std::int64_t>(batch), longest);
  }

  void answer(const std::vector<AskedText>& asked, const std::vector<EncodedText>& encoded) {
    const float* logits = classifier_->run(encoded);
    const std::size_t outputs = has_values_ ? 1 : names_.size();
    for (std::size_t i = 0; i < asked.size(); ++i) {
      if (has_tags_) {
        say(asked[i], text_entities(asked[i].first, encoded[i].placed, logits + tokenizer_->before().size() * outputs,
                                    names_, {*tokenizer_, tokens_}));
      } else if (has_values_) {
        say(asked[i], as_written(*logits));
      } else {
        say(asked[i], class_guesses(logits, names_, arguments_.top));
      }
      logits += (has_tags_ ? encoded[i].ids.size() : 1) * outputs;
    }
  }

  void say(const AskedText& asked, double value) {
    say(asked, "value", value, std::string("  ") + readable_number(value).c_str() + "\n");
  }
  void say(const AskedText& asked, const std::vector<ClassGuess>& guesses) {
    std::string lines;
    for (const ClassGuess& guess : guesses) lines += shown_guess(guess.probability, guess.label);
    say(asked, "labels", guesses_json(guesses), lines);
  }
  void say(const AskedText& asked, const std::vector<TextEntity>& entities) {
    std::string lines;
    for (const TextEntity& one : entities) {
      lines += shown_guess(one.score, one.type + "  " + one.text + "  [" + std::to_string(one.start) + ", " +
                                          std::to_string(one.end) + ")");
    }
    say(asked, "entities", entities_json(entities), lines);
  }

  // The answer under its key of the document, or as lines below the text.
  void say(const AskedText& asked, const char* key, Json answer, const std::string& lines) {
    if (arguments_.json) {
      Json entry = {{"text", asked.first}, {key, std::move(answer)}};
      if (asked.second) entry["text_pair"] = *asked.second;
      document_.add(std::move(entry));
      return;
    }
    const std::string text = shown(asked) + "\n" + lines;
    std::fwrite(text.data(), 1, text.size(), stdout);
  }

  // On one line, as much of each text as a screen has room for.
  static std::string shown(const AskedText& asked) {
    const auto begin = [](const std::string& text) {
      const std::size_t end = utf8_cut(text, kMostShownBytes);
      return text.substr(0, end) + (end < text.size() ? "..." : "");
    };
    return printable_line(begin(asked.first) + (asked.second ? " | " + begin(*asked.second) : ""));
  }

  const ClassifyArguments& arguments_;
  const Model& model_;
  const bool has_values_, has_tags_;
  bool reads_pairs_ = false;
  const std::vector<std::string> names_;
  const std::unique_ptr<const Tokenizer> tokenizer_;
  const std::vector<std::string> tokens_;  // by id, where they have tags
  std::int64_t longest_ = 0;               // tokens of a sequence
  std::unique_ptr<TextClassifier> classifier_;
  AnswerDocument document_;
};

}  // namespace

int classify_texts_command(const ClassifyArguments& arguments, const Model& model) {
  ClassifyCommand command(arguments, model);
  return end_with_document(
      [&] {
        if (arguments.inputs == std::vector<std::string>{"-"}) {
          command.answer_lines();
        } else {
          command.answer_arguments();
        }
      },
      command.document(), arguments.json);
}

}  // namespace bascule
