// SPDX-License-Identifier: Apache-2.0
#include "src/doctor/doctor.h"

#include <algorithm>
#include <memory>

#include "src/doctor/equal_rows.h"
#include "src/doctor/finding.h"
#include "src/record/recorded_run.h"
#include "src/runtime/threads.h"

namespace bascule {
namespace {

// From this share of a batch's rows on, false negatives are a warning.
constexpr double kManyFalseNegatives = 0.05;

const PathsSetting& file_of(const DataSettings& data, Split split) {
  return split == Split::kTrain        ? data.train_file
         : split == Split::kValidation ? data.evaluation_file()
                                       : data.prediction_file();
}

// Texts and pictures as they were read, by split.
struct ReadData {
  std::vector<SplitTexts> texts;
  std::vector<SplitPictures> pictures;
  std::vector<RowDigests> samples;  // of all that the model reads of a row but its label
};

RowDigests samples_of(const OpenedData& opened, const ReadData& read, std::size_t split) {
  RowDigests samples;
  const Manifest& manifest = *opened.data().splits[split].manifest;
  if (opened.data().splits[split].corpus != nullptr) return samples;
  const auto add = [&](const RowDigests& digests) {
    if (samples.empty()) {
      samples = digests;
      return;
    }
    for (std::size_t row = 0; row < samples.size(); ++row) samples[row] = digest_of_both(samples[row], digests[row]);
  };
  for (const SplitTexts& texts : read.texts) {
    if (texts.split == split) add(texts.digests);
  }
  if (!read.pictures.empty()) add(digests_by_row(manifest, read.pictures[split]));
  return samples;
}

SplitFigures figures_of(const OpenedData& opened, const ReadData& read, std::size_t split) {
  const RecordedSplit& recorded = opened.data().splits[split];
  SplitFigures figures;
  figures.name = split_name(recorded.split);
  figures.file = file_of(opened.settings().data, recorded.split).text();
  figures.rows = recorded.manifest->rows();
  for (const SplitTexts& texts : read.texts) {
    if (texts.split == split) figures.texts.push_back(texts.figures);
  }
  if (!read.pictures.empty()) figures.pictures = figures_of(read.pictures[split]);
  count_labels(recorded, opened.model().inputs, &figures);
  return figures;
}

MeanSample mean_sample(const OpenedData& opened, const ReadData& read) {
  MeanSample sample;
  for (const SplitTexts& texts : read.texts) {
    const RecordedSplit& recorded = opened.data().splits[texts.split];
    if (recorded.split != Split::kTrain) continue;
    const TextFigures& figures = texts.figures;
    const bool is_line = recorded.corpus == nullptr || figures.limit > 0;
    sample.tokens[texts.number] += !is_line ? static_cast<double>(recorded.corpus->longest())
                                            : static_cast<double>(figures.read_tokens) /
                                                  static_cast<double>(std::max<std::int64_t>(1, figures.texts));
  }
  for (const SplitPictures& pictures : read.pictures) {
    if (opened.data().splits[pictures.split].split != Split::kTrain || pictures.records.empty()) continue;
    sample.loading_seconds = pictures.seconds / static_cast<double>(pictures.records.size());
  }
  return sample;
}

void find_false_negatives(const BatchFigures& batches, std::vector<Finding>* findings) {
  if (batches.equal_pairs <= 0.0) return;
  const bool are_many = batches.rows_in_pairs > kManyFalseNegatives * static_cast<double>(batches.batch);
  const std::string text = formatted(
      "a batch of %lld has %.3g pairs of rows with the same picture or the same caption on average, and the "
      "loss takes each of a pair for a negative of the other: without dropout and random changes of pictures "
      "it cannot fall below %.3g",
      static_cast<long long>(batches.batch), batches.equal_pairs, batches.loss_floor);
  findings->push_back({are_many ? Level::kWarning : Level::kNote, "false_negatives", text,
                       "remove repeated rows, or train with smaller batches",
                       static_cast<std::int64_t>(batches.equal_pairs + 0.5)});
}

void add_batches(const OpenedData& opened, const ReadData& read, Diagnosis* diagnosis) {
  const Settings& settings = opened.settings();
  const RunData& data = opened.data();
  const bool has_pairs = !read.pictures.empty() && !read.texts.empty();
  if (!settings.head()->uses_negatives || data.splits.empty() || data.splits[0].split != Split::kTrain || !has_pairs)
    return;
  const TrainingSettings& training = settings.training;
  const std::int64_t ranks = settings.distributed.world_size, rows = data.splits[0].manifest->rows();
  const std::int64_t of_rank = training.per_device_train_batch_size;
  // Few rows are dealt to all ranks.
  const std::int64_t batch =
      training.gather_negatives ? of_rank * ranks : std::min(of_rank, (rows + ranks - 1) / ranks);
  diagnosis->batches =
      batch_figures(read.texts[0].digests, digests_by_row(*data.splits[0].manifest, read.pictures[0]), batch);
  find_false_negatives(*diagnosis->batches, &diagnosis->findings);
}

MeanSample read_data(const Settings& settings, std::size_t most_examples, Diagnosis* diagnosis) {
  const OpenedData opened(settings, &diagnosis->findings, most_examples);
  ReadData read;
  read.texts = read_texts(opened);
  read.pictures = read_pictures(opened, usable_cores());
  std::vector<Finding>* const findings = &diagnosis->findings;
  for (std::size_t split = 0; split < opened.data().splits.size(); ++split) {
    read.samples.push_back(samples_of(opened, read, split));
    diagnosis->splits.push_back(figures_of(opened, read, split));
  }
  find_in_texts(opened, read.texts, findings);
  find_in_rows_of_texts(opened, findings);
  find_in_labels(opened, diagnosis->splits, read.samples, findings);
  find_in_pictures(opened, read.pictures, findings);
  find_equal_pictures(opened, read.pictures, findings);
  add_batches(opened, read, diagnosis);
  return mean_sample(opened, read);
}

void add_error(const Error& error, Diagnosis* diagnosis) {
  const auto tells = [&](const std::string& text) { return text.find(error.problem()) != std::string::npos; };
  // The row, or the picture that it names.
  const std::string picture = error.problem().substr(0, error.problem().find(": "));
  const auto is_of_row = [&](const std::string& text) {
    return text.rfind(error.where() + ": ", 0) == 0 || text.rfind(picture + ": ", 0) == 0;
  };
  const bool is_known =
      std::any_of(diagnosis->findings.begin(), diagnosis->findings.end(), [&](const Finding& finding) {
        return finding.level == Level::kFails &&
               (tells(finding.what) || std::any_of(finding.examples.begin(), finding.examples.end(),
                                                   [&](const Example& example) { return is_of_row(example.text); }));
      });
  if (!is_known) {
    diagnosis->findings.push_back({Level::kFails, error.kind() == ErrorKind::kMemory ? "too_large" : "run_refused",
                                   (error.where().empty() ? "" : error.where() + ": ") + error.problem(),
                                   error.what_to_do(), 1});
  }
  if (diagnosis->exit_code == 0) diagnosis->exit_code = exit_code(error.kind());
}

// Plans the run: adds the error with which it would refuse, or its memory and time.
void plan_run(const Settings& settings, const MeanSample& sample, const DoctorOptions& options, Diagnosis* diagnosis) {
  std::unique_ptr<RecordedRun> run;
  try {
    run = record_run(settings, planned_place(settings.distributed, settings.origin), media_engine_builtin(),
                     std::nullopt, NewTokens::kStayInMemory, NewLengths::kAreLimits);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kSettings) throw;
    return add_error(error, diagnosis);
  }
  std::optional<Error> too_large;
  diagnosis->time = time_figures(*run, sample, options.profile, options.profile_path, &too_large);
  if (too_large) add_error(*too_large, diagnosis);
}

}  // namespace

Diagnosis diagnose(const Settings& settings, const DoctorOptions& options) {
  Diagnosis diagnosis;
  diagnosis.settings_file = settings.origin.file;
  if (settings.draw.is_given) {
    diagnose_prompts(settings, options, &diagnosis);
  } else {
    if (options.profile != nullptr)
      (void)limits_of_profile(*options.profile, settings.model.precision == Precision::kBf16, options.profile_path);
    const MeanSample sample = read_data(settings, options.most_examples, &diagnosis);
    const bool fails = std::any_of(diagnosis.findings.begin(), diagnosis.findings.end(),
                                   [](const Finding& finding) { return finding.level == Level::kFails; });
    if (fails) diagnosis.exit_code = exit_code(ErrorKind::kData);
    plan_run(settings, sample, options, &diagnosis);
  }
  std::stable_sort(diagnosis.findings.begin(), diagnosis.findings.end(),
                   [](const Finding& a, const Finding& b) { return a.level < b.level; });
  return diagnosis;
}

}  // namespace bascule
