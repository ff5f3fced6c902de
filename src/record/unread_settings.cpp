// SPDX-License-Identifier: Apache-2.0
#include "src/record/unread_settings.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/error.h"
#include "src/index/data_files.h"
#include "src/loader/loader_parts.h"
#include "src/settings/resume_rules.h"

namespace bascule {
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
