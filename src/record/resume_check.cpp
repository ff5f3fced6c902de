// SPDX-License-Identifier: Apache-2.0
#include "src/record/resume_check.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "src/base/error.h"
#include "src/base/paths.h"
#include "src/checkpoint/hf_folder.h"
#include "src/index/row_digests.h"
#include "src/json/json.h"
#include "src/pictures/preprocessor.h"
#include "src/record/training_position.h"

namespace bascule {
namespace {

constexpr char kModelFolder[] = "model.folder";
constexpr char kModelPreprocessor[] = "model.preprocessor";
constexpr char kModelKey[] = "model.model_name_or_path";
constexpr char kTrainFile[] = "data.train_file";
constexpr std::int64_t kBlockElements = std::int64_t{1} << 20;

std::string hex(std::uint64_t value) { return std::string(DigestText(value).text()); }

std::string preprocessor_digest(const std::string& folder) {
  const std::string path = processor_file_of(folder);
  return path.empty() ? "none" : hex(json_digest(read_json_file(path)));
}

// problem: "config.json differs". Throws.
[[noreturn]] void refuse(const SettingsOrigin& origin, const ResumeState& resume, const std::string& key,
                         const std::string& problem) {
  const ResumePoint& point = *resume.point;
  for (const SettingChange& change : resume.changes) {
    if (change.key != key) continue;
    throw Error(ErrorKind::kSettings, where_written(origin, key),
                key + " is " + change.to + ", but " + shown_path(point.folder) + " was trained with " + change.from +
                    ": " + problem,
                "set it back, or choose another output_dir");
  }
  throw Error(ErrorKind::kData, where_written(origin, key),
              key + " differs from what " + shown_path(point.folder) + " was trained with: " + problem,
              "restore it, or choose another output_dir");
}

std::string digests_text(const std::string& now, const std::string& then) {
  return " (digest " + now + ", was " + then + ")";
}

struct ModelFile {
  const char* name;
  const char* what;
  const char* key;
};
constexpr ModelFile kModelFiles[] = {{"model.config", "config.json", kModelKey},
                                     {kModelPreprocessor, "preprocessor_config.json", kModelKey},
                                     {"model.tokenizer", "the tokenizer", "model.tokenizer_name"},
                                     {kModelWeights, "the content of the weights", kModelKey}};

// config.json, tokenizer and preprocessor of the model folder, and where it is.
std::vector<NamedText> model_digests(const ModelSettings& model, const OpenedModel& opened) {
  std::vector<NamedText> values = {{kModelFolder, model.model_name_or_path.resolved},
                                   {"model.config", hex(json_digest(read_json_file(opened.config_path)))},
                                   {kModelPreprocessor, preprocessor_digest(model.model_name_or_path.resolved)}};
  if (opened.tokenizer) values.push_back({"model.tokenizer", hex(opened.tokenizer->digest())});
  return values;
}

// The one that counts of the two files that an image processor may have.
std::string name_of(const ModelFile& file, const ModelSettings& model) {
  const std::string path = processor_file_of(model.model_name_or_path.resolved);
  const bool is_processor = file.name == std::string_view(kModelPreprocessor) && !path.empty();
  return is_processor ? std::filesystem::path(path).filename().string() : file.what;
}

// Adds mended and removed rows to the history.
void note_mended(const std::vector<MendedRow>& mended, bool has_pictures, ResumeState* resume) {
  constexpr std::size_t kMostNamed = 20;
  for (std::size_t i = 0; i < std::min(mended.size(), kMostNamed); ++i) {
    const MendedRow& one = mended[i];
    const std::string then = !has_pictures         ? "an empty source or target"
                             : one.bytes_then == 0 ? "a missing or empty picture"
                                                   : "a bad picture of " + std::to_string(one.bytes_then) + " bytes";
    resume->changes.push_back({std::string(kTrainFile) + ", row " + std::to_string(one.row + 1), then,
                               one.taken_out                     ? "taken out"
                               : one.bytes_now != one.bytes_then ? std::to_string(one.bytes_now) + " bytes"
                                                                 : "another row",
                               KeyEffect::kSameRows});
  }
  if (mended.size() > kMostNamed) {
    resume->changes.push_back(
        {std::string(kTrainFile) + ", " + std::to_string(mended.size() - kMostNamed) + " further rows", "bad samples",
         "mended or taken out", KeyEffect::kSameRows});
  }
}

// The digest differs: whether the rows are the same all the same.
void check_rows(const SettingsOrigin& origin, const RunData& data, ResumeState* resume, const std::string& now,
                const std::string& then) {
  const RowsState& state = resume->point->rows;
  const char* const other =
      data.find(Split::kTrain)->corpus ? "its text differs" : "its rows or the sizes of its pictures differ";
  if (state.count == 0 || data.find(Split::kTrain)->corpus)
    refuse(origin, *resume, kTrainFile, other + digests_text(now, then));
  RowsOfCheckpoint rows{state.count, state.blocks, state.taken_out, {}};
  for (std::size_t i = 0; i < state.bad.size(); i += 3)
    rows.bad.push_back({state.bad[i], state.bad[i + 1], state.bad[i + 2]});
  Manifest& manifest = *data.find(Split::kTrain)->manifest;
  const RowsComparison compared = compare_rows(manifest, rows);
  if (!compared.problem.empty()) refuse(origin, *resume, kTrainFile, compared.problem);
  note_mended(compared.mended, manifest.has_pictures(), resume);
  manifest.take_out(compared.taken_out);
}

// Those that take no part in training pass from the model folder into every checkpoint.
void check_unused_weights(const std::string& model_folder, const SettingsOrigin& origin, const Model& model,
                          const ResumeState& resume) {
  if (std::filesystem::path(resume.point->folder).filename() == kLastStateFolder) return;  // which has none
  const TensorSource now = open_hf_weights(model_folder);
  const TensorSource then = open_hf_weights(resume.point->folder);
  std::vector<float> block, other;
  for (const ParameterPiece& piece : model.unused_tensors()) {
    const StoredTensor* const stored = find_tensor(now, piece.name, model.file_names());
    const StoredTensor* const saved = find_tensor(then, piece.name, model.file_names());
    if (stored == nullptr || saved == nullptr) continue;
    bool differs = stored->shape != saved->shape;
    const std::int64_t count = element_count(stored->shape);
    for (std::int64_t first = 0; first < count && !differs; first += kBlockElements) {
      const std::int64_t part = std::min(count - first, kBlockElements);
      block.resize(static_cast<std::size_t>(part));
      other.resize(static_cast<std::size_t>(part));
      now.read_float32(block.data(), *stored, first, part);
      then.read_float32(other.data(), *saved, first, part);
      differs = std::memcmp(block.data(), other.data(), block.size() * sizeof(float)) != 0;
    }
    if (differs) refuse(origin, resume, kModelKey, piece.name + " differs");
  }
}

}  // namespace

void add_values(const TensorSource& source, const StoredTensor& tensor, Digest* digest) {
  const std::int64_t count = element_count(tensor.shape);
  std::vector<float> block(static_cast<std::size_t>(std::min(count, kBlockElements)));
  for (std::int64_t first = 0; first < count; first += kBlockElements) {
    const std::int64_t part = std::min(count - first, kBlockElements);
    source.read_float32(block.data(), tensor, first, part);
    digest->add(block.data(), static_cast<std::size_t>(part) * sizeof(float));
  }
}

std::string weights_digest(const TensorSource& source) {
  Digest digest;
  for (const StoredTensor& tensor : source.tensors()) {
    const std::string head = tensor.name + shape_text(tensor.shape);
    digest.add(head.data(), head.size());
    add_values(source, tensor, &digest);
  }
  return hex(digest.value());
}

std::vector<NamedText> data_digests(const RunData& data) {
  std::vector<NamedText> values;
  for (const RecordedSplit& split : data.splits)
    values.push_back({std::string("data.") + split_name(split.split) + "_file", hex(split.manifest->data_digest())});
  return values;
}

void check_model_files(const ModelSettings& model, const SettingsOrigin& origin, const OpenedModel& opened,
                       ResumeState* resume) {
  resume->model_files = model_digests(model, opened);
  if (!resume->point) return;
  const std::vector<NamedText>& then = resume->point->data;
  const std::string* const folder = find_value(then, kModelFolder);
  const bool has_moved = folder == nullptr || *folder != model.model_name_or_path.resolved;
  if (const std::string* const weights = find_value(then, kModelWeights); weights != nullptr) {
    resume->model_files.push_back(
        {kModelWeights, has_moved ? weights_digest(open_hf_weights(opened.model_folder)) : *weights});
  }
  for (const ModelFile& file : kModelFiles) {
    const std::string* const now = find_value(resume->model_files, file.name);
    const std::string* const was = find_value(then, file.name);
    if (now != nullptr && was != nullptr && *now != *was)
      refuse(origin, *resume, file.key, name_of(file, model) + " differs" + digests_text(*now, *was));
  }
  if (!model.from_scratch) check_unused_weights(opened.model_folder, origin, *opened.model, *resume);
  if (folder != nullptr) return;
  for (const SettingChange& change : resume->changes) {
    if (change.effect == KeyEffect::kSameFiles)
      refuse(origin, *resume, change.key, "an older version wrote it, without digests of the files");
  }
}

void check_data(const SettingsOrigin& origin, const RunData& data, ResumeState* resume) {
  if (!resume->point) return;
  for (const NamedText& now : data_digests(data)) {
    const std::string* const then = find_value(resume->point->data, now.name);
    if (then == nullptr) continue;  // a split that was not read before is no conflict
    if (*then != now.value && now.name == kTrainFile) {
      check_rows(origin, data, resume, now.value, *then);
    } else if (*then != now.value) {
      resume->changes.push_back({now.name + " (content)", *then, now.value, KeyEffect::kFromThereOn});
    } else if (now.name == kTrainFile) {
      data.find(Split::kTrain)->manifest->take_out(resume->point->rows.taken_out);
    }
  }
}

namespace {

constexpr char kMaxSteps[] = "training.max_steps";
constexpr char kEpochs[] = "training.num_train_epochs";
constexpr char kScheduleSteps[] = "training.lr_schedule_steps";

// A number in canonical text.
double number_of(const std::string& text) {
  double number = 0.0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

[[noreturn]] void refuse(const ResumePoint& point, const Settings& now, const std::string& key, const std::string& from,
                         const std::string& to, KeyEffect effect) {
  throw Error(ErrorKind::kSettings, where_written(now, key),
              key + " is " + to + ", but " + shown_path(point.folder) + " was trained with " + from + " (" +
                  resume_meaning(effect) + ")",
              "set " + key + " = " + from + ", or choose another output_dir");
}

// The length of a run and of its schedule in updates, as the settings of the checkpoint have it.
struct Lengths {
  std::int64_t total = 0;
  std::int64_t schedule = 0;
};

Lengths lengths_then(const ResumePoint& point, const TrainingLength& length) {
  const auto number = [&](const char* key) {
    const std::string* const value = find_value(point.settings, key);
    return value != nullptr ? number_of(*value) : 0.0;
  };
  Lengths lengths;
  const double steps = number(kMaxSteps), schedule = number(kScheduleSteps);
  lengths.total = steps > 0.0 ? static_cast<std::int64_t>(steps) : updates_of_epochs(length, number(kEpochs));
  lengths.schedule = schedule > 0.0 ? static_cast<std::int64_t>(schedule) : lengths.total;
  return lengths;
}

// Beside its warm-up.
bool depends_on_length(Scheduler kind) {
  return kind != Scheduler::kConstantWithWarmup && kind != Scheduler::kInverseSqrt;
}

// How the rates from here on differ from those of the checkpoint's run; "" where they do not.
std::string schedule_text(const TrainingSettings& training, const Schedule& schedule, const Lengths& then,
                          std::int64_t step) {
  if (schedule.kind == Scheduler::kConstant) return "";
  if (schedule.total_steps == then.schedule) {
    return "the schedule keeps its " + count_of(schedule.total_steps, "update") + "; afterwards the rate is " +
           readable_number(schedule.at(schedule.total_steps)).c_str();
  }
  std::string text;
  if (depends_on_length(schedule.kind)) {
    text = "the schedule is stretched from update " + std::to_string(then.schedule) + " to " +
           std::to_string(schedule.total_steps);
  }
  const std::int64_t warm_then = warmup_steps_of(training, then.schedule), warm = schedule.warmup_steps;
  if (warm == warm_then || warm <= step) return text;
  return text + (text.empty() ? "" : "; ") + "the warm-up takes " + count_of(warm, "update") + " instead of " +
         std::to_string(warm_then) + ", so the rate " + (step < warm_then ? "rises" : "rises again") +
         " until update " + std::to_string(warm);
}

}  // namespace

std::string value_then(const ResumePoint& point, const std::string& key) {
  const std::string* const value = find_value(point.settings, key);
  return value != nullptr ? *value : "not set";
}

std::string value_now(const Settings& settings, const std::string& key) {
  const KeyValues keys = number_keys(settings);
  const std::string* const value = find_value(keys, key);
  return value != nullptr ? *value : "not set";
}

std::vector<SettingChange> changes_since(const ResumePoint& point, const Settings& now) {
  return setting_changes(point.settings, point.other_settings, now);
}

void check_settings(const ResumePoint& point, const Settings& now, std::int64_t not_finite_at) {
  for (const SettingChange& change : changes_since(point, now)) {
    if (change.effect == KeyEffect::kNumbers) refuse(point, now, change.key, change.from, change.to, change.effect);
    if (change.effect != KeyEffect::kLower) continue;
    const bool is_lower = number_of(change.to) < number_of(change.from);
    if (is_lower && not_finite_at > point.global_step) continue;
    refuse(point, now, change.key, change.from, change.to, change.effect);
  }
}

void check_length(const Settings& settings, const Pace& pace, ResumeState* resume) {
  const ResumePoint& point = *resume->point;
  const Lengths then = lengths_then(point, pace.length);
  const std::int64_t total = pace.length.total_updates, schedule = pace.schedule.total_steps;
  // A run that was asked to end goes on with any other length beyond its end; with the planned one it stays ended.
  const std::int64_t ended = ended_at(point, settings.run.output_dir.resolved);
  const std::int64_t least = ended > 0 ? ended : then.total;
  if (total < least) {
    const char* const key = settings.training.max_steps > 0 ? kMaxSteps : kEpochs;
    const std::string other = value_then(point, kMaxSteps) != "0" ? kMaxSteps : kEpochs;
    refuse(point, settings, key,
           (other != key ? other + " = " : std::string()) + value_then(point, other) + " (" +
               count_of(then.total, "update") + ")",
           value_now(settings, key) + " (" + count_of(total, "update") + ")", KeyEffect::kLonger);
  }
  if (schedule < then.schedule) {
    refuse(point, settings, kScheduleSteps,
           value_then(point, kScheduleSteps) + " (" + count_of(then.schedule, "update") + ")",
           value_now(settings, kScheduleSteps) + " (" + count_of(schedule, "update") + ")", KeyEffect::kLonger);
  }
  resume->is_longer = total > least && total != then.total;
  if (total == then.total && schedule == then.schedule) return;
  const std::string of_schedule = schedule_text(settings.training, pace.schedule, then, point.global_step);
  if (resume->is_longer) {
    resume->notes.push_back("resume: " + count_of(total, "update") + " instead of " + std::to_string(least) +
                            (of_schedule.empty() ? "" : ": " + of_schedule));
  } else if (!of_schedule.empty()) {
    resume->notes.push_back("resume: " + of_schedule);
  }
}

std::int64_t ended_at(const ResumePoint& point, const std::string& output_dir) {
  const bool is_own = std::filesystem::path(point.folder).parent_path() == output_dir;
  return is_own ? read_position(point).ended_at : 0;
}

std::vector<HistoryEntry> history_of(const ResumeState& resume) {
  if (!resume.point) return {};
  std::vector<HistoryEntry> history = resume.point->history;
  const std::string time = utc_now("%Y-%m-%dT%H:%M:%SZ").c_str();
  for (const SettingChange& change : resume.changes)
    history.push_back({resume.point->global_step, change.key, change.from, change.to, time});
  return history;
}

}  // namespace bascule
