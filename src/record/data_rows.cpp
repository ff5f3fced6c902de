// SPDX-License-Identifier: Apache-2.0
#include "src/record/data_rows.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/error.h"
#include "src/base/messages.h"
#include "src/base/paths.h"
#include "src/base/readable.h"
#include "src/index/manifest_part.h"
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

}  // namespace bascule
