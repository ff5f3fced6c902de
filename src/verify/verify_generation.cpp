// SPDX-License-Identifier: Apache-2.0
#include "src/verify/verify_generation.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/table.h"
#include "src/base/align.h"
#include "src/base/error.h"
#include "src/checkpoint/hf_folder.h"
#include "src/generate/generation_config.h"
#include "src/generate/generator.h"
#include "src/json/json.h"
#include "src/judge/porter_stemmer.h"
#include "src/judge/rouge.h"

namespace bascule {
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

void judge_entry(const CaseFiles& files, const std::string& name, const SearchOptions& options, Isa isa, int threads,
                 Judgement* judgement) {
  const Fields fields = files.model->fields({});
  const PackedBatch packed(read_batch(files, 0), files.inputs, true, files.folder);
  Session session;
  const RecordedGeneration recorded =
      record_generation(&session, *files.model, fields, packed.counts(fields), options, Precision::kFloat32);
  Threads pool(threads, false);
  session.seal_alone(kernels_for(isa), threads);
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

void judge_generation(const CaseFiles& files, Isa isa, int threads, Judgement* judgement) {
  const std::string where = files.folder + "/case.json";
  const SearchOptions defaults =
      read_generation_config(files.folder, files.inputs.texts[kMaxTexts - 1].vocabulary_size).options;
  for (const auto& [name, entry] : get_object(files.description, "generate", where).items()) {
    SearchOptions options = defaults;
    read_search_options(entry, where, &options);
    check_search_options(options, where);
    judge_entry(files, name, options, isa, threads, judgement);
  }
}

}  // namespace bascule
