// SPDX-License-Identifier: Apache-2.0
#include "src/record/opened_model.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>
#include <tuple>
#include <utility>

#include "src/base/check.h"
#include "src/base/error.h"
#include "src/base/paths.h"
#include "src/session/model_folder.h"
#include "src/text/tokenizer_kinds.h"

namespace bascule {
namespace {

ModelWords words_of(const Family& family) {
  ModelWords words;
  for (const FamilyHead& head : family.heads) {
    words.heads.push_back(head.words);
    for (const std::string_view judge : {std::string_view(head.judge), std::string_view(head.judge_of_values)}) {
      if (judge.empty()) continue;
      for (const Metric& metric : judge_named(judge).metrics) {
        if (metric.smaller_is_better) words.heads.back().smaller_is_better.emplace_back(metric.key);
      }
    }
  }
  words.parts = family.parts;
  words.frozen = family.frozen;
  words.idle = family.idle;
  return words;
}

// For a model that is missing: what each family allows, so that the error names the missing model, not a word.
ModelWords words_of_all_families() {
  ModelWords all = words_of(usual_family());
  for (const Family* family : families()) {
    const ModelWords words = words_of(*family);
    for (const HeadWords& head : words.heads) {
      const auto is_same = [&](const HeadWords& one) { return one.name == head.name; };
      if (std::none_of(all.heads.begin(), all.heads.end(), is_same)) all.heads.push_back(head);
    }
    for (const std::string& part : words.parts) {
      if (std::find(all.parts.begin(), all.parts.end(), part) == all.parts.end()) all.parts.push_back(part);
    }
  }
  all.draws = true;
  for (HeadWords& head : all.heads)
    head.reads_labels = head.has_classes = head.mixes_labels = head.reads_targets = head.reads_words = true;
  return all;
}

}  // namespace

ModelWords words_of_usual_family() { return words_of(usual_family()); }

ModelWords model_words(const std::string& folder) {
  const std::string body = body_folder(folder), config = body + "/config.json";
  if (is_there(folder + "/model_index.json")) {
    ModelWords words;
    words.draws = true;
    return words;
  }
  if (!is_there(config)) return words_of_all_families();
  const Family& family = family_of(config);
  ModelWords words = words_of(family);
  if (body != folder) words.body = body.substr(folder.size() + 1);
  const auto embeds = [](const FamilyHead& head) { return head.words.embeds_texts; };
  const auto head = std::find_if(family.heads.begin(), family.heads.end(), embeds);
  if (head == family.heads.end()) return words;
  words.find_sentence = [&family, folder, name = head->words.name] {
    const SentenceFolder sentence = sentence_folder_of(folder, family, name);
    return SentenceWords{sentence.pooling, sentence.normalize, sentence.max_seq_length};
  };
  return words;
}

namespace {

// "organisation/name", as folders of models are called on the Hugging Face hub.
bool is_hub_name(const std::string& text) {
  const auto is_allowed = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.' || c == '/';
  };
  return std::count(text.begin(), text.end(), '/') == 1 && text.front() != '/' && text.front() != '.' &&
         text.back() != '/' && std::all_of(text.begin(), text.end(), is_allowed);
}

void check_is_downloaded(const SettingsOrigin& origin, const char* key, const PathSetting& folder) {
  if (!is_hub_name(folder.written) || std::filesystem::exists(folder.resolved)) return;
  throw Error(ErrorKind::kData, where_written(origin, key),
              std::string(key) + " = \"" + folder.written + "\": the folder " + folder.shown() +
                  " does not exist, and Bascule downloads nothing",
              "download it: `hf download " + folder.written + " --local-dir " + folder.shown() + "`");
}

// A sample that is a source and a target needs the columns of both.
void check_target_columns(const OpenedModel& opened, const ModelSettings& model, const DataSettings& data,
                          const SettingsOrigin& origin) {
  const bool reads_targets = field_from(opened.fields, FieldSource::kTokenIds, 1) >= 0;
  BASCULE_CHECK(reads_targets == opened.family->head(model.head)->words.reads_targets);
  if (!reads_targets) return;
  for (const auto& [column, key, what] : {std::tuple{&data.text_column, "data.text_column", "source"},
                                          {&data.summary_column, "data.summary_column", "target"}}) {
    if (!column->empty()) continue;
    throw Error(ErrorKind::kSettings, where_written(origin, key),
                "model.head = \"" + model.head + "\" needs the " + what + " of each row, but " + key + " is not set",
                "name its column");
  }
}

// Words need the column of their tags; that of the words has a default.
void check_tag_column(const OpenedModel& opened, const ModelSettings& model, const DataSettings& data,
                      const SettingsOrigin& origin) {
  if (!opened.inputs.reads_words || !data.label_column.empty()) return;
  throw Error(
      ErrorKind::kSettings, where_written(origin, "data.label_column"),
      "model.head = \"" + model.head + "\" needs the tags of each row's words, but data.label_column is not set",
      "name their column");
}

}  // namespace

bool mixes_labels(const DataSettings& data, const TrainingSettings& training) {
  return training.do_train && (data.mixup_alpha > 0.0 || data.cutmix_alpha > 0.0);
}

bool judges_retrieval_files(const DataSettings& data, const TrainingSettings& training) {
  return (training.do_eval && data.validation_corpus.is_given()) ||
         (training.do_predict && data.test_corpus.is_given());
}

bool reads_rows(const DataSettings& data, const TrainingSettings& training) {
  return (training.do_train && !data.train_file.is_corpus()) ||
         (training.do_eval && !data.validation_corpus.is_given() && !data.evaluation_file().is_corpus()) ||
         (training.do_predict && !data.test_corpus.is_given() && !data.test_file.is_corpus());
}

