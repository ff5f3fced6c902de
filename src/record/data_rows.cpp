// SPDX-License-Identifier: Apache-2.0
#include "src/base/utf8.h"
#include "src/record/plan_data.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "src/base/error.h"
#include "src/base/paths.h"
#include "src/index/open_manifest.h"
#include "src/loader/loader_parts.h"

namespace bascule {

void HeldOut::say(std::int64_t held_out, std::int64_t all, const char* unit, const std::string& name) {
  const double share = settings_.data.validation_share;
  char text[64];
  std::snprintf(text, sizeof text, "data.validation_share = %.12g", share);
  const bool is_one_document = all == 1 && std::string_view(unit) == "documents";
  if (held_out == 0 || held_out == all) {
    throw Error(ErrorKind::kSettings, where_written(settings_, "data.validation_share"),
                is_one_document ? name + " is one document, of which " + text + " can hold out no part"
                                : std::string(text) + " holds out " + (held_out == 0 ? "none" : "all") + " of the " +
                                      std::to_string(all) + " " + unit + " of " + name,
                is_one_document ? "separate documents with empty lines, or name a data.validation_file"
                                : "set another share, or name a data.validation_file");
  }
  if (!note_.empty()) return;
  note_ = std::string("data: ") + text + ": " + readable_count(held_out).c_str() + " of " +
          readable_count(all).c_str() + " " + unit + " of " + name + " are held out (" +
          readable_percent(static_cast<double>(held_out) / static_cast<double>(all)).c_str() + ")";
}

Manifest HeldOut::rows_of(const Manifest& whole, Split split, std::int64_t most) {
  if (held_out_.empty()) held_out_ = held_out_rows(whole, settings_.data.validation_share, cache_);
  say(std::count(held_out_.begin(), held_out_.end(), true), whole.rows(), "rows", whole.name());
  std::vector<std::int64_t> rows;
  for (std::int64_t row = 0; row < whole.rows(); ++row) {
    if (held_out_[static_cast<std::size_t>(row)] == (split == Split::kValidation)) rows.push_back(row);
  }
  if (most > 0 && rows.size() > static_cast<std::size_t>(most)) rows.resize(static_cast<std::size_t>(most));
  return part_of(whole, rows);
}

OpenedTokens HeldOut::tokens_of(const DataFiles& files, const Tokenizer& tokenizer, Split split, bool keeps) {
  const bool by_line = settings_.data.text_layout == TextLayout::kLines;
  OpenedTokens part = open_tokens(files, tokenizer, settings_.run.output_dir.resolved, keeps,
                                  TextPart{settings_.data.validation_share, split == Split::kValidation, by_line});
  const std::int64_t own = by_line ? part.store->sentences() : part.store->documents();
  const std::int64_t others = part.store->others();
  say(split == Split::kValidation ? own : others, own + others, by_line ? "lines" : "documents", files.name);
  return part;
}

void find_empty_texts(RecordedRun* run, Manifest* manifest) {
  manifest->find_empty_texts();
  const std::vector<std::int64_t>& empty = manifest->rows_with_empty_text();
  if (empty.empty()) return;
  const std::string first = manifest->where(empty.front());
  const bool is_source = is_empty_text(manifest->row(empty.front()).text);
  const std::string& column = run->data.loader.text_columns[is_source ? 0 : 1];
  if (run->settings.data.on_bad_sample == OnBadSample::kStop) {
    throw Error(ErrorKind::kData, first, "the text of column \"" + column + "\" is empty",
                "write a text, remove the row, or set data.on_bad_sample = \"skip\"");
  }
  const std::int64_t count = static_cast<std::int64_t>(empty.size());
  if (count == manifest->rows()) {
    throw Error(ErrorKind::kData, first,
                "the text of column \"" + column + "\" is empty, and no row of " + manifest->name() +
                    " has both a source and a target",
                "correct data.text_column and data.summary_column");
  }
  run->notes.push_back("index: " + std::to_string(count) + " of " + count_of(manifest->rows(), "row") + " of " +
                       manifest->name() +
                       (count == 1 ? " has an empty source or target and is skipped: "
                                   : " have an empty source or target and are skipped; the first is ") +
                       shown_path(first));
}

void note_lengths(RecordedRun* run) {
  const DataSettings& data = run->settings.data;
  for (const RecordedSplit& split : run->data.splits) {
    const bool has_own_length = split.split != Split::kTrain && data.val_max_target_length > 0;
    const std::string limits[] = {"data.max_source_length = " + std::to_string(data.max_source_length),
                                  has_own_length
                                      ? "data.val_max_target_length = " + std::to_string(data.val_max_target_length)
                                      : "data.max_target_length = " + std::to_string(data.max_target_length)};
    const TextPlan* const texts = run->data.plan.streams[split.stream].texts;
    const std::string& name = split.manifest->name();
    if (texts[0].is_limit || texts[1].is_limit) {
      run->notes.push_back("plan: the lengths of the texts in " + name + " are not known yet; planned for " +
                           limits[0] + " and " + limits[1] + "; a run measures them and may need less");
      continue;
    }
    const char* const nouns[] = {"source", "target"};
    std::string line;
    for (int text = 0; text < kMaxTexts; ++text) {
      if (texts[text].cut == 0) continue;
      line += (line.empty() ? "" : ", ") + count_of(texts[text].cut, nouns[text]) + " at " + limits[text];
    }
    if (!line.empty())
      run->notes.push_back("data: " + count_of(split.manifest->rows(), "row") + " of " + name + ": cut " + line +
                           " tokens");
  }
}

void note_cut_texts(RecordedRun* run) {
  for (const RecordedSplit& split : run->data.splits) {
    const TextPlan& texts = run->data.plan.streams[split.stream].texts[0];
    std::string line;
    for (std::size_t i = 0; i < texts.in_a_row.size(); ++i) {
      if (texts.in_a_row[i].cut == 0) continue;
      line += (line.empty() ? "" : ", ") + count_of(texts.in_a_row[i].cut, "text") + " of \"" +
              run->data.loader.text_columns[i] + "\"";
    }
    if (!line.empty())
      run->notes.push_back(
          "data: " + count_of(split.manifest->rows(), "row") + " of " + split.manifest->name() + ": cut " + line +
          " at data.max_seq_length = " + std::to_string(run->data.loader.texts[0].max_length) + " tokens");
  }
}

void note_training_texts(RecordedRun* run) {
  const TrainingSettings& training = run->settings.training;
  std::string prompts;
  for (const auto& [name, prompt] : run->opened.sentence->prompts) {
    if (!prompt.empty()) prompts += (prompts.empty() ? "\"" : ", \"") + name + "\"";
  }
  if (run->settings.data.prompts.empty() && !prompts.empty())
    run->notes.push_back("plan: training puts none of the folder's prompts (" + prompts +
                         ") before texts: data.prompts does");
  if (has_negatives(training.loss) && training.gradient_accumulation_steps > 1)
    run->notes.push_back(
        "plan: with gradient accumulation a text has the negatives of its micro-batch alone: a larger "
        "training.per_device_train_batch_size with training.mini_batch_size has more of them in the same memory");
}

void plan_distinct_batches(RecordedRun* run, const RunData* lender) {
  const TrainingSettings& training = run->settings.training;
  const RecordedSplit& train = *run->data.find(Split::kTrain);
  StreamSettings& stream = run->data.loader.streams[train.stream];
  const BatchCut cut = BatchOrder(batch_dealing(run->data.loader, stream)).cut();
  if (lender != nullptr) {
    run->data.distinct_bytes = lender->distinct ? lender->distinct->bytes_like(cut) : 0;
    return;
  }
  run->data.distinct = std::make_unique<DistinctBatches>(*train.manifest, run->data.loader.seed, cut);
  if (!run->data.distinct->has_duplicates()) {
    run->data.distinct.reset();
    run->notes.push_back("plan: no batch has a text twice: no two training rows share one");
    return;
  }
  DistinctBatches& batches = *run->data.distinct;
  stream.distinct = &batches;
  std::int64_t updates = 0;
  const auto is_enough = [&] {
    if (training.max_steps > 0) return updates >= training.max_steps;
    return static_cast<double>(batches.epochs()) >= training.num_train_epochs;
  };
  while (!is_enough()) {
    batches.add_epoch();
    const std::int64_t of_epoch = batches.batches(batches.epochs() - 1);
    if (batches.batches(0) == 0) return;  // the loader says so
    updates += divide_up(of_epoch, training.gradient_accumulation_steps);
  }
  batches.end();
  run->data.distinct_bytes = batches.bytes();
  const std::int64_t all = batches.batches_before(batches.epochs());
  std::string note = "plan: no batch has a text twice: " + std::to_string(all) + (all == 1 ? " batch" : " batches") +
                     " in " + count_of(batches.epochs(), "epoch");
  if (batches.small_batches() > 0) note += ", " + std::to_string(batches.small_batches()) + " of them with fewer rows";
  if (batches.rows_left_out() > 0)
    note += ", " + count_of(batches.rows_left_out(), "row") + " left out by data.dataloader_drop_last";
  run->notes.push_back(note + "; their order takes " + readable_bytes(batches.bytes()).c_str());
}

std::vector<std::int32_t> further_tags(const ModelInputs& model) {
  const std::vector<std::string>& names = model.class_names;
  std::vector<std::int32_t> tags;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const bool begins = names[i].rfind("B-", 0) == 0;
    const auto inside = begins ? std::find(names.begin(), names.end(), "I-" + names[i].substr(2)) : names.end();
    tags.push_back(
        static_cast<std::int32_t>(inside == names.end() ? static_cast<std::ptrdiff_t>(i) : inside - names.begin()));
  }
  return tags;
}

