// SPDX-License-Identifier: Apache-2.0
#include "src/verify/verify_case.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/table.h"
#include "src/base/error.h"
#include "src/base/span.h"
#include "src/checkpoint/hf_folder.h"
#include "src/generate/generation_config.h"
#include "src/generate/generator.h"
#include "src/json/json.h"
#include "src/judge/rouge.h"
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

namespace {

constexpr double kScoreLimit = 1e-4;

// Beyond the last two units of the truth, a float32 number: a length penalty below 0 makes large scores.
double distance_to(double truth, double ours) {
  const double beyond = std::fabs(ours - truth) - std::fabs(truth) * 0x1p-22;
  return beyond < 0.0 ? 0.0 : beyond;  // NaN stays
}

std::vector<std::int64_t> read_ids(const CaseFiles& files, const std::string& name, std::int64_t rows,
                                   std::int64_t* cols) {
  const StoredTensor* const tensor = files.expected.find(name);
  if (tensor == nullptr || tensor->shape.size() != 2 || tensor->shape[0] != rows)
    throw Error(ErrorKind::kData, files.folder, name + " is missing, or does not have a row for each sample");
  *cols = tensor->shape[1];
  return read_integers(files.expected, name, files.folder);
}

// How many ids differ from the reference's row, which begins with the start token and is padded behind its end.
double count_different(const std::int64_t* row, std::int64_t cols, const SearchOptions& options,
                       Span<const std::int32_t> ours) {
  double count = std::max<double>(0.0, static_cast<double>(ours.size()) + 1.0 - static_cast<double>(cols));
  for (std::int64_t c = 0; c < cols; ++c) {
    const std::size_t at = static_cast<std::size_t>(c - 1);
    const std::int32_t id = c == 0 ? options.start_id : at < ours.size() ? ours[at] : options.pad_id;
    count += row[c] == id ? 0.0 : 1.0;
  }
  return count;
}

void judge_entry(const CaseFiles& files, const std::string& name, const SearchOptions& options,
                 const KernelTable& kernels, int threads, Judgement* judgement) {
  const Fields fields = files.model->fields({});
  const PackedBatch packed(read_batch(files, 0), files.inputs, true, files.folder);
  Session session;
  const RecordedGeneration recorded =
      record_generation(&session, *files.model, fields, packed.counts(fields), options, Precision::kFloat32);
  Threads pool(threads, false);
  session.seal_alone(kernels, threads);
  const TensorSource source = open_hf_weights(files.folder);
  StartWork work;
  load_parameters(&work, source, session.parameter_memory(), *files.model, 0);
  work.run(pool);
  Generator generator(recorded, options, packed.samples());
  generator.seal_alone(session);
  generator.run(packed.batch(fields), pool);

  std::int64_t cols = 0;
  const std::vector<std::int64_t> truth = read_ids(files, "generated." + name, packed.samples(), &cols);
  double different = 0.0, error = 0.0;
  std::vector<float> scores;
  const std::string scores_name = "generated_scores." + name;
  if (files.expected.find(scores_name) != nullptr) scores = read_floats(files.expected, scores_name, files.folder);
  if (!scores.empty() && files.expected.find(scores_name)->shape != std::vector<std::int64_t>{packed.samples()})
    throw Error(ErrorKind::kData, files.folder, scores_name + " does not have a number for each sample");
  for (std::int64_t s = 0; s < packed.samples(); ++s) {
    different += count_different(truth.data() + s * cols, cols, options, generator.search().generated(s));
    if (scores.empty()) continue;
    const double distance = distance_to(static_cast<double>(scores.at(static_cast<std::size_t>(s))),
                                        static_cast<double>(generator.search().score(s)));
    if (!(distance <= error)) error = distance;
  }
  judgement->add_norm("generated." + name, different, 0.0);
  if (!scores.empty()) judgement->add_norm(scores_name, error, kScoreLimit);
}

constexpr double kRougeLimit = 1e-12;

}  // namespace

void judge_rouge(const CaseFiles& files, Judgement* judgement) {
  const std::string where = files.folder + "/rouge.json";
  if (!std::filesystem::exists(where)) return;
  const Json json = read_json_file(where);
  double error = 0.0, different = 0.0;
  for (const Json& pair : get_array(json, "pairs", where)) {
    if (!get_bool(pair, "use_stemmer", where)) continue;  // ROUGE is counted with stems alone
    const std::string prediction = get_string(pair, "prediction", where), target = get_string(pair, "reference", where);
    const std::size_t bytes = std::max(prediction.size(), target.size());
    Rouge rouge({bytes, Rouge::most_words(bytes)});
    const std::unique_ptr<void, void (*)(void*)> memory(
        std::aligned_alloc(kCacheLine, align_up(rouge.bytes(), kCacheLine)), std::free);
    rouge.seal(static_cast<std::byte*>(memory.get()));
    const RougeScores ours = rouge.score(target, prediction);
    for (const auto& [name, score] : {std::pair{"rouge1", ours.rouge1}, std::pair{"rouge2", ours.rouge2},
                                      std::pair{"rougeL", ours.rougeL}, std::pair{"rougeLsum", ours.rougeLsum}}) {
      const std::vector<double> truth = get_numbers(pair, name, where);
      const double values[] = {score.precision, score.recall, score.f};
      for (std::size_t i = 0; i < 3; ++i) {
        const double distance = std::fabs(values[i] - truth.at(i));
        if (!(distance <= error)) error = distance;
      }
    }
  }
  for (const auto& [word, stem] : get_object(json, "stems", where).items()) {
    std::string ours = word;
    ours.resize(porter_stem(ours.data(), ours.size()));
    different += stem.is_string() && stem.string() == ours ? 0.0 : 1.0;
  }
  judgement->add_norm("rouge", error, kRougeLimit);
  judgement->add_norm("stems", different, 0.0);
}

void judge_generation(const CaseFiles& files, const KernelTable& kernels, int threads, Judgement* judgement) {
  const std::string where = files.folder + "/case.json";
  const SearchOptions defaults =
      read_generation_config(files.folder, files.inputs.texts[kMaxTexts - 1].vocabulary_size).options;
  for (const auto& [name, entry] : get_object(files.description, "generate", where).items()) {
    SearchOptions options = defaults;
    read_search_options(entry, where, &options);
    check_search_options(options, where);
    judge_entry(files, name, options, kernels, threads, judgement);
  }
}

}  // namespace bascule