void reopen(OpenedModel* opened, const ModelSettings& model, const DataSettings& data,
            const TrainingSettings& training) {
  opened->model = opened->family->open(opened->source, model.head);
  opened->inputs = opened->model->inputs();
  const FamilyHead& head = *opened->family->head(model.head);
  const bool has_values = opened->inputs.has_values && !judges_retrieval_files(data, training);
  opened->judge_kind = &judge_named(has_values ? head.judge_of_values : head.judge);
  RecordOptions options;
  options.dropout = model.dropout == Dropout::kConfig && training.do_train;
  options.mixed_labels = mixes_labels(data, training);
  opened->fields = opened->model->fields(options);
  options.texts_in_a_row = 1;
  if (judges_retrieval_files(data, training)) opened->fields_of_one_text = opened->model->fields(options);
}

OpenedModel open_model_of(const ModelSettings& model, const DataSettings& data, const TrainingSettings& training,
                          const SettingsOrigin& origin) {
  check_is_downloaded(origin, "model.model_name_or_path", model.model_name_or_path);
  check_is_downloaded(origin, "model.tokenizer_name", model.tokenizer_name);
  OpenedModel opened;
  const std::string& folder = model.model_name_or_path.resolved;
  opened.model_folder = body_folder(folder);
  opened.config_path = opened.model_folder + "/config.json";
  opened.family = &family_of(opened.config_path);
  if (model.image_size > 0 && !opened.family->resizes_pictures) {
    throw Error(ErrorKind::kSettings, where_written(origin, "model.image_size"),
                "model.image_size is set, but models of type \"" + std::string(opened.family->model_type) +
                    "\" are not resized",
                "remove it");
  }
  opened.source = model_source(opened.model_folder, !model.from_scratch);
  opened.source.image_size = model.image_size;
  opened.source.pooling = model.pooling;
  opened.source.normalize = model.normalize;
  const bool embeds_texts =
      opened.family->head(model.head) != nullptr && opened.family->head(model.head)->words.embeds_texts;
  if (embeds_texts) opened.source.texts_in_a_row = static_cast<std::int64_t>(data.text_columns());
  opened.source.loss = training.loss;
  opened.source.similarity_scale = static_cast<float>(training.similarity_scale);
  reopen(&opened, model, data, training);
  if (embeds_texts) {
    SentenceFolder sentence = read_sentence_folder(folder, opened.model->embedding_width(), opened.inputs.texts[0]);
    sentence.pooling = model.pooling;
    sentence.normalize = model.normalize;
    if (sentence.max_seq_length != data.max_seq_length) sentence.length_source = "data.max_seq_length";
    sentence.max_seq_length = data.max_seq_length;
    opened.sentence = std::move(sentence);
  }
  const auto reads = [&](FieldSource source) { return field_from(opened.fields, source) >= 0; };
  const auto need = [&](bool is_read, std::int64_t number, const char* what) {
    if (is_read && number < 1)
      throw Error(ErrorKind::kData, opened.config_path, std::string(what) + " is " + std::to_string(number),
                  "it must be at least 1");
  };
  need(reads(FieldSource::kPixels), opened.inputs.image_side, "the side of the model's pictures");
  for (int text = 0; text < kMaxTexts; ++text) {
    need(field_from(opened.fields, FieldSource::kTokenIds, text) >= 0, opened.inputs.texts[text].vocabulary_size,
         "the size of the model's vocabulary");
  }
  need(reads(FieldSource::kClassLabels), opened.inputs.classes, "the number of the model's classes");
  if (reads(FieldSource::kPixels) && opened.inputs.image_channels != 3) {
    throw Error(ErrorKind::kData, opened.config_path,
                "num_channels = " + std::to_string(opened.inputs.image_channels) + " is not supported",
                "pictures have 3 channels, red, green and blue");
  }
  if (reads(FieldSource::kTokenIds))
    opened.tokenizer = load_tokenizer(model.tokenizer_name.resolved, ", for example with model.tokenizer_name");
  if (opened.sentence && opened.sentence->lower_case) opened.tokenizer = lower_cased(std::move(opened.tokenizer));
  const bool has_pairs =
      opened.inputs.reads_pairs && !(opened.inputs.pairs_are_optional && data.text_pair_column.empty());
  const std::int64_t types = opened.inputs.texts[0].token_types;
  if (has_pairs && types > 0 && opened.tokenizer->second_type() >= types) {
    throw Error(ErrorKind::kData, model.tokenizer_name.resolved,
                "the second text of a pair has token type " + std::to_string(opened.tokenizer->second_type()) +
                    ", the model has " + std::to_string(types) + " token types",
                "use the tokenizer that belongs to the model");
  }
  if (reads(FieldSource::kPixels) && !data.text_column.empty()) {
    throw Error(ErrorKind::kSettings, where_written(origin, "data.text_column"),
                "data.text_column is set, but the model reads pictures", "name the column in data.caption_column");
  }
  check_target_columns(opened, model, data, origin);
  check_tag_column(opened, model, data, origin);
  if ((has_pairs || embeds_texts) && reads_rows(data, training) && data.text_pair_column.empty()) {
    throw Error(
        ErrorKind::kSettings, where_written(origin, "data.text_pair_column"),
        "model.head = \"" + model.head + "\" needs the second text of each row, but data.text_pair_column is not set",
        "name its column");
  }
  const bool masks = field_from(opened.fields, FieldSource::kMaskedRows, 0) >= 0 ||
                     field_from(opened.fields, FieldSource::kMaskedRows, 1) >= 0;
  if (masks && opened.tokenizer->mask_id() < 0) {
    throw Error(ErrorKind::kData, model.tokenizer_name.resolved,
                "the tokenizer has no mask token, which " + model.head + " needs");
  }
  return opened;
}

}  // namespace bascule