void note_cut_words(RecordedRun* run) {
  for (const RecordedSplit& split : run->data.splits) {
    const std::int64_t cut = run->data.plan.streams[split.stream].texts[0].cut;
    if (cut == 0) continue;
    std::int64_t words = 0;
    for (std::int64_t row = 0; row < split.manifest->rows(); ++row) {
      const std::string_view text = split.manifest->row(row).text;
      words += std::count(text.begin(), text.end(), '\0');
    }
    run->notes.push_back("data: " + std::to_string(cut) + " of " + count_of(words, "word") + " of " +
                         split.manifest->name() + (cut == 1 ? " is" : " are") + " cut off at data.max_seq_length = " +
                         std::to_string(run->settings.data.max_seq_length) + " tokens, and neither trained nor judged");
  }
}

namespace {

constexpr std::size_t kShown = 3;

// For one line of text.
std::string shortened(std::string name) {
  constexpr std::size_t kMost = 60;
  for (char& c : name) c = static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  return name.size() <= kMost ? name : name.substr(0, utf8_cut(name, kMost)) + "...";
}

// "animal, body, face, ..."
std::string some_of(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < std::min(kShown, names.size()); ++i) text += (i > 0 ? ", " : "") + shortened(names[i]);
  return names.size() > kShown ? text + ", ..." : text;
}

