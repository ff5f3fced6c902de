// SPDX-License-Identifier: Apache-2.0
// The model of a run, and the words that settings may use for it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "src/judge/judge.h"
#include "src/models/families.h"
#include "src/models/sentence_folder.h"
#include "src/settings/settings.h"
#include "src/text/tokenizer.h"

namespace bascule {

// The words that settings may use for the model in a folder: its family's, and those of the judges of its heads.

// The words of a model's family. A folder without a config.json gives those of every family; opening the model refuses
// it. Throws Error kData if the file is broken or of another family: before its head or frozen parts are compared with
// a family that it is not of.
ModelWords model_words(const std::string& folder);

// The words of the family that a config.json without model_type means.
ModelWords words_of_usual_family();

// The model of a run and its tokenizer, opened from their folders and checked against each other. Before the seal.

// The model of a run, read from its folder, and the inputs that it needs.
struct OpenedModel {
  const Family* family = nullptr;
  std::unique_ptr<Model> model;
  ModelInputs inputs;
  Fields fields;                               // filled by the loader
  Fields fields_of_one_text;                   // of rows with one text, which a retrieval from files has; else empty
  const JudgeKind* judge_kind = nullptr;       // of the model's evaluations
  std::unique_ptr<const Tokenizer> tokenizer;  // null where the model reads no text
  std::string model_folder;                    // of config.json and the weights: that of the settings, or one below
  std::string config_path;
  ModelSource source;            // what the model was opened from
  bool has_new_classes = false;  // those of the training data are not those of the model's folder
  // For a head that embeds texts: the folder's words, with the values of the settings.
  std::optional<SentenceFolder> sentence;
};

// Throws Error kData for folders that are missing, broken or do not belong together, kSettings for settings that do not
// fit the model.
OpenedModel open_model_of(const ModelSettings& model, const DataSettings& data, const TrainingSettings& training,
                          const SettingsOrigin& origin);

// Opens the model once more, by opened->source, which has changed.
void reopen(OpenedModel* opened, const ModelSettings& model, const DataSettings& data,
            const TrainingSettings& training);

// Whether a split that the run reads is a table of rows: a text corpus has no columns.
bool reads_rows(const DataSettings& data, const TrainingSettings& training);
// Whether the run evaluates by documents and queries in files of their own.
bool judges_retrieval_files(const DataSettings& data, const TrainingSettings& training);
// Whether training mixes pictures and labels in pairs.
bool mixes_labels(const DataSettings& data, const TrainingSettings& training);

}  // namespace bascule
