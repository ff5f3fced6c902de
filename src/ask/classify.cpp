// SPDX-License-Identifier: Apache-2.0
#include "src/ask/classify.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <numeric>
#include <system_error>

#include "src/ask/classify_texts.h"
#include "src/ask/finished_model.h"
#include "src/ask/logits.h"
#include "src/base/error.h"
#include "src/json/json.h"
#include "src/machine/process_limits.h"
#include "src/pictures/picture_decoder.h"
#include "src/runtime/choose_isa.h"

namespace bascule {
namespace {

constexpr std::size_t kMaxBatch = 8;  // pictures: enough rows for full matrix tiles, and little memory

class Classifier {
 public:
  Classifier(const std::string& folder, const Model& model, std::size_t pictures, Isa isa, int threads)
      : folder_(folder),
        needs_(model.inputs()),
        fields_(model.fields({})),
        batch_(static_cast<std::int64_t>(std::min(pictures, kMaxBatch))),
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

}  // namespace bascule
