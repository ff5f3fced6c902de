// SPDX-License-Identifier: Apache-2.0
#include "src/verify/verify_case.h"

#include <algorithm>
#include <cmath>

#include "src/generate/pipeline.h"

namespace bascule {
namespace {

class OutputJudge {
 public:
  OutputJudge(const CaseFiles& files, const CaseModel& model, const PackedBatch& batch, Judgement* judgement)
      : files_(files), model_(model), batch_(batch), judgement_(judgement) {}
  void judge_all() {
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

 private:
  // Of each of our rows the one of the reference's tensor, whose shape this is; -1: it is of another column of texts.
  std::vector<std::int64_t> picked(const ReferenceOutput& output, const Extents& shape, std::int64_t cols) const {
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

  void add(const std::string& name, const std::vector<float>& ours, const std::vector<float>& truth) {
    const Json& error = get_object(get_object(files_.errors, "outputs", files_.folder), name, files_.folder);
    judgement_->add(name, relative_l2(ours, truth), get_number(error, "rel_l2_worst", files_.folder), kFloor);
  }

  // Several tensors stand side by side in each row of the reference's.
  void judge(const ReferenceOutput& output) {
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

  const CaseFiles& files_;
  const CaseModel& model_;
  const PackedBatch& batch_;
  Judgement* judgement_;
};

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
  judgement->add_the_rest(files.expected);
  judgement->add_the_rest(files.steps, {"loss", "grad_norm", "learning_rate"});
}

}  // namespace

void judge_model(const std::string& folder, Precision precision, const KernelTable& kernels, int threads,
                 VerifiedCase* result) {
  const CaseFiles files = open_case(folder, precision);
  CaseModel model(files, precision, kernels, threads);
  result->not_compared = files.contents.not_compared;
  if (precision == Precision::kBf16) {
    result->bf16_draws = files.bf16_draws;
    if (!model.trains()) return;
    judge_bf16(files, &model, result);
    return judge_unused(files, model.training(), result);
  }
  if (files.contents.generated) judge_generation(files, kernels, threads, result);
  judge_rouge(files, result);
  judge_float32(files, &model, result);
}

bool VerifiedCase::passed() const {
  return !tensors.empty() &&
         std::all_of(tensors.begin(), tensors.end(), [](const VerifiedTensor& tensor) { return tensor.passed(); });
}

double relative_l2(const std::vector<float>& ours, const std::vector<float>& truth) {
  double difference = 0.0, norm = 0.0;
  if (ours.size() != truth.size()) return std::nan("");
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const double d = static_cast<double>(ours[i]) - static_cast<double>(truth[i]);
    difference += d * d;
    norm += static_cast<double>(truth[i]) * static_cast<double>(truth[i]);
  }
  return norm > 0.0 ? std::sqrt(difference / norm) : std::sqrt(difference);
}

double one_minus_cosine(const std::vector<float>& ours, const std::vector<float>& truth) {
  double product = 0.0, our_squares = 0.0, true_squares = 0.0;
  if (ours.size() != truth.size()) return std::nan("");
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const double a = static_cast<double>(ours[i]), b = static_cast<double>(truth[i]);
    product += a * b;
    our_squares += a * a;
    true_squares += b * b;
  }
  if (true_squares == 0.0) return our_squares == 0.0 ? 0.0 : 1.0;
  return 1.0 - product / std::sqrt(our_squares * true_squares);
}

std::vector<float> pick_rows(const std::vector<float>& tensor, const std::vector<std::int64_t>& rows,
                             std::int64_t cols) {
  std::vector<float> picked;
  picked.reserve(rows.size() * static_cast<std::size_t>(cols));
  for (const std::int64_t row : rows)
    picked.insert(picked.end(), tensor.begin() + row * cols, tensor.begin() + (row + 1) * cols);
  return picked;
}

void Judgement::add(const std::string& name, double error, double reference, double floor) {
  tensors.push_back({name, Measure::kRelativeL2, error, reference, std::max(3.0 * reference, floor)});
}

void Judgement::add_angle(const std::string& name, double error, double reference, double floor) {
  tensors.push_back({name, Measure::kOneMinusCosine, error, reference, std::max(2.0 * reference, floor)});
}

void Judgement::add_norm(const std::string& name, double norm, double limit) {
  tensors.push_back({name, Measure::kNorm, norm, 0.0, limit});
}

void Judgement::add_the_rest(const TensorSource& source, const std::set<std::string>& series) {
  std::set<std::string> judged = series;
  for (const VerifiedTensor& tensor : tensors) judged.insert(tensor.name.substr(0, tensor.name.find(" (")));
  for (const NotCompared& tensor : not_compared) judged.insert(tensor.name);
  const std::string norm = "grad_l2.";  // beside a whole gradient: its norm
  for (const StoredTensor& tensor : source.tensors()) {
    if (tensor.name.rfind(norm, 0) == 0 && judged.count("grad." + tensor.name.substr(norm.size())) == 1) continue;
    if (judged.count(tensor.name) == 0) add_norm(tensor.name + " (not computed)", 1.0, 0.0);
  }
}

namespace {

double norm_of(Span<const float> values) {
  double squares = 0.0;
  for (const float value : values) squares += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(squares);
}

std::vector<float> samples_of(const CaseFiles& files, const std::vector<float>& whole, std::size_t count) {
  const std::int64_t samples = get_int(files.description, "gradient_sample", files.folder);
  const std::size_t stride =
      static_cast<std::size_t>(std::max<std::int64_t>(1, static_cast<std::int64_t>(whole.size()) / samples));
  std::vector<float> sampled;
  for (std::size_t k = 0; k < count && k * stride < whole.size(); ++k) sampled.push_back(whole[k * stride]);
  return sampled;
}

CaseGradient gradient_of_case(const CaseFiles& files, const std::string& name, std::vector<float> ours) {
  CaseGradient gradient;
  gradient.name = name;
  gradient.elements = ours.size();
  const Slice* const zero = files.zero_slice(name, ours.size());
  if (zero != nullptr) {
    gradient.zero_part = norm_of({ours.data() + zero->start, static_cast<std::size_t>(zero->stop - zero->start)});
    std::fill(ours.begin() + zero->start, ours.begin() + zero->stop, 0.0f);
    gradient.is_all_zero = zero->start == 0 && zero->stop == static_cast<std::int64_t>(ours.size());
    if (gradient.is_all_zero) return gradient;
  }
  gradient.length = norm_of(ours);
  gradient.is_sampled = files.expected.find("grad." + name) == nullptr;
  gradient.truth = read_floats(files.expected, (gradient.is_sampled ? "grad_sample." : "grad.") + name, files.folder);
  if (gradient.is_sampled) {
    gradient.ours = samples_of(files, ours, gradient.truth.size());
    return gradient;
  }
  if (zero != nullptr && gradient.truth.size() == ours.size())
    std::fill(gradient.truth.begin() + zero->start, gradient.truth.begin() + zero->stop, 0.0f);
  gradient.ours = std::move(ours);
  return gradient;
}

// Whether the case says what the parameter's gradient is, or what the reference's error of it is.
bool holds_gradient(const CaseFiles& files, const std::string& name) {
  if (files.expected.find("grad." + name) != nullptr || files.expected.find("grad_sample." + name) != nullptr)
    return true;
  if (std::any_of(files.zero_gradient.begin(), files.zero_gradient.end(),
                  [&](const Slice& slice) { return slice.parameter == name; }))
    return true;
  const Json* const errors = find_member(files.errors, "gradients", files.folder);
  return errors != nullptr && find_member(*errors, name, files.folder) != nullptr;
}

}  // namespace

void for_each_gradient(const CaseFiles& files, const Session& session, std::vector<NotCompared>* not_compared,
                       const std::function<void(const CaseGradient&)>& judge) {
  const ParameterSet& set = session.parameters();
  for (int p = 0; p < set.size(); ++p) {
    const ParameterLayout::Place& place = session.layout().places[static_cast<std::size_t>(p)];
    if (!place.trained) continue;
    for (const ParameterPiece& piece : set[p].pieces) {
      if (!holds_gradient(files, piece.name)) {
        not_compared->push_back({"grad." + piece.name, "the case does not hold it"});
        continue;
      }
      const float* const first = session.training().gradients() + place.offset + piece.first_element;
      judge(gradient_of_case(files, piece.name, {first, first + piece.elements}));
    }
  }
}

namespace {

constexpr double kLossFloor = 0.005;         // of the limit on the loss
constexpr std::size_t kFewestElements = 64;  // of a parameter whose angle says something
constexpr double kLengthLimit = 0.1;
constexpr double kZeroGradientBf16 = 0x1p-8;  // of the gradient norm, where a gradient is zero in exact arithmetic

void judge_gradient(const CaseFiles& files, const Json& cosines, const CaseGradient& gradient, Judgement* judgement) {
  const std::string name = "grad." + gradient.name;
  if (gradient.zero_part)
    judgement->add_norm(name + " (zero part)", *gradient.zero_part, kZeroGradientBf16 * files.gradient_norm);
  if (gradient.is_all_zero || gradient.elements < kFewestElements) return;
  judgement->add_norm(name + " (length)", std::fabs(norm_of(gradient.ours) / norm_of(gradient.truth) - 1.0),
                      kLengthLimit);
  judgement->add_angle(name, one_minus_cosine(gradient.ours, gradient.truth),
                       1.0 - get_number(cosines, gradient.name, files.folder));
}

}  // namespace

void judge_bf16(const CaseFiles& files, CaseModel* model, Judgement* judgement) {
  const std::string where = files.folder + "/float32_error.json";
  const Json& autocast = get_object(files.errors, "bf16_autocast", where);
  const double loss = model->step({0});
  if (files.contents.loss && !model->has_own_loss())
    judgement->not_compared.push_back({"loss", "the bare model has none of its own"});
  if (files.contents.loss && model->has_own_loss()) {
    const double truth = static_cast<double>(read_floats(files.expected, "loss", files.folder).at(0));
    judgement->add_norm("loss", std::fabs(loss - truth),
                        std::max(2.0 * get_number(autocast, "loss_abs", where), kLossFloor));
  }
  if (!files.contents.gradients) return;
  const Json& cosines = get_object(autocast, "gradient_cosine", where);
  for_each_gradient(files, model->training(), &judgement->not_compared,
                    [&](const CaseGradient& gradient) { judge_gradient(files, cosines, gradient, judgement); });
}

}  // namespace bascule
