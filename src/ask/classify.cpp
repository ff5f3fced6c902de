// SPDX-License-Identifier: Apache-2.0
#include "src/ask/ask.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>
#include <system_error>
#include <utility>

#include "src/ask/asked_text.h"
#include "src/ask/finished_model.h"
#include "src/ask/text_classifier.h"
#include "src/base/error.h"
#include "src/base/messages.h"
#include "src/base/utf8.h"
#include "src/json/json.h"
#include "src/logs/readable.h"
#include "src/machine/process_limits.h"
#include "src/pictures/picture_decoder.h"
#include "src/runtime/choose_isa.h"
#include "src/text/tokenizer_kinds.h"

namespace bascule {

std::vector<std::string> class_names(const std::string& folder, std::int64_t classes) {
  const std::string path = folder + "/config.json";
  const Json json = read_json_file(path);
  const Json* const names = find_member(json, "id2label", path);
  std::vector<std::string> texts;
  for (std::int64_t id = 0; id < classes; ++id) {
    const std::string number = std::to_string(id);
    texts.push_back(names == nullptr ? number : get_string(*names, number.c_str(), path, number));
  }
  return texts;
}

std::vector<ClassGuess> class_guesses(const float* logits, const std::vector<std::string>& names, std::size_t top) {
  std::vector<ClassGuess> best;
  for (const TokenOrClass& one : most_probable(logits, static_cast<std::int64_t>(names.size()), top))
    best.push_back({names[static_cast<std::size_t>(one.id)], one.probability});
  return best;
}

Json guesses_json(const std::vector<ClassGuess>& guesses) {
  Json labels = Json::array();
  for (const ClassGuess& guess : guesses)
    labels.push_back({{"label", guess.label}, {"probability", guess.probability}});
  return labels;
}

namespace {

class Classifier {
 public:
  Classifier(const std::string& folder, const Model& model, std::size_t pictures, Isa isa, int threads)
      : folder_(folder),
        needs_(model.inputs()),
        fields_(model.fields({})),
        batch_(static_cast<std::int64_t>(std::min(pictures, kMostPicturesAtOnce))),
        decoder_(media_settings_of_model(folder, needs_.image_side)),
        threads_(threads, false) {
    if (needs_.image_channels != 3)
      throw Error(ErrorKind::kData, folder + "/config.json", "num_channels is not 3: pictures are RGB");
    BatchCounts bounds;
    bounds[kSamples] = batch_;
    logits_ = reference_logits(model.record(session_.add_graph(bounds, fields_), Use::kReference, {}));
    seal_with_weights(&session_, model, folder, isa, threads_);
    pixels_.resize(static_cast<std::size_t>(batch_ * picture_floats()));
    labels_.resize(static_cast<std::size_t>(batch_));  // a loss is computed beside the logits: of any label
  }

  std::int64_t batch() const { return batch_; }
  // Decodes into place `row` of the batch. Returns why the picture is refused, or an empty text.
  std::string decode(const std::string& path, std::int64_t row) {
    const std::string refused = decoder_.decode(path, pixels_.data() + row * picture_floats(), nullptr);
    std::error_code failure;
    const bool is_text = !refused.empty() && !std::filesystem::exists(path, failure);
    return is_text ? refused + ": the model reads pictures, and takes each argument as the path of one" : refused;
  }
  // Returns the logits of the first `count` pictures: (count, classes).
  const float* run(std::int64_t count) {
    Replay replay;
    replay.batch.counts[kSamples] = count;
    replay.batch.fields[field_from(fields_, FieldSource::kPixels)] = pixels_.data();
    replay.batch.fields[field_from(fields_, FieldSource::kClassLabels)] = labels_.data();
    session_.tape(0).replay(threads_, replay);
    const float* const logits = session_.tape(0).at(logits_);
    refuse_not_finite_logits(logits, count * needs_.classes, folder_);
    return logits;
  }

 private:
  std::int64_t picture_floats() const { return 3 * needs_.image_side * needs_.image_side; }

  std::string folder_;
  ModelInputs needs_;
  Fields fields_;
  std::int64_t batch_;
  PictureDecoder decoder_;
  Session session_;
  Tensor logits_;
  Threads threads_;
  std::vector<float> pixels_;         // (batch_, 3, side, side)
  std::vector<std::int32_t> labels_;  // (batch_)
};

}  // namespace

std::vector<ClassifiedPicture> classify(const ClassifyArguments& arguments, const Model& model, Isa isa, int threads) {
  const std::vector<std::string> names = class_names(arguments.folder, model.inputs().classes);
  Classifier classifier(arguments.folder, model, arguments.inputs.size(), isa, threads);
  std::vector<ClassifiedPicture> pictures;
  std::vector<std::size_t> waiting;
  const auto run = [&] {
    if (waiting.empty()) return;
    const float* const logits = classifier.run(static_cast<std::int64_t>(waiting.size()));
    for (std::size_t row = 0; row < waiting.size(); ++row)
      pictures[waiting[row]].best = class_guesses(logits + row * names.size(), names, arguments.top);
    waiting.clear();
  };
  for (const std::string& path : arguments.inputs) {
    pictures.push_back({path, {}, classifier.decode(path, static_cast<std::int64_t>(waiting.size()))});
    if (!pictures.back().refused.empty()) continue;
    waiting.push_back(pictures.size() - 1);
    if (static_cast<std::int64_t>(waiting.size()) == classifier.batch()) run();
  }
  run();
  return pictures;
}

std::string classify_json(const std::vector<ClassifiedPicture>& pictures) {
  Json all = Json::array();
  for (const ClassifiedPicture& picture : pictures) {
    if (!picture.refused.empty()) {
      all.push_back({{"path", picture.path}, {"error", picture.refused}});
      continue;
    }
    all.push_back({{"path", picture.path}, {"labels", guesses_json(picture.best)}});
  }
  return json_text(all);
}

std::string classify_text(const std::vector<ClassifiedPicture>& pictures) {
  std::string text;
  for (const ClassifiedPicture& picture : pictures) {
    if (!picture.refused.empty()) continue;
    text += picture.path + "\n";
    for (const ClassGuess& guess : picture.best) text += shown_guess(guess.probability, guess.label);
  }
  return text;
}

int classify_command(const ClassifyArguments& arguments) {
  const std::unique_ptr<Model> model = open_finished_model(arguments.folder, "classify");
  if (model->inputs().image_side == 0) return classify_texts_command(arguments, *model);
  const std::vector<ClassifiedPicture> pictures =
      classify(arguments, *model, choose_isa("auto"), threads_within(read_process_limits(), usable_cores(), 1));
  bool all = true;
  for (const ClassifiedPicture& picture : pictures) {
    if (picture.refused.empty()) continue;
    all = false;
    std::fprintf(stderr, "bascule: classify: %s: %s\n", picture.path.c_str(), picture.refused.c_str());
  }
  const std::string text = arguments.json ? classify_json(pictures) + "\n" : classify_text(pictures);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return all ? 0 : static_cast<int>(ErrorKind::kData);
}

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
      lines += shown_guess(one.score, std::string(one.type) + "  " + std::string(one.text) + "  [" +
                                          std::to_string(one.start) + ", " + std::to_string(one.end) + ")");
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
