// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "src/ask/ask.h"
#include "src/ask/asked_text.h"
#include "src/ask/finished_model.h"
#include "src/ask/text_entities.h"
#include "src/base/error.h"
#include "src/base/paths.h"
#include "src/base/utf8.h"
#include "src/json/json.h"
#include "src/pictures/picture_decoder.h"
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

namespace {

// An answer, for a document and as lines for people.
struct Answer {
  Json json = Json::array();
  std::string lines = {};
};

// The `top` most probable classes, best first, equal ones by class number: [{"label", "probability"}].
Answer guesses_of(const float* logits, const std::vector<std::string>& names, std::size_t top) {
  Answer answer;
  for (const TokenOrClass& one : most_probable(logits, static_cast<std::int64_t>(names.size()), top)) {
    const std::string& label = names[static_cast<std::size_t>(one.id)];
    answer.json.push_back({{"label", label}, {"probability", one.probability}});
    answer.lines += shown_guess(one.probability, label);
  }
  return answer;
}

class PictureClassifier {
 public:
  PictureClassifier(const ClassifyArguments& arguments, const Model& model)
      : arguments_(arguments),
        names_(class_names(arguments.folder, model.inputs().classes)),
        asked_(model, arguments.folder),
        batch_(static_cast<std::int64_t>(std::min(arguments.inputs.size(), kMostPicturesAtOnce))),
        decoder_(media_settings_of_model(arguments.folder, model.inputs().image_side)),
        picture_floats_(3 * model.inputs().image_side * model.inputs().image_side) {
    if (model.inputs().image_channels != 3)
      throw Error(ErrorKind::kData, arguments.folder + "/config.json", "num_channels is not 3: pictures are RGB");
    logits_ = asked_.record_logits(AskedModel::bounds_of({}, batch_, 0, 0));
    asked_.load();
    pixels_.resize(static_cast<std::size_t>(batch_ * picture_floats_));
    labels_.resize(static_cast<std::size_t>(batch_));  // a loss is computed beside the logits: of any label
  }

  // Returns the exit code.
  int run() {
    for (const std::string& path : arguments_.inputs) {
      pictures_.push_back({path, decode(path), {}});
      if (!pictures_.back().refused.empty()) continue;
      waiting_.push_back(pictures_.size() - 1);
      if (static_cast<std::int64_t>(waiting_.size()) == batch_) classify();
    }
    if (!waiting_.empty()) classify();
    return print();
  }

 private:
  struct Picture {
    std::string path, refused;
    Answer answer;
  };

  // Into the batch. Returns why the picture is refused, or an empty text.
  std::string decode(const std::string& path) {
    float* const pixels = pixels_.data() + static_cast<std::int64_t>(waiting_.size()) * picture_floats_;
    std::string refused = decoder_.decode(path, pixels, nullptr);
    if (refused.empty() || is_there(path)) return refused;
    return refused + ": the model reads pictures, and takes each argument as the path of one";
  }

  void classify() {
    Batch batch;
    batch.counts[kSamples] = static_cast<std::int64_t>(waiting_.size());
    batch.fields[field_from(asked_.fields(), FieldSource::kPixels)] = pixels_.data();
    batch.fields[field_from(asked_.fields(), FieldSource::kClassLabels)] = labels_.data();
    const float* logits = asked_.run(batch, logits_);
    asked_.check_finite(logits, static_cast<std::int64_t>(waiting_.size() * names_.size()));
    for (const std::size_t picture : waiting_) {
      pictures_[picture].answer = guesses_of(logits, names_, arguments_.top);
      logits += names_.size();
    }
    waiting_.clear();
  }

  // A JSON array of {"path", "labels"} or {"path", "error"}; or lines.
  int print() const {
    bool all = true;
    Json json = Json::array();
    std::string text;
    for (const Picture& picture : pictures_) {
      if (picture.refused.empty()) {
        json.push_back({{"path", picture.path}, {"labels", picture.answer.json}});
        text += picture.path + "\n" + picture.answer.lines;
        continue;
      }
      all = false;
      json.push_back({{"path", picture.path}, {"error", picture.refused}});
      std::fprintf(stderr, "bascule: classify: %s: %s\n", picture.path.c_str(), picture.refused.c_str());
    }
    if (arguments_.json) text = json_text(json) + "\n";
    std::fwrite(text.data(), 1, text.size(), stdout);
    return all ? 0 : static_cast<int>(ErrorKind::kData);
  }

  const ClassifyArguments& arguments_;
  const std::vector<std::string> names_;
  AskedModel asked_;
  const std::int64_t batch_;
  PictureDecoder decoder_;
  const std::int64_t picture_floats_;
  Tensor logits_;
  std::vector<float> pixels_;         // (batch_, 3, side, side)
  std::vector<std::int32_t> labels_;  // (batch_)
  std::vector<Picture> pictures_;
  std::vector<std::size_t> waiting_;  // of pictures_, in the batch
};

constexpr std::size_t kLines = 8;  // worked on together
constexpr std::size_t kMostShownBytes = 240;

struct ClassifiedText : EncodedText {
  AskedText asked = {};
};

class TextClassifier final : public TextCommand<ClassifiedText> {
 public:
  TextClassifier(const ClassifyArguments& arguments, const Model& model, const RunInputs& run)
      : TextCommand(kLines, longest_of(run, model.inputs().texts[0]), arguments.json),
        arguments_(arguments),
        inputs_(model.inputs()),
        has_tags_(inputs_.reads_words),
        reads_pairs_(run.reads_pairs && !has_tags_),
        names_(class_names(arguments.folder, inputs_.classes)),
        tokenizer_(load_tokenizer(arguments.folder)),
        tokens_(has_tags_ ? load_token_texts(arguments.folder) : std::vector<std::string>()),
        asked_(model, arguments.folder) {}

