// SPDX-License-Identifier: Apache-2.0
#include "src/verify/verify_case.h"

#include <algorithm>
#include <set>

#include "src/models/families.h"
#include "src/verify/verify_files.h"
#include "src/verify/verify_gradients.h"
#include "src/verify/verify_model.h"
#include "src/verify/verify_training.h"

namespace bascule {
namespace {

class OutputJudge {
 public:
  OutputJudge(const CaseFiles& files, const CaseModel& model, const PackedBatch& batch, Judgement* judgement)
      : files_(files), model_(model), batch_(batch), judgement_(judgement) {}
  void judge_all();

 private:
  std::vector<std::int64_t> picked(const ReferenceOutput& output, const Extents& shape, std::int64_t cols) const;
  void judge(const ReferenceOutput& output);
  void add(const std::string& name, const std::vector<float>& ours, const std::vector<float>& truth);

  const CaseFiles& files_;
  const CaseModel& model_;
  const PackedBatch& batch_;
  Judgement* judgement_;
};

// Of each of our rows the one of the reference's tensor, whose shape this is; -1: it is of another column of texts.
std::vector<std::int64_t> OutputJudge::picked(const ReferenceOutput& output, const Extents& shape,
                                              std::int64_t cols) const {
  const std::int64_t texts = output.column >= 0 ? files_.inputs.texts_in_a_row : 1;
  std::vector<std::int64_t> list;
  const auto add = [&](std::int64_t text, std::int64_t rows_of_text, std::int64_t row) {
    const bool is_there = texts == 1 || text % texts == output.column;
    list.push_back(is_there ? text / texts * rows_of_text + row : -1);
  };
  if (output.rows == ReferenceRows::kTokens) {
    const std::int64_t length = batch_.padded_length(output.text);
    for (const std::int64_t row : batch_.padded_row(output.text))
      add(row / length, texts > 1 ? shape[1] : length, row % length);
    return list;
  }
  const std::int64_t count = element_count(shape) / cols;
  const std::int64_t stride = output.rows == ReferenceRows::kFirstOfSample ? count / batch_.samples() : 1;
  for (std::int64_t row = 0; row < count * texts; row += stride) add(row, 1, 0);
  return list;
}

void OutputJudge::add(const std::string& name, const std::vector<float>& ours, const std::vector<float>& truth) {
  const Json& error = get_object(get_object(files_.errors, "outputs", files_.folder), name, files_.folder);
  judgement_->add(name, relative_l2(ours, truth), get_number(error, "rel_l2_worst", files_.folder), kFloor);
}

// Several tensors stand side by side in each row of the reference's.
void OutputJudge::judge(const ReferenceOutput& output) {
  const StoredTensor* const expected = files_.expected.find(output.name);
  if (expected == nullptr) return;
  std::int64_t cols = 0;
  for (const Tensor tensor : output.tensors) cols += model_.info(tensor).cols;
  const std::vector<float> stored = read_floats(files_.expected, output.name, files_.folder);
  std::vector<float> ours, truth;
  const std::vector<std::int64_t> rows = picked(output, expected->shape, cols);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (rows[row] < 0) continue;
    truth.insert(truth.end(), stored.begin() + rows[row] * cols, stored.begin() + (rows[row] + 1) * cols);
    for (const Tensor tensor : output.tensors) {
      const std::size_t width = static_cast<std::size_t>(model_.info(tensor).cols);
      const float* const values = model_.at(tensor) + row * width;
      ours.insert(ours.end(), values, values + width);
    }
  }
  add(output.name, ours, truth);
}

void OutputJudge::judge_all() {
  for (const ReferenceOutput& output : model_.recording().reference) judge(output);
  const std::vector<LossTerm>& losses = model_.recording().losses;
  if (losses.empty()) return;
  float sum = 0.0f;
  for (const LossTerm& term : losses) {
    if (losses.size() > 1) judge({term.name, {term.loss}});
    sum += *model_.at(term.loss);
  }
  if (files_.contents.loss) add("loss", {sum}, read_floats(files_.expected, "loss", files_.folder));
}

void judge_gradient(const CaseFiles& files, const CaseGradient& gradient, Judgement* judgement) {
  const std::string &name = gradient.name, &where = files.folder;
  if (gradient.zero_part)
    judgement->add_norm("grad." + name + " (zero part)", *gradient.zero_part, kZeroGradient * files.gradient_norm);
  if (gradient.is_all_zero) return;
  const Json* const error = find_member(get_object(files.errors, "gradients", where), name, where);
  const double reference = error == nullptr ? 0.0 : get_number(*error, "rel_l2_worst", where);
  const double distance = relative_l2(gradient.ours, gradient.truth);
  if (!gradient.is_sampled) {
    judgement->add("grad." + name, distance, reference, kFloor);
    return;
  }
  const double of_samples = error == nullptr ? 0.0 : get_number(get_object(*error, "sample", where), "rel_l2", where);
  judgement->add("grad_sample." + name, distance, std::max(reference, of_samples), kFloor);
  if (files.expected.find("grad_l2." + name) == nullptr) return;
  const std::vector<float> length = {static_cast<float>(gradient.length)};
  judgement->add("grad_l2." + name, relative_l2(length, read_floats(files.expected, "grad_l2." + name, where)),
                 reference, kFloor);
}

// Parameters without a gradient are those that no update reaches and that a run copies from its source folder: the
// reference's list and ours are the same one, where the case has one.
void judge_unused(const CaseFiles& files, const Session& session, Judgement* judgement) {
  const bool has_list = find_member(files.description, "unused_parameters", files.folder) != nullptr;
  if (!has_list || !(files.contents.gradients || files.contents.run)) return;
  std::set<std::string> ours, theirs;
  const ParameterSet& set = session.parameters();
  for (int p = 0; p < set.size(); ++p) {
    if (session.layout().places[static_cast<std::size_t>(p)].trained) continue;
    for (const ParameterPiece& piece : set[p].pieces) ours.insert(piece.name);
  }
  for (const ParameterPiece& piece : files.model->unused_tensors()) ours.insert(piece.name);
  for (const char* list : {"unused_parameters", "frozen_parameters"}) {
    const std::vector<std::string> names = strings_of(files, list);
    theirs.insert(names.begin(), names.end());
  }
  std::set<std::string> all = ours;
  all.insert(theirs.begin(), theirs.end());
  for (const std::string& name : all) {
    judgement->add_norm("param." + name + " (no gradient)", ours.count(name) == theirs.count(name) ? 0.0 : 1.0, 0.0);
  }
}

// Fails for each tensor of the reference that was compared with nothing, and of which nothing says why.
void judge_the_rest(const CaseFiles& files, Judgement* judgement) {
  std::set<std::string> judged;
  for (const VerifiedTensor& tensor : judgement->tensors) judged.insert(tensor.name.substr(0, tensor.name.find(" (")));
  for (const NotCompared& tensor : judgement->not_compared) judged.insert(tensor.name);
  const std::set<std::string> series = {"loss", "grad_norm", "learning_rate"};  // of steps: judged step by step
  const std::string norm = "grad_l2.";                                          // beside a whole gradient: its norm
  for (const TensorSource* source : {&files.expected, &files.steps}) {
    for (const StoredTensor& tensor : source->tensors()) {
      if (source == &files.steps && series.count(tensor.name) == 1) continue;
      if (tensor.name.rfind(norm, 0) == 0 && judged.count("grad." + tensor.name.substr(norm.size())) == 1) continue;
      if (judged.count(tensor.name) == 0) judgement->add_norm(tensor.name + " (not computed)", 1.0, 0.0);
    }
  }
}

void judge_step(const CaseFiles& files, CaseModel* model, Judgement* judgement) {
  const float loss = static_cast<float>(model->step({0}));
  if (files.contents.loss) {
    const Json& error = get_object(get_object(files.errors, "outputs", files.folder), "loss", files.folder);
    judgement->add("loss (training)", relative_l2({loss}, read_floats(files.expected, "loss", files.folder)),
                   get_number(error, "rel_l2_worst", files.folder), kFloor);
  }
  if (files.contents.gradients) {
    for_each_gradient(files, model->training(), &judgement->not_compared,
                      [&](const CaseGradient& gradient) { judge_gradient(files, gradient, judgement); });
  }
  judge_unused(files, model->training(), judgement);
  if (files.contents.run) judge_training(files, model, judgement);
}

void judge_float32(const CaseFiles& files, CaseModel* model, Judgement* judgement) {
  if (model->evaluates()) {
    const PackedBatch batch = model->evaluate();
    OutputJudge(files, *model, batch, judgement).judge_all();
  }
  if (model->trains()) judge_step(files, model, judgement);
  judge_the_rest(files, judgement);
}

VerifiedCase verify_model_case(const std::string& folder, Precision precision, const KernelTable& kernels,
                               int threads) {
  const CaseFiles files = open_case(folder, precision);
  CaseModel model(files, precision, kernels, threads);
  Judgement judgement;
  judgement.not_compared = files.contents.not_compared;
  const bool is_bf16 = precision == Precision::kBf16;
  if (is_bf16) {
    if (model.trains()) {
      judge_bf16(files, &model, &judgement);
      judge_unused(files, model.training(), &judgement);
    }
  } else {
    if (files.contents.generated) judge_generation(files, kernels, threads, &judgement);
    judge_rouge(files, &judgement);
    judge_float32(files, &model, &judgement);
  }
  return {get_string(files.description, "case", folder, folder), std::move(judgement.tensors),
          std::move(judgement.not_compared), is_bf16 ? files.bf16_draws : 0};
}

}  // namespace

bool VerifiedCase::passed() const {
  return !tensors.empty() &&
         std::all_of(tensors.begin(), tensors.end(), [](const VerifiedTensor& tensor) { return tensor.passed(); });
}

VerifiedCase verify_case(const std::string& folder, Precision precision, const KernelTable& kernels, int threads) {
  const auto verify = is_drawing_case(folder) ? verify_drawing_case : verify_model_case;
  try {
    return verify(folder, precision, kernels, threads);
  } catch (const UnknownFamily& unknown) {
    const std::string description = folder + "/case.json";
    return {get_string(read_json_file(description), "case", description, folder), {}, {}, 0, unknown.what()};
  }
}

}  // namespace bascule