// The meaning of a label that is not a value, for a row or for a word.
std::string label_word(const Manifest& manifest) { return manifest.has_tags() ? "tag" : "class"; }

[[noreturn]] void refuse_one_class(const Manifest& manifest) {
  const std::string word = label_word(manifest);
  throw Error(ErrorKind::kData, manifest.name(),
              std::string("all ") + (manifest.has_tags() ? "words" : "rows") + " have the same " + word,
              manifest.has_tags() ? "a model needs two tags or more" : "a classifier needs two classes or more");
}

[[noreturn]] void refuse_numbers_without_names(const Manifest& manifest) {
  throw Error(ErrorKind::kData, manifest.where(0), "tags are numbers, but the model's config.json does not name them",
              "write the tags as strings, or their names into id2label of config.json");
}

[[noreturn]] void refuse_names_unknown_to_model(const Manifest& manifest) {
  const std::string words = manifest.has_tags() ? "tags" : "classes";
  throw Error(ErrorKind::kData, manifest.where(0), words + " are names, but the model's config.json names none",
              "name the folder of a model that was trained for these " + words);
}

// The kind of labels.
std::string kind_of(const Manifest& manifest) {
  if (manifest.has_values()) return "values";
  return manifest.class_names().empty() ? "numbers" : "names";
}

void check_kinds(const RunData& data) {
  const Manifest& first = *data.splits.front().manifest;
  for (const RecordedSplit& split : data.splits) {
    if (split.manifest->is_unlabelled()) continue;  // the last one
    const std::string kind = kind_of(*split.manifest), wanted = kind_of(first);
    if (kind == wanted) continue;
    const bool are_values = kind == "values" || wanted == "values";
    throw Error(ErrorKind::kData, split.manifest->where(0),
                "labels are " + kind + ", but those of " + first.name() + " are " + wanted,
                are_values ? "use decimal numbers throughout, or none" : "use names or numbers throughout");
  }
}

// Labels that count from 1 make a class 0 that is never learnt. "": every class has rows.
std::string empty_classes(const Manifest& manifest, std::size_t classes) {
  std::vector<bool> has_rows(classes, false);
  for (std::int64_t row = 0; row < manifest.rows(); ++row)
    has_rows[static_cast<std::size_t>(manifest.row(row).label)] = true;
  std::vector<std::string> empty;
  for (std::size_t label = 0; label < classes; ++label) {
    if (!has_rows[label]) empty.push_back(std::to_string(label));
  }
  if (empty.empty()) return "";
  if (empty.size() > kShown) return "; " + std::to_string(empty.size()) + " of them have no row";
  return (empty.size() == 1 ? "; no row is of class " : "; no row is of the classes ") + and_list(empty);
}

