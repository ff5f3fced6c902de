// SPDX-License-Identifier: Apache-2.0
#include "src/record/run_inputs.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <set>
#include <string_view>
#include <system_error>

#include "firmware_shims/media_engine.h"
#include "src/base/error.h"
#include "src/base/paths.h"
#include "src/checkpoint/checkpoint.h"
#include "src/checkpoint/hf_folder.h"
#include "src/index/data_files.h"
#include "src/loader/loader_parts.h"
#include "src/record/plan_data.h"
#include "src/settings/resume_rules.h"

namespace bascule {
namespace {

namespace fs = std::filesystem;

void add_model(const RecordedRun& run, InputList* inputs) {
  const ModelSettings& model = run.settings.model;
  const auto& [folder, resolved] = model.model_name_or_path;
  const std::string& below = run.settings.words.body;
  const std::string body = below.empty() ? folder : folder + "/" + below;
  inputs->add(body, "config.json");
  if (run.opened.sentence) {
    for (const std::string& file : run.opened.sentence->files) inputs->add_path(folder + "/" + file);
  }
  inputs->add_found(folder, resolved, kPreprocessorFiles);
  if (serves(*run.opened.model, Use::kDecode)) inputs->add_found(folder, resolved, kGenerationFiles);
  if (!model.from_scratch) {
    for (std::string& file : hf_weight_files(run.opened.model_folder)) inputs->add(body, std::move(file));
  }
  if (run.opened.tokenizer == nullptr) return;
  const PathSetting& tokenizer = model.tokenizer_name;
  inputs->add_found(tokenizer.is_given() ? tokenizer.written : body, tokenizer.resolved, kTokenizerFiles);
}

// As its manifest names it. Paths of pictures are kept relative to a folder that all manifests are in.
std::string name_of_picture(std::string_view path, const std::string& prefix) {
  if (prefix.empty() || path.front() == '/') return std::string(path);
  return fs::path(path).lexically_relative(prefix.substr(0, prefix.size() - 1)).string();
}

// A picture may be in several manifests, each of which names it from its own folder. One that is missing is not read.
void add_pictures(const Manifest& manifest, InputList* inputs) {
  const DataFiles& files = manifest.files();
  std::vector<std::size_t> last_file(static_cast<std::size_t>(manifest.pictures()),
                                     std::numeric_limits<std::size_t>::max());
  for (std::int64_t row = 0; row < manifest.rows(); ++row) {
    if (manifest.is_missing(row)) continue;
    const std::int64_t picture = manifest.image_id(row);
    const std::size_t number = manifest.file_number(row);
    std::size_t& last = last_file[static_cast<std::size_t>(picture)];
    if (last == number) continue;
    last = number;
    const DataFile& file = files.manifests[number];
    const std::string& written = files.written[number];
    inputs->add(file.is_class_folder ? written : fs::path(written).parent_path().string(),
                name_of_picture(manifest.image_path(picture), file.prefix));
  }
}

void add_data(const Manifest& manifest, InputList* inputs) {
  const DataFiles& files = manifest.files();
  for (std::size_t i = 0; i < files.written.size(); ++i) {
    if (files.shards.empty() && files.manifests[i].is_class_folder) continue;
    inputs->add_path(files.written[i]);
  }
  if (files.shards.empty() && manifest.has_pictures()) add_pictures(manifest, inputs);
}

void add_checkpoint(const PathSetting& checkpoint, InputList* inputs) {
  std::error_code failed;
  for (const std::string& name : names_in(checkpoint.resolved, &failed)) {
    if (is_file(checkpoint.resolved + "/" + name)) inputs->add(checkpoint.written, name);
  }
  if (failed) throw Error(ErrorKind::kData, checkpoint.resolved, failed.message());
}

}  // namespace

std::vector<InputFolder> run_inputs(const RecordedRun& run) {
  InputList inputs;
  add_model(run, &inputs);
  for (const RecordedSplit& split : run.data.splits) add_data(*split.manifest, &inputs);
  // Held-out rows are found by all pictures, also of rows that the run does not use.
  const DataSettings& data = run.settings.data;
  if (data.validation_share > 0.0 && !data.train_file.is_corpus()) add_data(whole_training_file(run), &inputs);
  const PathSetting& checkpoint = run.settings.run.resume_checkpoint;
  if (checkpoint.is_given()) add_checkpoint(checkpoint, &inputs);
  for (const PathSetting* path : {&run.settings.distributed.hostfile, &run.settings.serve.api_key_file}) {
    if (path->is_given()) inputs.add_path(path->written);
  }
  return inputs.sorted();
}

ParameterCount count_parameters(const ParameterSet& parameters) {
  ParameterCount count;
  std::set<std::string> counted;  // first pieces: a copy in bf16 (element_types.h) has that of another parameter
  for (int p = 0; p < parameters.size(); ++p) {
    const Parameter& parameter = parameters[p];
    if (!parameter.pieces.empty() && !counted.insert(parameter.pieces.front().name).second) continue;
    count.all += parameter.elements();
    count.trained += parameter.trained ? parameter.elements() : 0;
  }
  return count;
}

std::string parameters_text(const ParameterSet& parameters) {
  const ParameterCount count = count_parameters(parameters);
  return std::string(readable_count(count.all).c_str()) + " parameters, " + readable_count(count.trained).c_str() +
         " trained";
}

std::vector<NamedText> provenance_of(const RecordedRun& run, Isa isa) {
  std::vector<NamedText> facts = {
      {"bascule", BASCULE_VERSION},
      {"compiler", __VERSION__},
      {"matrix products", run.settings.machine.products == Products::kOurs ? "ours" : onednn_version()},
      {"isa", isa_name(isa)},
      {"threads", std::to_string(run.threads)},
      {"media engine", media_engine_query(media_engine_builtin()).name},
      {"ranks", std::to_string(run.place.world_size)},
      {"seed", std::to_string(run.settings.run.seed)},
      {"settings digest", settings_digest(run.settings)}};
  for (const RecordedSplit& split : run.data.splits) {
    facts.push_back({std::string(split_name(split.split)) + " data digest",
                     std::string(DigestText(split.manifest->data_digest()).text())});
  }
  return facts;
}

namespace {

struct Reader {
  bool is_there;
  const char* otherwise;
  std::vector<std::string_view> keys;
};

}  // namespace

std::string unread_settings(const Settings& settings, const OpenedModel& opened, const LoaderSettings& loader) {
  const bool pictures = reads_pictures(loader), text = reads_text(loader), targets = reads_text(loader, 1),
             rows = reads_rows(settings.data, settings.training);
  const bool masks = field_from(opened.fields, FieldSource::kMaskedRows, 0) >= 0 ||
                     field_from(opened.fields, FieldSource::kMaskedRows, 1) >= 0;
  const bool exchanges =
      field_from(opened.fields, FieldSource::kMatchLabels) >= 0 && settings.data.label_column.empty();
  const Reader readers[] = {
      {pictures,
       "the model reads no pictures",
       {"data.image_column", "data.preprocessing", "data.random_resized_crop_scale", "data.random_resized_crop_ratio",
        "data.interpolation", "data.eval_crop_ratio"}},
      {text,
       "the model reads no text",
       {"model.tokenizer_name", "data.caption_column", "data.text_column", "data.text_pair_column",
        "data.max_seq_length", "data.masking", "data.mlm_probability", "data.max_predictions_per_seq"}},
      {settings.head() != nullptr && settings.head()->embeds_texts,
       "the model makes no vectors of texts",
       {"model.pooling", "model.normalize", "training.loss", "training.similarity_scale"}},
      {targets,
       "the model writes no text",
       {"data.source_prefix", "data.max_source_length", "data.max_target_length", "data.val_max_target_length",
        "data.ignore_pad_token_for_loss", "data.pad_to_max_length"}},
      {!targets, "the model reads sources and targets", {"data.caption_column", "data.max_seq_length"}},
      {!targets || loader.pads_targets, "padding is ignored", {"data.pad_to_max_length"}},
      {settings.training.predict_with_generate,
       "no text is generated",
       {"generation.num_beams", "generation.max_length", "generation.max_new_tokens", "generation.min_length",
        "generation.min_new_tokens", "generation.length_penalty", "generation.early_stopping",
        "generation.no_repeat_ngram_size"}},
      {!settings.training.predict_with_generate || settings.generation.num_beams > 1,
       "search is greedy",
       {"generation.length_penalty", "generation.early_stopping"}},
      {settings.training.do_eval || settings.training.do_predict,
       "nothing is evaluated",
       {"training.predict_with_generate", "training.generate_ema"}},
      {settings.training.do_eval, "nothing is evaluated", {"data.max_eval_samples"}},
      {settings.training.do_predict, "nothing is predicted", {"data.max_predict_samples"}},
      {!targets || settings.training.do_eval || settings.training.do_predict,
       "nothing is evaluated",
       {"data.val_max_target_length"}},
      {!text || rows,
       judges_retrieval_files(settings.data, settings.training) ? "documents and queries are no rows"
                                                                : "a text corpus has no columns",
       {"data.caption_column", "data.text_column", "data.text_pair_column", "data.label_column"}},
      {!text || masks,
       "no tokens are masked",
       {"data.masking", "data.mlm_probability", "data.max_predictions_per_seq"}},
      {exchanges, "no captions are exchanged", {"data.negative_fraction"}},
      {settings.report.tracking != Tracking::kNone, "report.tracking = \"none\"", {"report.tracking_dir"}},
  };
  const std::vector<KeyRule> now = resume_rules(settings), defaults = resume_rules(default_settings(settings.words));
  const bool has_own_tokenizer = settings.model.tokenizer_name.is_given();
  std::string line;
  for (const Reader& reader : readers) {
    if (reader.is_there) continue;
    std::string keys;
    for (std::size_t i = 0; i < now.size() && i < defaults.size(); ++i) {
      if (std::find(reader.keys.begin(), reader.keys.end(), now[i].key) == reader.keys.end()) continue;
      const bool is_set = now[i].key == "model.tokenizer_name" ? has_own_tokenizer : now[i].value != defaults[i].value;
      if (is_set) keys += (keys.empty() ? "" : ", ") + now[i].key;
    }
    if (!keys.empty()) line += (line.empty() ? "" : "; ") + keys + " (" + reader.otherwise + ")";
  }
  return line.empty() ? line : "settings: ignored: " + line;
}

namespace {

void check_folder(const Settings& settings, const PathSetting& folder, const std::string& name) {
  const DataSettings& data = settings.data;
  const TrainingSettings& training = settings.training;
  const auto check = [&](bool is_read, const PathsSetting& paths, const std::string& key) {
    const std::string around = is_read ? path_with_folder(paths, folder.resolved) : "";
    if (around.empty()) return;
    throw Error(ErrorKind::kSettings, where_written(settings, name),
                name + " = \"" + folder.written + "\" lies in the data of " + key + " = \"" + around + "\"",
                "choose a folder outside of the data");
  };
  check(training.do_train, data.train_file, "data.train_file");
  const bool has_corpus = data.validation_corpus.is_given();
  check(training.do_eval, data.evaluation_file(),
        has_corpus                    ? "data.validation_corpus"
        : data.validation_share > 0.0 ? "data.train_file"
                                      : "data.validation_file");
  check(training.do_predict, data.prediction_file(),
        data.test_corpus.is_given() ? "data.test_corpus" : "data.test_file");
}

}  // namespace

void check_output_is_apart(const Settings& settings) {
  check_folder(settings, settings.run.output_dir, "training.output_dir");
  const ReportSettings& report = settings.report;
  if (report.tracking != Tracking::kNone && report.tracking_dir.is_given())
    check_folder(settings, report.tracking_dir, "report.tracking_dir");
}

}  // namespace bascule
