// SPDX-License-Identifier: Apache-2.0
#include "src/record/plan_data.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "src/base/check.h"
#include "src/base/error.h"
#include "src/index/relevance.h"
#include "src/loader/loader_parts.h"
#include "src/loader/media.h"
#include "src/pictures/picture_decoder.h"
#include "src/pictures/preprocessor.h"
#include "src/record/resume_check.h"

namespace bascule {
namespace {

const FamilyHead& head_of(const RecordedRun& run) { return *run.opened.family->head(run.settings.model.head); }

// The samples of a text corpus. Only models that read texts and predict their tokens learn from one.
void open_corpus(RecordedRun* run, Split split, const PathsSetting& file, HeldOut* held_out, RecordedSplit* recorded) {
  const Settings& settings = run->settings;
  const LoaderSettings& loader = run->data.loader;
  const bool reads_two = reads_text(loader, 1);
  if (reads_pictures(loader) || reads_two || field_from(loader.fields, FieldSource::kMaskedRows) < 0) {
    throw Error(ErrorKind::kSettings, where_written(settings, std::string("data.") + split_name(split) + "_file"),
                file.text() + " is a text corpus, but this model with head \"" + settings.model.head + "\" " +
                    (reads_pictures(loader) ? "reads pictures"
                     : reads_two            ? "reads two texts"
                                            : "does not predict tokens"),
                "name a manifest");
  }
  const DataFiles files = find_data_files(file);
  const bool keeps = run->data.new_tokens == NewTokens::kAreKept;
  const Tokenizer& tokenizer = *run->opened.tokenizer;
  OpenedTokens opened = held_out->divides(split)
                            ? held_out->tokens_of(files, tokenizer, split, keeps)
                            : open_tokens(files, tokenizer, settings.run.output_dir.resolved, keeps);
  if (!opened.note.empty()) run->notes.push_back("corpus: " + opened.note);
  if (!opened.file.empty()) run->data.token_files.push_back(opened.file);
  CorpusRules rules{settings.data.text_layout == TextLayout::kLines, settings.data.max_seq_length};
  if (run->opened.inputs.reads_pairs) {
    rules.pairs = PairRules{loader.seed, 0, split == Split::kTrain ? settings.data.dupe_factor : 1,
                            settings.data.short_seq_probability};
  }
  recorded->corpus = std::make_unique<Corpus>(std::move(opened.store), files, tokenizer, rules);
  recorded->manifest = std::make_unique<Manifest>(recorded->corpus->manifest());
}

ManifestColumns columns_of(const RecordedRun& run, Split split) {
  const LoaderSettings& loader = run.data.loader;
  const DataSettings& data = run.settings.data;
  const ModelInputs& inputs = run.opened.inputs;
  ManifestColumns columns;
  columns.image = reads_pictures(loader) ? data.image_column : "";
  columns.text = reads_text(loader) ? loader.text_columns[0] : "";
  if (!data.text_column.empty()) columns.text_setting = "text_column";
  columns.second_text = loader.text_columns[1];
  columns.further_texts = data.negative_columns;
  if (!data.summary_column.empty()) columns.second_text_setting = "summary_column";
  columns.label = data.label_column;
  columns.named_classes = head_of(run).names_classes;
  if (!head_of(run).judge_of_values.empty()) {
    const RecordedSplit* const train = run.data.find(Split::kTrain);
    const bool has_values = inputs.has_values || (train != nullptr && train->manifest->has_values());
    columns.values = has_values ? LabelValues::kAlways : LabelValues::kIfDecimal;
  }
  columns.words = inputs.reads_words;
  columns.optional_labels = split == Split::kTest;
  columns.optional_second_text = split == Split::kTest && reads_text(loader, 1);
  columns.refused = run.data.refused;
  columns.classes = columns.named_classes && inputs.class_names.empty() ? kMostClasses : inputs.classes;
  return columns;
}

// The classes of the training data become those of the model; or its labels are values.
void take_classes(RecordedRun* run) {
  if (!head_of(*run).names_classes) return;
  OpenedModel& opened = run->opened;
  const Settings& settings = run->settings;
  const DataClasses found = classes_of_data(run->data, opened.inputs);
  if (!found.note.empty()) {
    opened.source.classes = found.names;
    opened.source.has_values = found.are_values;
    reopen(&opened, settings.model, settings.data, settings.training);
    run->data.loader.fields = opened.fields;
    opened.has_new_classes = true;
    run->notes.push_back("model: " + found.note);
  }
  if (!head_of(*run).judge_of_values.empty() && has_quoted_values(run->data)) {
    run->notes.push_back(
        "model: the labels are strings that read as numbers, and each is a class; write them without quotes where they "
        "are values");
  }
  number_classes(&run->data, opened.inputs);
  if (opened.inputs.has_values && settings.training.label_smoothing_factor > 0.0) {
    throw Error(ErrorKind::kSettings, where_written(settings, "training.label_smoothing_factor"),
                "training.label_smoothing_factor is set, but the labels are values, not classes", "remove it");
  }
}

// Samples of a split, from the first on, that are used; 0: all.
std::int64_t most_rows(const DataSettings& data, Split split) {
  if (split == Split::kValidation) return data.max_eval_samples;
  if (split == Split::kTest) return data.max_predict_samples;
  return 0;
}

StreamSettings stream_of(const RecordedRun& run, Split split) {
  const Settings& settings = run.settings;
  const DataSettings& data = settings.data;
  StreamSettings stream;
  stream.shuffled = split == Split::kTrain;
  stream.drop_last = stream.shuffled && data.dataloader_drop_last;
  stream.batch_per_rank =
      stream.shuffled ? settings.training.per_device_train_batch_size : settings.training.per_device_eval_batch_size;
  stream.ring_slots = data.ring_slots;
  stream.world_size = run.place.world_size;
  stream.rank = run.place.rank;
  if (!stream.shuffled) stream.max_target_length = data.val_max_target_length;
  return stream;
}

// Whether the training data is opened for its labels, and closed again.
bool reads_training_labels_alone(const RecordedRun& run) {
  return run.data.training_labels == TrainingLabels::kAreAlwaysRead && !run.settings.training.do_train &&
         head_of(run).names_classes;
}

void close_first_split(RunData* data) {
  data->loader.streams.erase(data->loader.streams.begin());
  data->splits.erase(data->splits.begin());
  for (RecordedSplit& split : data->splits) --split.stream;
}

const PathsSetting& file_of(const DataSettings& data, Split split) {
  return split == Split::kTrain        ? data.train_file
         : split == Split::kValidation ? data.evaluation_file()
                                       : data.prediction_file();
}

// None: the split has rows of its own.
std::optional<RetrievalFiles> retrieval_of(const DataSettings& data, Split split) {
  RetrievalFiles files = split == Split::kTest ? data.test_retrieval() : data.validation_retrieval();
  if (split == Split::kTrain || !files.is_given()) return std::nullopt;
  return files;
}

// Those that training puts before queries and documents, or else those of the folder.
RetrievalPrompts retrieval_prompts(const RecordedRun& run) {
  const std::vector<std::string>& prompts = run.settings.data.prompts;
  if (prompts.size() > 1) return {prompts[1], prompts[0]};
  const auto named = [&](const char* name) {
    const auto found = run.opened.sentence->prompts.find(name);
    return found == run.opened.sentence->prompts.end() ? std::string() : found->second;
  };
  return {named("document"), named("query")};
}

void note_retrieval(RecordedRun* run, const Manifest& manifest) {
  const Relevance& relevance = *manifest.relevance();
  run->notes.push_back("data: " + std::to_string(relevance.queries) + (relevance.queries == 1 ? " query" : " queries") +
                       " over " + count_of(relevance.documents, "document") + " of " + manifest.name() +
                       (relevance.left_out == 0
                            ? ""
                            : "; without a relevant document and left out: " + std::to_string(relevance.left_out)));
}

// Whether evaluations search documents for queries.
bool ranks_documents(const RecordedRun& run) {
  return head_of(run).words.embeds_texts && !run.opened.inputs.has_values;
}

MissingPictures missing_pictures(const RecordedRun& run) {
  if (run.data.refused != nullptr) return MissingPictures::kAreKept;
  return run.settings.data.on_bad_sample == OnBadSample::kSkip ? MissingPictures::kAreSkipped
                                                               : MissingPictures::kAreRefused;
}

bool reads_row_labels(const LoaderSettings& loader) {
  return field_from(loader.fields, FieldSource::kClassLabels) >= 0 ||
         field_from(loader.fields, FieldSource::kLabelValues) >= 0;
}

// Whether the test file says nothing of what the model has to find. Then that is noted.
bool is_unlabelled(RecordedRun* run, const Manifest& manifest) {
  const LoaderSettings& loader = run->data.loader;
  const bool reads_targets = reads_text(loader, 1);
  const bool reads_labels = reads_row_labels(loader) || !run->settings.data.label_column.empty();
  if (reads_targets ? !manifest.lacks_second_texts() : !reads_labels || !manifest.lacks_labels()) return false;
  const bool writes = !reads_targets || run->settings.training.predict_with_generate;
  run->notes.push_back("data: " + manifest.name() + " has no " + (reads_targets ? "targets" : "labels") +
                       (writes ? ": writing predictions without metrics"
                               : ": set training.predict_with_generate = true to write texts for it"));
  return true;
}

// Once: of a file that is divided both parts have it.
void add_note(RecordedRun* run, const std::string& of_index) {
  const std::string note = "index: " + of_index;
  const bool is_new = std::find(run->notes.begin(), run->notes.end(), note) == run->notes.end();
  if (!of_index.empty() && is_new) run->notes.push_back(note);
}

}  // namespace

Manifest whole_training_file(const RecordedRun& run) {
  return open_manifest(run.settings.data.train_file, columns_of(run, Split::kTrain), run.data.loader.cache,
                       missing_pictures(run))
      .manifest;
}

std::vector<Split> splits_read(const TrainingSettings& training) {
  std::vector<Split> splits;
  if (training.do_train) splits.push_back(Split::kTrain);
  if (training.do_eval) splits.push_back(Split::kValidation);
  if (training.do_predict) splits.push_back(Split::kTest);
  return splits;
}

void open_split(RecordedRun* run, Split split, HeldOut* held_out, RunData* lender) {
  const Settings& settings = run->settings;
  const DataSettings& data = settings.data;
  const PathsSetting& file = file_of(data, split);
  RecordedSplit recorded;
  recorded.split = split;
  const LoaderSettings& loader = run->data.loader;
  const std::int64_t most = most_rows(data, split);
  const bool divides = held_out->divides(split);
  const auto open = [&] {
    return open_manifest(file, columns_of(*run, split), loader.cache, missing_pictures(*run), divides ? 0 : most);
  };
  StreamSettings stream = stream_of(*run, split);
  if (lender != nullptr) {
    const auto same = std::find_if(lender->splits.begin(), lender->splits.end(),
                                   [&](const auto& other) { return other.split == split; });
    recorded.manifest = std::move(same->manifest);
    recorded.corpus = std::move(same->corpus);
    stream.planned = lender->plan.streams[same->stream].texts;
  } else if (const std::optional<RetrievalFiles> retrieval = retrieval_of(data, split)) {
    recorded.manifest = std::make_unique<Manifest>(load_retrieval(*retrieval, retrieval_prompts(*run)));
    note_retrieval(run, *recorded.manifest);
  } else if (file.is_corpus()) {
    open_corpus(run, split, file, held_out, &recorded);
    if (most > 0) recorded.manifest->keep_first(most);
  } else {
    OpenedManifest opened = open();
    // Results derived from the texts are cached, so the texts are checked first. This removes a damaged index.
    stream.manifest = &opened.manifest;
    if ((divides || !has_text_lengths(loader, stream)) && !opened.manifest.read_into_memory()) {
      run->notes.push_back("index: rebuilding the damaged index of " + file.text());
      opened = open();
    }
    add_note(run, opened.note);
    if (split == Split::kTest && is_unlabelled(run, opened.manifest)) {
      opened.manifest.set_unlabelled();
    } else if (reads_row_labels(loader) && !opened.manifest.has_labels()) {
      throw Error(
          ErrorKind::kSettings, where_written(settings, "data.label_column"),
          "model.head = \"" + settings.model.head + "\" needs the class of each row, but data.label_column is not set",
          "name the column of classes, or a folder with a folder for each class");
    }
    recorded.manifest = std::make_unique<Manifest>(divides ? held_out->rows_of(opened.manifest, split, most)
                                                           : std::move(opened.manifest));
    if (reads_text(loader, 1) && !recorded.manifest->is_unlabelled()) find_empty_texts(run, recorded.manifest.get());
  }
  // A row of a retrieval has one text.
  if (recorded.manifest->relevance() == nullptr && split != Split::kTrain && ranks_documents(*run))
    recorded.manifest->set_relevance(relevance_of_rows(*recorded.manifest));
  if (retrieval_of(data, split)) stream.fields = run->opened.fields_of_one_text;
  recorded.stream = run->data.loader.streams.size();
  stream.manifest = recorded.manifest.get();
  stream.corpus = recorded.corpus.get();
  run->data.loader.streams.push_back(stream);
  run->data.splits.push_back(std::move(recorded));
}

void set_up_loader(RecordedRun* run, const media_engine_driver* engine) {
  const Settings& settings = run->settings;
  LoaderSettings& loader = run->data.loader;
  loader.fields = run->opened.fields;
  loader.tokenizer = run->opened.tokenizer.get();
  loader.seed = static_cast<std::uint64_t>(settings.run.seed);
  loader.masking.rule = settings.data.masking;
  loader.masking.probability = settings.data.mlm_probability;
  loader.masking.most = settings.data.max_predictions_per_seq;
  loader.negative_fraction = settings.data.negative_fraction;
  const int terms = head_of(*run).loss_terms;
  loader.counts_labels_ahead = terms > 1 && settings.training.gradient_accumulation_steps > 1;
  loader.text_columns[0] = settings.data.text_column.empty() ? settings.data.caption_column : settings.data.text_column;
  const bool reads_targets = reads_text(loader, 1);
  loader.text_columns[1] = reads_targets ? settings.data.summary_column : settings.data.text_pair_column;
  loader.takes_texts_in_a_row = head_of(*run).words.embeds_texts;
  loader.text_columns.insert(loader.text_columns.end(), settings.data.negative_columns.begin(),
                             settings.data.negative_columns.end());
  loader.prompts = settings.data.prompts;
  const std::int64_t lengths[kMaxTexts] = {
      reads_targets ? settings.data.max_source_length : settings.data.max_seq_length, settings.data.max_target_length};
  for (int text = 0; text < kMaxTexts; ++text) {
    loader.texts[text] = run->opened.inputs.texts[text];
    BASCULE_CHECK(loader.texts[text].max_length == 0);
    loader.texts[text].max_length = lengths[text];
  }
  loader.reads_words = run->opened.inputs.reads_words;
  loader.source_prefix = settings.data.source_prefix;
  loader.pads_targets = reads_targets && !settings.data.ignore_pad_token_for_loss;
  loader.takes_limits = reads_targets && run->data.new_lengths == NewLengths::kAreLimits;
  MediaSettings& media = loader.media;
  if (reads_pictures(loader)) {
    const std::string& folder = settings.model.model_name_or_path.resolved;
    const Family& family = *run->opened.family;
    if (family.needs_processor_file) require_statistics(folder);
    media = media_settings_of(folder, settings.data.preprocessing, run->opened.inputs.image_side,
                              family.image_processor, family.processor_fit);
  } else if (const std::string key = settings.data.random_change(); !key.empty()) {
    throw Error(ErrorKind::kSettings, where_written(settings, key), key + " is set, but the model reads no pictures",
                "remove it");
  }
  loader.random_crops = {settings.data.augment, settings.data.random_resized_crop_scale,
                         settings.data.random_resized_crop_ratio};
  loader.rand_augment = {settings.data.rand_augment_num_ops, settings.data.rand_augment_magnitude,
                         settings.data.rand_augment_num_magnitude_bins};
  loader.color_jitter = {settings.data.color_jitter_brightness, settings.data.color_jitter_contrast,
                         settings.data.color_jitter_saturation, settings.data.color_jitter_hue};
  loader.random_erasing = {settings.data.random_erasing_probability, settings.data.random_erasing_scale,
                           settings.data.random_erasing_ratio};
  media.interpolation = settings.data.interpolation;
  media.centre_crop_ratio = settings.data.eval_crop_ratio;
  loader.mixup_alpha = settings.data.mixup_alpha;
  loader.cutmix_alpha = settings.data.cutmix_alpha;
  loader.on_bad_sample = settings.data.on_bad_sample;
  if (!reads_pictures(loader) && !reads_targets) loader.max_replacements = 0;  // nothing else can be bad
  loader.workers = settings.data.dataloader_num_workers;
  media.queue_depth = settings.media_engine.queue_depth;
  media.memory_bytes = static_cast<std::size_t>(settings.media_engine.memory_mib) << 20;
  media.max_pixels = max_pixels(settings.media_engine.max_megapixels);
  media.scale_in_decoder = settings.media_engine.scale_in_decoder;
  loader.cache = user_index_cache();
  media.device_units = settings.media_engine.simulation.units;
  media.driver = engine;
  if (engine == media_engine_builtin())
    media.options = media_options(settings.media_engine.simulation, settings.origin, engine);
  media.fallback = settings.media_engine.fallback;
  check_texts(loader);  // before a corpus is tokenised
}

void plan_data(RecordedRun* run, const media_engine_driver* engine, RunData* lender) {
  set_up_loader(run, engine);
  HeldOut held_out(run->settings, run->data.loader.cache);
  const bool reads_labels_alone = reads_training_labels_alone(*run);
  if (reads_labels_alone) open_split(run, Split::kTrain, &held_out, lender);
  for (const Split split : splits_read(run->settings.training)) open_split(run, split, &held_out, lender);
  if (!held_out.note().empty()) run->notes.push_back(held_out.note());
  take_classes(run);
  if (reads_labels_alone) close_first_split(&run->data);
  LoaderSettings& loader = run->data.loader;
  if (loader.reads_words && run->settings.data.label_all_tokens)
    loader.further_labels = further_tags(run->opened.inputs);
  try {
    check_data(run->settings.origin, run->data, &run->resume);
  } catch (const Error&) {
    // Tokens of a text that is none of this run. No other start of it may have opened them.
    for (const std::string& file : run->data.token_files) std::filesystem::remove(file);
    throw;
  }
  if (run->settings.training.batch_sampler == BatchSampler::kNoDuplicates && run->settings.training.do_train)
    plan_distinct_batches(run, lender);
  run->data.plan = plan_loader(loader);
  if (reads_text(loader, 1)) note_lengths(run);
  if (loader.reads_words) note_cut_words(run);
  if (loader.takes_texts_in_a_row) note_cut_texts(run);
  if (loader.takes_texts_in_a_row && run->settings.training.do_train) note_training_texts(run);
}

}  // namespace bascule