// A folder may say nothing of its classes, whose count is then that of the training data.
void check_numbers(const Manifest& manifest, std::int64_t classes) {
  const std::int64_t row = manifest.first_row_of_label(static_cast<int>(classes));
  if (row < 0) return;
  throw Error(ErrorKind::kData, manifest.where(row),
              "class " + std::to_string(manifest.row(row).label) + " is out of range: the model has classes 0 to " +
                  std::to_string(classes - 1),
              "add rows of this class to the training data, or remove these rows");
}

}  // namespace

DataClasses classes_of_data(const RunData& data, const ModelInputs& model) {
  const std::vector<std::string>& of_model = model.class_names;
  check_kinds(data);
  const RecordedSplit* const train = data.find(Split::kTrain);
  if (train == nullptr) return {};
  if (train->manifest->has_values()) {
    if (model.has_values) return {};
    return {{},
            true,
            "the labels of the training data are decimal numbers; the model now predicts values with a new regression "
            "head"};
  }
  if (train->manifest->has_one_label()) refuse_one_class(*train->manifest);
  DataClasses found;
  std::string empty;
  found.names = train->manifest->class_names();
  if (found.names.empty()) {
    if (!of_model.empty()) return {};
    if (train->manifest->has_tags()) refuse_numbers_without_names(*train->manifest);
    const int largest = train->manifest->largest_label();
    for (int label = 0; label <= largest; ++label) found.names.push_back("LABEL_" + std::to_string(label));
    empty = empty_classes(*train->manifest, found.names.size());
  } else {
    std::sort(found.names.begin(), found.names.end());
    std::vector<std::string> known = of_model;
    std::sort(known.begin(), known.end());
    if (known == found.names) return {};
  }
  const std::string noun = train->manifest->has_tags() ? "tag" : "class";
  const std::string own =
      "the " + count_of(found.names.size(), noun) + " of the training data (" + some_of(found.names) + ")";
  found.note =
      model.has_values ? "using " + own + " and a new classifier in place of the folder's regression"
      : of_model.empty()
          ? "the model has no " + std::string(train->manifest->has_tags() ? "names of tags" : "class names") +
                "; using " + own + " and a new classifier"
          : "using " + own + " and a new classifier in place of the folder's " + count_of(of_model.size(), noun);
  found.note += empty;
  return found;
}

bool has_quoted_values(const RunData& data) {
  const RecordedSplit* const train = data.find(Split::kTrain);
  if (train == nullptr) return false;
  const std::vector<std::string>& names = train->manifest->class_names();
  const auto is_number = [](const std::string& name) {
    double number = 0.0;
    const std::from_chars_result end = std::from_chars(name.data(), name.data() + name.size(), number);
    return end.ec == std::errc() && end.ptr == name.data() + name.size();
  };
  return std::all_of(names.begin(), names.end(), is_number) &&
         std::any_of(names.begin(), names.end(),
                     [](const std::string& name) { return name.find_first_of(".eE") != std::string::npos; });
}

void number_classes(RunData* data, const ModelInputs& model) {
  const std::vector<std::string>& names = model.class_names;
  std::unordered_map<std::string, std::int32_t> numbers;
  for (const std::string& name : names) numbers.emplace(name, static_cast<std::int32_t>(numbers.size()));
  for (RecordedSplit& split : data->splits) {
    const std::vector<std::string>& own = split.manifest->class_names();
    if (split.manifest->is_unlabelled()) continue;
    if (split.manifest->has_values() != model.has_values) {
      throw Error(ErrorKind::kData, split.manifest->where(0),
                  model.has_values
                      ? "labels are " + kind_of(*split.manifest) + " of classes, but the model predicts values"
                      : "labels are decimal numbers, but the model has classes",
                  "use data that the model was trained for");
    }
    if (model.has_values) continue;
    if (own.empty() && split.manifest->has_tags() && names.empty()) refuse_numbers_without_names(*split.manifest);
    if (own.empty()) check_numbers(*split.manifest, model.classes);
    if (!own.empty() && names.empty()) refuse_names_unknown_to_model(*split.manifest);
    std::vector<std::int32_t> numbers_of_own;
    for (std::size_t i = 0; i < own.size(); ++i) {
      const auto known = numbers.find(own[i]);
      if (known == numbers.end()) {
        const std::string word = label_word(*split.manifest);
        throw Error(ErrorKind::kData, split.manifest->where(split.manifest->first_row_of_class(i)),
                    "unknown " + word + " \"" + shortened(own[i]) + "\"; the model's " + std::to_string(names.size()) +
                        (split.manifest->has_tags() ? " tags are " : " classes are ") + some_of(names),
                    "add rows of this " + word + " to the training data, or remove these rows");
      }
      numbers_of_own.push_back(known->second);
    }
    split.manifest->set_classes(std::move(numbers_of_own));
  }
}

}  // namespace bascule
