// SPDX-License-Identifier: Apache-2.0
#include "src/predict/classify_texts.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "src/base/as_written.h"
#include "src/base/check.h"
#include "src/base/error.h"
#include "src/base/utf8.h"
#include "src/machine/process_limits.h"
#include "src/predict/answer_document.h"
#include "src/predict/finished_model.h"
#include "src/predict/line_reader.h"
#include "src/predict/logits.h"
#include "src/predict/text_entities.h"
#include "src/records/readable.h"
#include "src/runtime/choose_isa.h"
#include "src/session/packed_batch.h"
#include "src/text/tokenizer_kinds.h"

namespace bascule {
namespace {

constexpr std::size_t kMostBytesOfALine = std::size_t{1} << 24;
constexpr std::size_t kLines = 8;  // worked on together

struct AskedText {
  std::string first;
  std::optional<std::string> second;  // of a pair
};

struct EncodedText {
  std::vector<std::int32_t> ids;
  std::size_t second_begin = 0;     // of the ids; of one text: all of them
  std::vector<PlacedToken> placed;  // where tokens have tags: those that are not special
};

// A model, planned for a batch of so many texts of so many tokens.
class TextClassifier {
 public:
  TextClassifier(const std::string& folder, const Model& model, std::int32_t second_type, std::int64_t batch,
                 std::int64_t longest)
      : folder_(folder),
        model_(model),
        inputs_(model.inputs()),
        second_type_(second_type),
        fields_(model.fields({})),
        threads_(threads_within(read_process_limits(), usable_cores(), 1), false) {
    BatchCounts bounds;
    bounds[kSamples] = batch;
    for (const FieldSource source : {FieldSource::kTokenIds, FieldSource::kLabelledRows}) {
      const int field = field_from(fields_, source);
      if (field < 0) continue;
      const int stream = fields_[static_cast<std::size_t>(field)].rows.stream;
      bounds[stream] = batch * longest;
      bounds.longest[stream] = longest;
    }
    logits_ = reference_logits(model.record(session_.add_graph(bounds, fields_), Use::kReference, {}));
    seal_with_weights(&session_, model, folder, choose_isa("auto"), threads_);
  }

  // (texts, outputs), or where tokens have tags (tokens of all texts, outputs)
  const float* run(const std::vector<EncodedText>& texts) {
    PaddedBatch padded;
    padded.samples = static_cast<std::int64_t>(texts.size());
    padded.labels.assign(texts.size(), 0);  // for the loss, which nobody reads
    padded.label_values.assign(texts.size(), 0.0f);
    PaddedText& text = padded.texts[0];
    std::int64_t rows = inputs_.reads_words ? 0 : padded.samples;
    for (const EncodedText& one : texts) {
      if (inputs_.reads_words) rows += static_cast<std::int64_t>(one.ids.size());
    }
    for (const EncodedText& one : texts) text.length = std::max(text.length, static_cast<std::int64_t>(one.ids.size()));
    for (const EncodedText& one : texts) {
      for (std::size_t t = 0; t < static_cast<std::size_t>(text.length); ++t) {
        const bool is_there = t < one.ids.size();
        text.input_ids.push_back(is_there ? one.ids[t] : 0);
        text.attention_mask.push_back(is_there ? 1 : 0);
        text.token_types.push_back(is_there && t >= one.second_begin ? second_type_ : 0);
        if (inputs_.reads_words) text.token_labels.push_back(is_there ? 0 : -100);
      }
    }
    const PackedBatch packed(padded, inputs_, false, "the text");
    Replay replay;
    replay.batch = packed.batch(fields_);
    session_.tape(0).replay(threads_, replay);
    const float* const logits = session_.tape(0).at(logits_);
    refuse_not_finite_logits(logits, rows * inputs_.classes, folder_);
    return logits;
  }

 private:
  const std::string folder_;
  const Model& model_;
  const ModelInputs inputs_;
  const std::int32_t second_type_;
  const Fields fields_;
  Session session_;
  Threads threads_;
  Tensor logits_;
};

class Command {
 public:
  Command(const ClassifyArguments& arguments, const Model& model)
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
  }

  void answer_arguments() {
    AskedText asked{arguments_.inputs[0], {}};
    if (arguments_.inputs.size() > 1) asked.second = arguments_.inputs[1];
    const EncodedText encoded = encode(asked, "the text");
    plan(1, static_cast<std::int64_t>(encoded.ids.size()));
    answer({asked}, {encoded});
  }