  int classify() {
    std::vector<std::string> inputs = arguments_.inputs;
    reads_lines_ = are_lines_of_input(inputs);
    if (reads_pairs_ && inputs.size() > 2) {
      throw Error(ErrorKind::kSettings, "command line", "the model reads pairs, and there are more than two texts",
                  "name a text, or a text and the second one of its pair; - reads one a line of standard input");
    }
    if (reads_pairs_ && inputs.size() == 2) {
      second_ = std::move(inputs.back());
      inputs.pop_back();
    }
    return run(inputs, reads_lines_);
  }

 private:
  static std::int64_t longest_of(const RunInputs& run, const TextShape& shape) {
    const std::int64_t most = shape.max_positions - shape.positions.first;
    return run.are_of_run ? std::min(run.max_seq_length, most) : most;
  }

  ClassifiedText encode(const std::string& text, const std::string& where) const override {
    const std::size_t tab = reads_lines_ && reads_pairs_ ? text.find('\t') : std::string::npos;
    const AskedText asked{text.substr(0, tab), tab == std::string::npos ? second_ : text.substr(tab + 1)};
    return {(has_tags_ ? encode_places : encode_text)(*tokenizer_, asked, longest(), where), asked};
  }

  void plan(std::size_t texts, std::int64_t, std::int64_t longest) override {
    const std::int64_t together = static_cast<std::int64_t>(std::min(texts, kLines));
    logits_ = asked_.record_logits(AskedModel::bounds_of(asked_.fields(), together, together * longest, longest));
    asked_.load();
  }

  // The logits of texts, or where words have tags of the tokens of all texts, lie one behind the other.
  void answer(Span<const std::string>, Span<const ClassifiedText> texts) override {
    const std::size_t outputs = inputs_.has_values ? 1 : names_.size();
    const float* logits = asked_.run(batch_of(texts), logits_);
    std::size_t rows = 0;
    for (const ClassifiedText& one : texts) rows += has_tags_ ? one.ids.size() : 1;
    asked_.check_finite(logits, static_cast<std::int64_t>(rows) * inputs_.classes);
    for (const ClassifiedText& one : texts) {
      if (has_tags_) {
        say(one.asked, "entities", entities_of(one, logits + tokenizer_->before().size() * outputs));
      } else if (inputs_.has_values) {
        const double value = as_written(*logits);
        say(one.asked, "value", {value, std::string("  ") + readable_number(value).c_str() + "\n"});
      } else {
        say(one.asked, "labels", guesses_of(logits, names_, arguments_.top));
      }
      logits += (has_tags_ ? one.ids.size() : 1) * outputs;
    }
  }

  PaddedBatch batch_of(Span<const ClassifiedText> texts) const {
    PaddedBatch batch = padded_texts(texts);
    batch.labels.assign(texts.size(), 0);  // for the loss, which nobody reads
    batch.label_values.assign(texts.size(), 0.0f);
    PaddedText& text = batch.texts[0];
    for (const ClassifiedText& one : texts) {
      for (std::size_t t = 0; t < static_cast<std::size_t>(text.length); ++t) {
        const bool is_there = t < one.ids.size();
        text.token_types.push_back(is_there && t >= one.second_begin ? tokenizer_->second_type() : 0);
        if (has_tags_) text.token_labels.push_back(is_there ? 0 : -100);
      }
    }
    return batch;
  }

  // [{"entity", "score", "text", "start", "end"}]
  Answer entities_of(const ClassifiedText& text, const float* logits) const {
    Answer answer;
    for (const TextEntity& one : text_entities(text.asked.first, text.placed, logits, names_, {*tokenizer_, tokens_})) {
      const std::string type(one.type), words(one.text);
      answer.json.push_back(
          {{"entity", type}, {"score", one.score}, {"text", words}, {"start", one.start}, {"end", one.end}});
      answer.lines += shown_guess(
          one.score, type + "  " + words + "  [" + std::to_string(one.start) + ", " + std::to_string(one.end) + ")");
    }
    return answer;
  }

  // The answer under its key of the document, or as lines below the text.
  void say(const AskedText& asked, const char* key, Answer answer) {
    if (is_json()) {
      Json entry = {{"text", asked.first}, {key, std::move(answer.json)}};
      if (asked.second) entry["text_pair"] = *asked.second;
      return add(std::move(entry));
    }
    const std::string text = shown(asked) + "\n" + answer.lines;
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
  const ModelInputs inputs_;
  const bool has_tags_, reads_pairs_;
  bool reads_lines_ = false;
  std::optional<std::string> second_;  // of the command line's only pair
  const std::vector<std::string> names_;
  const std::unique_ptr<const Tokenizer> tokenizer_;
  const std::vector<std::string> tokens_;  // by id, where they have tags
  AskedModel asked_;
  Tensor logits_;
};

}  // namespace

int classify_command(const ClassifyArguments& arguments) {
  const std::unique_ptr<Model> model = open_finished_model(arguments.folder, "classify");
  if (model->inputs().image_side > 0) return PictureClassifier(arguments, *model).run();
  return TextClassifier(arguments, *model, read_run_inputs(arguments.folder)).classify();
}

}  // namespace bascule
