// SPDX-License-Identifier: Apache-2.0
#include "src/verify/verify_training.h"

#include <algorithm>
#include <cmath>

#include "src/base/error.h"
#include "src/checkpoint/hf_folder.h"
#include "src/update/schedule.h"

namespace bascule {
namespace {

// A rate is a few operations in float64.
constexpr double kRateFloor = 1e-14;

struct Log {
  std::vector<double> losses, norms, rates;
};

double relative_error(double ours, double truth) {
  return truth != 0.0 ? std::fabs(ours / truth - 1.0) : std::fabs(ours);
}

// Throws Error kData for a list of another length, of a file of the case.
std::vector<double> of_length(std::vector<double> values, std::size_t length, const std::string& name,
                              const std::string& where) {
  if (values.size() == length) return values;
  throw Error(ErrorKind::kData, where,
              "\"" + name + "\" has " + std::to_string(values.size()) + " numbers, not " + std::to_string(length));
}

Log train(const CaseFiles& files, CaseModel* model) {
  const std::string where = files.folder + "/case.json";
  const Json& train = get_object(files.description, "train", where);
  const std::vector<double> betas = of_length(get_numbers(train, "betas", where), 2, "betas", where);
  const Schedule schedule = {*find_scheduler(scheduler_name(train, where)), get_number(train, "learning_rate", where),
                             get_int(train, "warmup_steps", where), get_int(train, "steps", where)};
  Log log;
  std::int64_t s = 0;
  for (const Json& batches : get_array(train, "batches_of_step", where)) {
    const std::vector<std::int64_t> numbers = get_ints(Json{{"batches", batches}}, "batches", where);
    const std::int64_t count = get_int(files.description, "batches", where);
    if (numbers.empty() ||
        std::any_of(numbers.begin(), numbers.end(), [&](std::int64_t k) { return k < 0 || k >= count; })) {
      throw Error(ErrorKind::kData, where,
                  "\"batches_of_step\" has " + json_text(batches) + ", but the case has batches 0 to " +
                      std::to_string(count - 1));
    }
    log.losses.push_back(model->step(numbers));
    log.rates.push_back(schedule.at(s));
    UpdateSettings settings;
    settings.learning_rate = log.rates.back();
    settings.beta1 = betas[0];
    settings.beta2 = betas[1];
    settings.epsilon = get_number(train, "eps", where);
    settings.weight_decay = get_number(train, "weight_decay", where);
    settings.max_grad_norm = get_number(train, "max_grad_norm", where);
    settings.step = ++s;
    log.norms.push_back(model->training().training().update().run(model->threads(), settings));
  }
  return log;
}

void judge_log(const CaseFiles& files, const Log& log, Judgement* judgement) {
  const std::string where = files.folder + "/float32_error.json";
  const auto judge = [&](const std::string& name, const std::vector<double>& ours, const std::vector<double>& truth,
                         const std::vector<double>& reference, double floor) {
    for (std::size_t i = 0; i < ours.size(); ++i) {
      judgement->add("step" + std::to_string(i) + "." + name, relative_error(ours[i], truth[i]), reference[i], floor);
    }
  };
  const auto stored = [&](const std::string& name) {
    const std::vector<float> values = read_floats(files.steps, name, files.folder);
    return of_length({values.begin(), values.end()}, log.rates.size(), name, files.folder + "/steps.safetensors");
  };
  const auto worst = [&](const std::string& name) {
    return of_length(get_numbers(get_object(files.errors, "steps", where), name, where), log.rates.size(), name, where);
  };
  const auto holds = [&](const std::string& name) { return files.steps.find(name) != nullptr; };
  if (holds("loss")) judge("loss", log.losses, stored("loss"), worst("loss_rel_worst"), kFloor);
  if (holds("grad_norm")) judge("grad_norm", log.norms, stored("grad_norm"), worst("grad_norm_rel_worst"), kFloor);
  const std::string rates = "learning_rate", case_file = files.folder + "/case.json";
  const std::vector<double> exact(log.rates.size(), 0.0);
  const std::vector<float> rounded(log.rates.begin(), log.rates.end());  // as they are stored
  if (holds(rates)) judge(rates, {rounded.begin(), rounded.end()}, stored(rates), exact, kRateFloor);
  const Json* const full = find_member(get_object(files.description, "train", case_file), "log", case_file);
  if (full == nullptr || find_member(*full, rates, case_file) == nullptr) return;
  judge(rates + " (log)", log.rates,
        of_length(get_numbers(*full, rates, case_file), log.rates.size(), rates, case_file), exact, kRateFloor);
}

// The slice that is zero in exact arithmetic, for Adam turns its noise into steps: only how far it moved is judged.
// Afterwards ours and the truth are as before in it.
void judge_zero_slice(const Slice& slice, const std::vector<float>& before, double limit, std::vector<float>* ours,
                      std::vector<float>* truth, Judgement* judgement) {
  double moved = 0.0;
  for (std::int64_t i = slice.start; i < slice.stop; ++i) {
    const std::size_t at = static_cast<std::size_t>(i);
    moved = std::max(moved, std::fabs(static_cast<double>((*ours)[at]) - static_cast<double>(before[at])));
    (*ours)[at] = (*truth)[at] = before[at];
  }
  judgement->add_norm("param." + slice.parameter + " (zero part)", moved, limit);
}

void judge_parameter(const CaseFiles& files, const std::string& name, const std::vector<float>& before,
                     std::vector<float> ours, double sum_of_rates, Judgement* judgement) {
  const std::string where = files.folder + "/float32_error.json";
  std::vector<float> truth = read_floats(files.steps, "param." + name, files.folder);
  if (truth.size() != ours.size()) {
    throw Error(
        ErrorKind::kData, files.folder + "/steps.safetensors",
        "param." + name + " has " + std::to_string(truth.size()) + " elements, not " + std::to_string(ours.size()));
  }
  if (const Slice* slice = files.zero_slice(name, ours.size())) {
    judge_zero_slice(*slice, before, 4.0 * sum_of_rates, &ours, &truth, judgement);
    if (slice->start == 0 && slice->stop == static_cast<std::int64_t>(ours.size())) return;
  }
  const Json& error =
      get_object(get_object(get_object(files.errors, "steps", where), "parameters", where), name, where);
  judgement->add("param." + name, relative_l2(ours, truth), get_number(error, "rel_l2_worst", where), kFloor);
  for (std::size_t i = 0; i < ours.size(); ++i) {
    ours[i] -= before[i];
    truth[i] -= before[i];
  }
  judgement->add("update." + name, relative_l2(ours, truth), get_number(error, "update_rel_l2_worst", where),
                 kUpdateFloor);
}

// A parameter that a case with some of them leaves out is as it was.
void judge_parameters(const CaseFiles& files, const ParameterMemory& memory, const Log& log, Judgement* judgement) {
  const std::vector<StoredTensor>& stored = files.steps.tensors();
  if (std::none_of(stored.begin(), stored.end(),
                   [](const StoredTensor& tensor) { return tensor.name.rfind("param.", 0) == 0; }))
    return;
  double sum_of_rates = 0.0;
  for (const double rate : log.rates) sum_of_rates += rate;
  const TensorSource initial = open_hf_weights(files.folder);
  for (int p = 0; p < memory.set->size(); ++p) {
    for (const ParameterPiece& piece : (*memory.set)[p].pieces) {
      const StoredTensor* start = find_tensor(initial, piece.name, files.model->file_names());
      std::vector<float> before(static_cast<std::size_t>(piece.elements));
      initial.read_float32(before.data(), *start, 0, piece.elements);
      const float* const first = memory.at(p) + piece.first_element;
      const std::vector<float> ours(first, first + piece.elements);
      if (files.steps.find("param." + piece.name) == nullptr) {
        judgement->add_norm("param." + piece.name + " (unchanged)", ours == before ? 0.0 : 1.0, 0.0);
      } else {
        judge_parameter(files, piece.name, before, ours, sum_of_rates, judgement);
      }
    }
  }
}

}  // namespace

void judge_training(const CaseFiles& files, CaseModel* model, Judgement* judgement) {
  const Log log = train(files, model);
  judge_log(files, log, judgement);
  judge_parameters(files, model->training().parameter_memory(), log, judgement);
}

}  // namespace bascule
