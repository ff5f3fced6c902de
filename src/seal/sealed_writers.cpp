// SPDX-License-Identifier: Apache-2.0
#include "src/seal/sealed_writers.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <optional>
#include <utility>

#include "src/base/paths.h"
#include "src/files/input_file.h"
#include "src/generate/generation_config.h"
#include "src/index/data_files.h"
#include "src/index/glob.h"
#include "src/json/json.h"
#include "src/pictures/preprocessor.h"
#include "src/record/resume_check.h"
#include "src/replay/loop.h"
#include "src/session/parameter_values.h"
#include "src/text/tokenizer_kinds.h"

namespace bascule {
namespace {

// The digests of what is read from the model folder, the weights' among them: where the start has not read it yet,
// it is taken here.
std::vector<NamedText> model_files(const RecordedRun& run, const SealedWeights& weights) {
  std::vector<NamedText> files = run.resume.model_files;
  if (!run.settings.model.from_scratch && find_value(files, kModelWeights) == nullptr)
    files.push_back({kModelWeights, weights_digest(weights.source())});
  return files;
}

void add_files(ModelFiles* files, const HfFolderPlan* plan, const std::string& folder) {
  if (plan == nullptr) return;
  for (const PlannedFile& file : plan->files())
    files->finished.push_back({file.bytes, file_bytes_at(folder + "/" + file.name)});
}

}  // namespace

ModelFiles files_to_hold(const CheckpointWriter* checkpoints, const HfFolderPlan* final_model,
                         const HfFolderPlan* averaged, const std::string& output_dir) {
  ModelFiles files;
  if (checkpoints != nullptr) files.checkpoint_bytes = checkpoints->checkpoint_bytes();
  add_files(&files, final_model, output_dir);
  add_files(&files, averaged, output_dir + "/" + kAveragedFolder);
  return files;
}

SealedWriters::SealedWriters(const RecordedRun& run, const SealedWeights& weights, const SealedEvaluation& evaluation,
                             Group& group) {
  const bool trains = run.graphs.trains();
  if (trains && run.session.training().optimizer_states().are_shared_out && group.is_leader())
    state_exchange_ = std::make_unique<StateExchange>(group, run.session.training().optimizer_states());
  if (trains && group.is_first()) {
    const float* const trained = run.session.parameter_memory().trained;
    final_model_ = std::make_unique<HfFolderPlan>(model_folder(run, weights, trained));
    if (const float* const averages = averages_of(run))
      averaged_ = std::make_unique<HfFolderPlan>(model_folder(run, weights, averages));
    checkpoints_ = std::make_unique<CheckpointWriter>(contents(run, weights, evaluation.judges_average()));
  }
  const std::string& output_dir = run.settings.run.output_dir.resolved;
  if (group.is_first()) {
    ModelFiles files = files_to_hold(checkpoints_.get(), final_model_.get(), averaged_.get(), output_dir);
    check_disk_space(output_dir, disk_demand(run, std::move(files)));
  }
  if (trains && run.settings.training.load_best_model_at_end && group.is_leader()) make_best_reader(run, weights);
}

CheckpointContents SealedWriters::contents(const RecordedRun& run, const SealedWeights& weights, bool judges_average) {
  const Settings& settings = run.settings;
  CheckpointContents contents;
  contents.output_dir = settings.run.output_dir.resolved;
  contents.save_total_limit = settings.training.save_total_limit;
  contents.keeps_later = settings.run.resume == Resume::kOlder;
  contents.model = model_folder(run, weights, run.session.parameter_memory().trained);
  contents.optimizer = optimizer_to_write(run);
  if (run.resume.point) contents.resumed_from = run.resume.point->resumed_from;
  contents.settings_digest = settings_digest(settings);
  contents.settings = number_keys(settings);
  contents.other_settings = other_keys(settings);
  contents.history = run.resume.history;
  const std::vector<NamedText> files = model_files(run, weights);
  contents.data = data_digests(run.data);
  contents.data.insert(contents.data.end(), files.begin(), files.end());
  const RecordedSplit& train = *run.data.find(Split::kTrain);
  const Manifest& rows = *train.manifest;
  // The samples of a corpus are no rows that anybody mends: it is the same text or another.
  if (!train.corpus) contents.rows = {rows.rows(), row_blocks(rows), rows.taken_out(), {}};
  contents.max_bad_rows = static_cast<std::int64_t>(kMostBadRowsKept);
  contents.text_files = {kStepRecords, kEvaluationRecords, kPictureDigestsFile};
  if (judges_average) contents.text_files.push_back(kAveragedRecords);
  return contents;
}

std::vector<TensorToWrite> SealedWriters::optimizer_to_write(const RecordedRun& run) {
  const ParameterMemory memory = run.session.parameter_memory();
  std::vector<TensorToWrite> all =
      states_to_write(run.session.training().optimizer_states(), memory, state_exchange_.get(), &parts_);
  if (const float* const averages = averages_of(run)) {
    for (TensorToWrite& tensor : tensors_to_write(*memory.set, *memory.layout, averages, nullptr, ema_name("")))
      all.push_back(std::move(tensor));
  }
  return all;
}

void SealedWriters::make_best_reader(const RecordedRun& run, const SealedWeights& weights) {
  const Span<float> trained(run.session.parameter_memory().trained,
                            static_cast<std::size_t>(run.session.layout().trained_elements));
  std::optional<HfFolderPlan> files;
  if (!final_model_) files.emplace(model_folder(run, weights, trained.data()));
  best_weights_ = std::make_unique<WeightsReader>(final_model_ ? *final_model_ : *files, trained);
}

namespace {

constexpr std::size_t kMostNamed = 20;

// A model that learnt from words with a space before each finds them at the beginning of a text too, if the tokenizer
// puts a space there. Transformers takes words from no other tokenizer, and run_ner.py saves such a one. Where no file
// beside the tokenizer says by which class it is read, the model's config.json would name another one.
void add_tokenizer(HfFolderContents* contents, const RecordedRun& run) {
  constexpr char kConfig[] = "tokenizer_config.json";
  if (!run.opened.tokenizer) return;
  contents->tokenizer_folder = run.settings.model.tokenizer_name.resolved;
  const bool puts_space = run.opened.inputs.reads_words && run.opened.tokenizer->spaces_words_alone();
  if (!puts_space && !stands_without_class(contents->tokenizer_folder)) return;
  const std::string path = contents->tokenizer_folder + "/" + kConfig;
  Json config = std::filesystem::exists(path) ? read_json_file(path) : Json::object();
  if (puts_space) {
    config["add_prefix_space"] = true;
  } else {
    config["tokenizer_class"] = "PreTrainedTokenizerFast";
    // By this class Transformers 5 types the second text of a pair only where the names of inputs say so.
    if (run.opened.tokenizer->second_type() == 1 && !config.contains("model_input_names"))
      config["model_input_names"] = {"input_ids", "token_type_ids", "attention_mask"};
  }
  contents->texts.push_back({kConfig, json_text(config, 2) + "\n"});
}

// The rules by which pictures are made ready, where the model reads any.
void add_preprocessor(HfFolderContents* contents, const RecordedRun& run) {
  const std::int64_t side = run.opened.inputs.image_side;
  if (side <= 0) return;
  const std::string& folder = run.settings.model.model_name_or_path.resolved;
  const std::string processor = run.opened.family->image_processor;
  const PictureFit fit = run.opened.family->processor_fit;
  if (processor_file_of(folder).empty()) {
    contents->texts.push_back({"preprocessor_config.json", default_processor_text(side, processor)});
  } else if (run.opened.family->resizes_pictures && !makes_squares(folder, side, processor, fit)) {
    contents->texts.push_back({"preprocessor_config.json", square_processor_text(folder, side, processor, fit)});
  } else {
    contents->preprocessor_folder = folder;
  }
}

template <std::size_t N>
bool is_one_of(const std::string& name, const char* const (&names)[N]) {
  return std::any_of(std::begin(names), std::end(names), [&](const char* one) { return matches_glob(one, name); });
}

// Whether a name in a model's folder is of what a finished folder has or replaces: a model's files, or those of a run.
bool is_known(const std::string& name) {
  constexpr const char* kOtherNames[] = {"model-*-of-*.safetensors", "pytorch_model*.bin",
                                         "pytorch_model.bin.index.json", "checkpoint-*"};
  return is_one_of(name, kTokenizerFiles) || is_one_of(name, kPreprocessorFiles) || is_one_of(name, kGenerationFiles) ||
         is_one_of(name, kModelAndStateFiles) || is_one_of(name, kResultFiles) || is_one_of(name, kRunFolders) ||
         is_one_of(name, kOtherNames);
}

// How texts are written: as the run wrote them.
void add_generation(HfFolderContents* contents, const RecordedRun& run) {
  const Settings& settings = run.settings;
  const Json options = generation_config_to_write(settings.model.model_name_or_path.resolved,
                                                  run.graphs.texts ? &run.graphs.texts->options : nullptr,
                                                  settings.generation.length(settings.data));
  contents->texts.push_back({kGenerationFiles[0], json_text(options, 2) + "\n"});
}

}  // namespace

HfFolderContents files_beside_weights(const RecordedRun& run) {
  const OpenedModel& opened = run.opened;
  HfFolderContents contents;
  Json config = config_to_write(read_json_file(opened.config_path), opened.model->architecture());
  opened.model->complete_config(&config);
  contents.config_json = json_text(config, 2) + "\n";
  if (serves(*opened.model, Use::kDecode)) add_generation(&contents, run);
  add_tokenizer(&contents, run);
  add_preprocessor(&contents, run);
  if (opened.sentence) {
    for (NamedText& file : sentence_files(*opened.sentence, opened.model->embedding_width()))
      contents.texts.push_back(std::move(file));
  }
  if (const ModelCode code = opened.model->code(); code.file != nullptr)
    contents.texts.push_back({code.file, code.text});
  return contents;
}

HfFolderContents model_folder(const RecordedRun& run, const SealedWeights& weights, const float* trained) {
  HfFolderContents contents = files_beside_weights(run);
  const ParameterMemory memory = run.session.parameter_memory();
  contents.tensors = tensors_to_write(*memory.set, *memory.layout, trained, memory.fixed, "");
  for (TensorToWrite& tensor : weights.unused_to_write()) contents.tensors.push_back(std::move(tensor));
  return contents;
}

std::string files_left_behind(const RecordedRun& run) {
  const char* const code = run.opened.model->code().file;
  std::vector<std::string> names;
  const std::string& folder = run.settings.model.model_name_or_path.resolved;
  for (const std::string& name : names_in(folder)) {
    const bool is_of_sentence =
        run.opened.sentence &&
        (is_one_of(name, kSentenceFiles) || is_one_of(name, kSentenceFolders) || name == run.settings.words.body);
    if (name.front() == '.' || is_known(name) || is_of_sentence || (code != nullptr && name == code)) continue;
    names.push_back(shown_path(name) + (is_folder(folder + "/" + name) ? "/" : ""));
  }
  return shown_list(names, kMostNamed);
}

}  // namespace bascule