  void answer_lines() {
    plan(kLines, longest_);
    LineReader lines(STDIN_FILENO);
    std::size_t read = 0;
    for (;;) {
      std::vector<AskedText> asked;
      std::vector<EncodedText> encoded;
      std::optional<Error> refused;  // after the answers to the lines before it
      const std::vector<std::string> texts = lines.read(kLines, kMostBytesOfALine);
      if (texts.empty()) return;
      for (const std::string& text : texts) {
        const std::size_t tab = has_tags_ ? std::string::npos : text.find('\t');
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
  void plan(std::int64_t batch, std::int64_t longest) {
    classifier_ =
        std::make_unique<TextClassifier>(arguments_.folder, model_, tokenizer_->second_type(), batch, longest);
  }

  // Says when it is cut.
  EncodedText encode(const AskedText& asked, const std::string& where) const {
    Texts texts{asked.first};
    if (asked.second) texts.second = *asked.second;
    std::size_t bytes = 0;
    for (const bool is_second : {false, true}) {
      const std::string_view text = is_second ? texts.second.value_or("") : texts.first;
      const char* const which = !texts.second ? "" : is_second ? " of the second text" : " of the first text";
      if (const std::size_t byte = first_invalid_utf8(text); byte < text.size())
        throw Error(ErrorKind::kData, where, "byte " + std::to_string(byte) + which + " is not UTF-8",
                    "write it in UTF-8");
      bytes = std::max(bytes, text.size());
    }
    if (has_tags_) return encode_places(asked.first, where);
    EncodedText encoded;
    encoded.ids.resize(static_cast<std::size_t>(longest_));
    std::vector<std::byte> scratch(tokenizer_->scratch_bytes(bytes));
    Encoded counts;
    BASCULE_CHECK(tokenizer_->encode_into(texts, encoded.ids, &counts, scratch).ok());  // UTF-8, and room for it
    // Only a sequence that is full may have been cut.
    const std::size_t all =
        counts.tokens < longest_ ? static_cast<std::size_t>(counts.tokens) : tokenizer_->encode(texts).size();
    encoded.ids.resize(static_cast<std::size_t>(counts.tokens));
    encoded.second_begin = static_cast<std::size_t>(counts.second_begin);
    if (all > encoded.ids.size()) say_cut(where, all, encoded.ids.size());
    return encoded;
  }

  EncodedText encode_places(const std::string& text, const std::string& where) const {
    EncodedText encoded;
    encoded.placed = tokenizer_->place_tokens(text);
    const std::size_t special = static_cast<std::size_t>(tokenizer_->special_tokens(false));
    const std::size_t room = static_cast<std::size_t>(longest_) - special;
    if (encoded.placed.size() > room) {
      say_cut(where, encoded.placed.size() + special, static_cast<std::size_t>(longest_));
      encoded.placed.resize(room);
    }
    encoded.ids.assign(tokenizer_->before().begin(), tokenizer_->before().end());
    for (const PlacedToken& token : encoded.placed) encoded.ids.push_back(token.id);
    encoded.ids.insert(encoded.ids.end(), tokenizer_->after().begin(), tokenizer_->after().end());
    encoded.second_begin = encoded.ids.size();
    return encoded;
  }

  static void say_cut(const std::string& where, std::size_t all, std::size_t kept) {
    std::fprintf(stderr, "bascule: %s has %zu tokens and is cut to %zu\n", where.c_str(), all, kept);
  }

  void answer_entities(const std::vector<AskedText>& asked, const std::vector<EncodedText>& encoded) {
    const float* logits = classifier_->run(encoded);
    const std::size_t before = tokenizer_->before().size();
    for (std::size_t i = 0; i < asked.size(); ++i) {
      say(asked[i], text_entities(asked[i].first, encoded[i].placed, logits + before * names_.size(), names_,
                                  {*tokenizer_, tokens_}));
      logits += encoded[i].ids.size() * names_.size();
    }
  }

  void answer(const std::vector<AskedText>& asked, const std::vector<EncodedText>& encoded) {
    if (has_tags_) {
      answer_entities(asked, encoded);
      return;
    }
    const float* logits = classifier_->run(encoded);
    for (const AskedText& one : asked) {
      if (has_values_) {
        say(one, as_written(*logits));
      } else {
        say(one, class_guesses(logits, names_, arguments_.top));
      }
      logits += has_values_ ? 1 : static_cast<std::int64_t>(names_.size());
    }
  }

  void say(const AskedText& asked, double value) {
    if (arguments_.json) {
      add(asked, "value", value);
    } else {
      std::printf("%s\n  %s\n", shown(asked).c_str(), readable_number(value).c_str());
    }
  }
  void say(const AskedText& asked, const std::vector<ClassGuess>& guesses) {
    if (arguments_.json) {
      add(asked, "labels", guesses_json(guesses));
      return;
    }
    std::string text = shown(asked) + "\n";
    for (const ClassGuess& guess : guesses) text += shown_guess(guess.probability, guess.label);
    std::fwrite(text.data(), 1, text.size(), stdout);
  }

  void say(const AskedText& asked, const std::vector<TextEntity>& entities) {
    if (arguments_.json) {
      add(asked, "entities", entities_json(entities));
      return;
    }
    std::string text = shown(asked) + "\n";
    for (const TextEntity& one : entities) {
      text += shown_guess(one.score, one.type + "  " + one.text + "  [" + std::to_string(one.start) + ", " +
                                         std::to_string(one.end) + ")");
    }
    std::fwrite(text.data(), 1, text.size(), stdout);
  }

  void add(const AskedText& asked, const char* key, Json answer) {
    Json entry = {{"text", asked.first}, {key, std::move(answer)}};
    if (asked.second) entry["text_pair"] = *asked.second;
    document_.add(std::move(entry));
  }

  // On one line.
  static std::string shown(const AskedText& asked) {
    std::string text = asked.first + (asked.second ? " | " + *asked.second : "");
    std::replace_if(
        text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
    return text;
  }

  const ClassifyArguments& arguments_;
  const Model& model_;
  const bool has_values_, has_tags_;
  const std::vector<std::string> names_;
  const std::unique_ptr<const Tokenizer> tokenizer_;
  const std::vector<std::string> tokens_;  // by id, where they have tags
  std::int64_t longest_ = 0;               // tokens of a sequence
  std::unique_ptr<TextClassifier> classifier_;
  AnswerDocument document_;
};

}  // namespace

int classify_texts_command(const ClassifyArguments& arguments, const Model& model) {
  if (arguments.inputs.size() > 2) {
    throw Error(ErrorKind::kSettings, "command line", "more than two texts",
                "name a text, or a text and the second one of its pair; - reads one a line of standard input");
  }
  if (model.inputs().reads_words && arguments.inputs.size() > 1) {
    throw Error(ErrorKind::kSettings, "command line", "the model finds entities in one text, and there are two",
                "name a text; - reads one a line of standard input");
  }
  Command command(arguments, model);
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
