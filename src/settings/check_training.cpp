// SPDX-License-Identifier: Apache-2.0
// Settings of the updates: learning rate and optimizer.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "src/base/batch.h"
#include "src/base/error.h"
#include "src/settings/keys.h"
#include "src/settings/settings.h"
#include "src/settings/validate.h"

namespace bascule {
namespace {

void check_schedule(const Settings& s) {
  const TrainingSettings& t = s.training;
  const bool warms_up = t.warmup_steps > 0 || t.warmup_ratio > 0.0;
  if (t.warmup_steps > 0 && t.warmup_ratio > 0.0) {
    refuse(s, "training.warmup_ratio", "training.warmup_steps and training.warmup_ratio are both set", "remove one");
  }
  if (t.warmup_start_ratio > 0.0 && (!warms_up || t.lr_scheduler_type == Scheduler::kPolynomialJump)) {
    refuse(s, "training.warmup_start_ratio",
           warms_up ? "lr_scheduler_type = \"polynomial_jump\" warms up from 0"
                    : "training.warmup_start_ratio is set, but nothing warms up",
           warms_up ? "remove it" : "set training.warmup_ratio or training.warmup_steps");
  }
  if (warms_up && t.lr_scheduler_type == Scheduler::kConstant) {
    refuse(s, t.warmup_steps > 0 ? "training.warmup_steps" : "training.warmup_ratio",
           "lr_scheduler_type = \"constant\" has no warm-up", "use \"constant_with_warmup\"");
  }
}

// A key of one schedule does nothing beside another.
void check_schedule_keys(const Settings& s) {
  const TrainingSettings& t = s.training;
  const TrainingSettings defaults;
  const struct {
    bool is_given;
    const char* key;
    Scheduler kind;
    const char* name;
  } keys[] = {
      {t.lr_end != defaults.lr_end, "lr_end", Scheduler::kPolynomial, "polynomial"},
      {t.lr_num_cycles != defaults.lr_num_cycles, "lr_num_cycles", Scheduler::kCosineWithRestarts,
       "cosine_with_restarts"},
      {t.lr_timescale != defaults.lr_timescale, "lr_timescale", Scheduler::kInverseSqrt, "inverse_sqrt"},
      {t.min_lr_ratio != defaults.min_lr_ratio, "min_lr_ratio", Scheduler::kCosineWithMinLr, "cosine_with_min_lr"}};
  for (const auto& [is_given, key, kind, name] : keys) {
    applies_only(s, is_given && t.lr_scheduler_type != kind, std::string("training.") + key,
                 std::string("lr_scheduler_type = \"") + name + "\"", "remove it, or use that schedule");
  }
  applies_only(s,
               t.lr_power != defaults.lr_power && t.lr_scheduler_type != Scheduler::kPolynomial &&
                   t.lr_scheduler_type != Scheduler::kPolynomialJump,
               "training.lr_power", "lr_scheduler_type = \"polynomial\" or \"polynomial_jump\"",
               "remove it, or use one of these schedules");
  if (t.lr_scheduler_type == Scheduler::kPolynomial && t.lr_end >= t.learning_rate) {
    refuse(s, "training.lr_end", "training.lr_end is not below training.learning_rate",
           "lower it: the schedule falls from learning_rate to lr_end");
  }
  if (t.lr_scheduler_type == Scheduler::kCosineWithMinLr && t.min_lr_ratio == 0.0) {
    refuse(s, "training.lr_scheduler_type", "lr_scheduler_type = \"cosine_with_min_lr\" needs training.min_lr_ratio",
           "set it, or use lr_scheduler_type = \"cosine\"");
  }
}

// Adafactor has no first moment, and its rule for the second needs no numbers.
void check_optimizer_keys(const Settings& s) {
  const TrainingSettings& t = s.training;
  const TrainingSettings defaults;
  const std::pair<bool, const char*> keys[] = {{t.adam_beta1 != defaults.adam_beta1, "adam_beta1"},
                                               {t.adam_beta2 != defaults.adam_beta2, "adam_beta2"},
                                               {t.adam_epsilon != defaults.adam_epsilon, "adam_epsilon"}};
  for (const auto& [is_given, key] : keys) {
    if (is_given && t.optimizer == Optimizer::kAdafactor)
      refuse(s, std::string("training.") + key,
             std::string("training.") + key + " does not apply to optimizer = \"adafactor\"", "remove it");
  }
}

// Each gradient is gone before the next one is there.
void check_fused_update(const Settings& s) {
  const TrainingSettings& t = s.training;
  if (!t.fused_update) return;
  const std::string key = "training.fused_update";
  if (t.optimizer != Optimizer::kAdafactor)
    refuse(s, key, key + " applies only to optimizer = \"adafactor\"",
           "use that optimizer, or remove it: the moments of others take more memory than gradients");
  if (t.max_grad_norm > 0.0)
    refuse(s, key, key + " cannot clip: the norm of all gradients is known only when all are used",
           "set training.max_grad_norm = 0.0, or remove fused_update");
  if (t.gradient_accumulation_steps > 1)
    refuse(s, key, key + " keeps no gradients that could be accumulated",
           "set training.gradient_accumulation_steps = 1, or remove fused_update");
  if (s.distributed.world_size > 1)
    refuse(s, key, key + " keeps no gradients that could be summed over ranks",
           "set distributed.world_size = 1, or remove fused_update");
}

}  // namespace

void check_updates(const Settings& settings) {
  check_schedule(settings);
  check_schedule_keys(settings);
  check_optimizer_keys(settings);
  check_fused_update(settings);
}

namespace {

void check_summary_column(const Settings& s) {
  const DataSettings& data = s.data;
  if (data.summary_column.empty()) return;
  need_head(s, true, "data.summary_column", &HeadWords::reads_targets, "writes a text");
  for (const std::string* const other : {&data.text_column, &data.label_column}) {
    if (data.summary_column == *other)
      refuse(s, "data.summary_column", "data.summary_column and another column are both \"" + *other + "\"",
             "give each a column of its own");
  }
}

// The keys of random numbers of a source's and a target's tokens share one range.
void check_lengths(const Settings& s) {
  const DataSettings& data = s.data;
  const std::int64_t target = std::max(data.max_target_length, data.val_max_target_length);
  const std::int64_t together = data.max_source_length + target;
  if (together <= kMaxTokensOfTexts) return;
  const bool is_of_evaluation = target > data.max_target_length;
  refuse(s, "data.max_source_length",
         "data.max_source_length = " + std::to_string(data.max_source_length) + " and data." +
             (is_of_evaluation ? "val_max_target_length" : "max_target_length") + " = " + std::to_string(target) +
             " allow " + std::to_string(together) + " tokens a sample",
         "lower them: a source and its target may have " + std::to_string(kMaxTokensOfTexts) + " together");
}

void need_embedded_texts(const Settings& s, bool is_set, const char* key, const char* what_to_do = "remove it") {
  need_head(s, is_set, key, &HeadWords::embeds_texts, "embeds texts", what_to_do);
}

void check_different_columns(const Settings& s) {
  const DataSettings& data = s.data;
  std::vector<std::string> columns = {data.text_column, data.text_pair_column, data.label_column};
  for (const std::string& column : data.negative_columns) {
    const bool is_taken = std::find(columns.begin(), columns.end(), column) != columns.end();
    if (column.empty() || is_taken)
      refuse(s, "data.negative_columns",
             column.empty() ? "data.negative_columns has an empty name"
                            : "data.negative_columns names \"" + column + "\", which another column key names too",
             "name a column of its own for each");
    columns.push_back(column);
  }
}

// Scores are labels, one of each pair.
void check_scores(const Settings& s) {
  const bool has_scores = !s.data.label_column.empty();
  if (has_negatives(s.training.loss)) {
    if (has_scores)
      refuse(s, "data.label_column", "data.label_column is set, but training.loss ranks texts and reads no scores",
             "remove it, or set training.loss = \"cosent\" or \"cosine_similarity\"");
    return;
  }
  if (!has_scores)
    refuse(s, "data.label_column", "training.loss compares scores, but data.label_column is not set",
           "name the column of the scores");
  for (const auto& [is_set, key] : {std::pair{!s.data.negative_columns.empty(), "data.negative_columns"},
                                    {s.training.gather_negatives, "training.gather_negatives"}}) {
    if (is_set)
      refuse(s, key, std::string(key) + " is set, but training.loss compares pairs and has no negatives",
             "remove it, or set training.loss = \"multiple_negatives_ranking\"");
  }
}

// The three files of a retrieval stand together, and in place of the split's own.
void check_retrieval(const Settings& s, const std::string& split, const RetrievalFiles& files, bool has_other_rows,
                     std::int64_t most) {
  const std::string corpus = "data." + split + "_corpus";
  const std::pair<const PathsSetting&, std::string> keys[] = {{files.corpus, corpus},
                                                              {files.queries, "data." + split + "_queries"},
                                                              {files.relevance, "data." + split + "_relevance"}};
  const auto given =
      std::find_if(std::begin(keys), std::end(keys), [](const auto& key) { return key.first.is_given(); });
  if (given == std::end(keys)) return;
  for (const auto& [paths, key] : keys) {
    if (!paths.is_given())
      refuse(s, given->second, given->second + " is set, but " + key + " is not",
             "set all three files of the retrieval");
  }
  if (!s.head()->embeds_texts) {
    const std::string heads = heads_that(s, &HeadWords::embeds_texts, "\"");
    refuse(s, corpus, corpus + " is set, but the head \"" + s.head()->name + "\" embeds no texts",
           heads.empty() ? "remove it" : "remove it, or set model.head = " + heads);
  }
  if (has_other_rows)
    refuse(s, corpus, corpus + " and other rows for " + split + " are both set", "remove one of them");
  if (most > 0)
    refuse(s, corpus, "the documents and queries of " + corpus + " cannot be limited to the first ones",
           "remove the limit on its samples, or shorten the files");
}

void check_pieces(const Settings& s) {
  const TrainingSettings& t = s.training;
  const std::string key = "training.mini_batch_size";
  if (t.mini_batch_size == 0) return;
  need_embedded_texts(s, true, key.c_str(), "use training.gradient_accumulation_steps");
  if (t.mini_batch_size > t.per_device_train_batch_size)
    refuse(s, key,
           key + " = " + std::to_string(t.mini_batch_size) + " is larger than the batch: " +
               "training.per_device_train_batch_size = " + std::to_string(t.per_device_train_batch_size),
           "lower it, or remove it");
  if (t.fused_update)
    refuse(s, "training.fused_update", "training.fused_update keeps no gradients that the pieces of " + key + " add to",
           "remove one of them");
}

}  // namespace

void check_embedded_texts(const Settings& s) {
  check_pieces(s);
  if (s.head()->embeds_texts) check_scores(s);
  const DataSettings& data = s.data;
  need_embedded_texts(s, !data.negative_columns.empty(), "data.negative_columns");
  need_embedded_texts(s, !data.prompts.empty(), "data.prompts");
  const bool has_validation = data.validation_file.is_given() || data.validation_share > 0.0;
  check_retrieval(s, "validation", data.validation_retrieval(), has_validation, data.max_eval_samples);
  check_retrieval(s, "test", data.test_retrieval(), data.test_file.is_given(), data.max_predict_samples);
  if (s.training.do_eval && s.training.do_predict && data.evaluation_file().is_given() &&
      data.prediction_file().is_given() && data.validation_corpus.is_given() != data.test_corpus.is_given())
    refuse(s, data.test_corpus.is_given() ? "data.test_corpus" : "data.validation_corpus",
           "one of validation and test is a retrieval from files, and the other is not",
           "give both a corpus, queries and relevance, or neither");
  if (!data.negative_columns.empty() && data.text_pair_column.empty())
    refuse(s, "data.negative_columns", "data.negative_columns is set, but data.text_pair_column is not",
           "name the column of the texts that belong to those of data.text_column");
  if (s.training.batch_sampler == BatchSampler::kNoDuplicates && !s.head()->embeds_texts) {
    const std::string heads = heads_that(s, &HeadWords::embeds_texts, "\"");
    refuse(s, "training.batch_sampler",
           "training.batch_sampler = \"no_duplicates\", but " +
               (heads.empty() ? "no head of this model embeds texts" : "only the head " + heads + " embeds texts"),
           "set it to \"batch_sampler\"");
  }
  check_different_columns(s);
  if (!data.prompts.empty() && data.prompts.size() != data.text_columns())
    refuse(s, "data.prompts",
           "data.prompts has " + count_of(data.prompts.size(), "text") + ", but a row has " +
               count_of(data.text_columns(), "text column"),
           "write one for each of text_column, text_pair_column and negative_columns, \"\" for none");
}

void check_targets(const Settings& settings) {
  check_summary_column(settings);
  if (!settings.head()->reads_targets) return;
  check_lengths(settings);
  if (!settings.data.ignore_pad_token_for_loss && !settings.data.pad_to_max_length) {
    refuse(
        settings, "data.ignore_pad_token_for_loss",
        "data.ignore_pad_token_for_loss = false needs data.pad_to_max_length = true: without it the number of padded "
        "labels would depend on the other samples of a batch",
        "set it, or ignore_pad_token_for_loss = true");
  }
}

void check_generation(const Settings& settings) {
  const TrainingSettings& training = settings.training;
  if (training.generate_ema && !training.predict_with_generate)
    refuse(settings, "training.generate_ema",
           "training.generate_ema = true needs training.predict_with_generate = true",
           "set it, or remove generate_ema");
  if (training.generate_ema && training.ema_decay == 0.0)
    refuse(settings, "training.generate_ema", "training.generate_ema = true, but no average of the weights is kept",
           "set training.ema_decay, or remove generate_ema");
  if (!training.predict_with_generate) return;
  if (!settings.head()->reads_targets)
    refuse(settings, "training.predict_with_generate",
           "training.predict_with_generate = true, but this model writes no text", "remove it");
  const std::int64_t longest = settings.generation.length(settings.data);
  const std::int64_t shortest = settings.generation.least_length();
  if (shortest > longest) {
    const char* const key =
        settings.generation.min_new_tokens > 0 ? "generation.min_new_tokens" : "generation.min_length";
    refuse(settings, key,
           std::string(key) + " asks for " + std::to_string(shortest) + " tokens or more, but texts have " +
               std::to_string(longest) + " at most (both count the start token)",
           "lower it, or raise generation.max_length");
  }
}

namespace {

void check_idle_keys(const Settings& s) {
  for (const Key& key : all_keys()) {
    const std::string name = qualified_name(key);
    if (is_idle(key, s) && is_written(s, name))
      refuse(s, name, name + " has no effect " + (s.draw.is_given ? "in a run that draws" : "with [serve]"),
             "remove it");
  }
}

}  // namespace

void check_tables(const Settings& settings) {
  const bool draws = settings.draw.is_given, serves = only_serves(settings);
  if (draws || serves) {
    const std::string own = draws ? "[draw]" : "[serve]";
    for (const char* table : {"training", "data", "media_engine", "generation", "serve"}) {
      if (is_written(settings, table) && (draws || table != std::string_view("serve")))
        refuse(settings, table, std::string("[") + table + "] stands beside " + own,
               draws ? "remove one of them: a file that draws neither trains nor serves"
                     : "remove one of them, or write training.output_dir, which is then trained and served");
    }
  }
  const std::string model = "model.model_name_or_path";
  if (!is_written(settings, model)) return;  // said elsewhere
  const std::string shown = settings.model.model_name_or_path.shown();
  if (draws && !settings.words.draws)
    refuse(settings, model, "the model in " + shown + " draws no pictures, but the file has [draw]",
           "name the folder of a pipeline (model_index.json), or write [training] in place of [draw]");
  if (!draws && !serves && settings.words.heads.empty())
    refuse(settings, model, shown + " holds a pipeline that draws pictures, and cannot be trained",
           "write [draw] in place of [training]");
}

void check_drawing(const Settings& s) {
  const DrawSettings& draw = s.draw;
  if (draw.prompts.empty() == !draw.prompts_file.is_given())
    refuse(s, draw.prompts.empty() ? "draw" : "draw.prompts_file",
           draw.prompts.empty() ? "[draw] has neither prompts nor prompts_file"
                                : "draw.prompts and draw.prompts_file are both set",
           draw.prompts.empty() ? "write prompts = [\"...\"]" : "remove one");
  if (draw.guidance_scale <= 1.0 && !draw.negative_prompt.empty())
    refuse(s, "draw.negative_prompt",
           "draw.negative_prompt has no effect without guidance: draw.guidance_scale is 1 or less",
           "remove it, or raise guidance_scale");
  if (draw.latents_file.is_given() && is_written(s, "draw.seed"))
    refuse(s, "draw.seed", "draw.seed has no effect: the noise is that of draw.latents_file", "remove one of them");
  const std::string& output = s.run.output_dir.resolved;
  const bool is_of_model = output == s.model.model_name_or_path.resolved || output == s.model.tokenizer_name.resolved;
  if (s.run.output_dir.is_given() && is_of_model)
    refuse(s, "draw.output_dir", "draw.output_dir is also the folder of the model or tokenizer", "choose another");
  if (!(draw.guidance_scale >= 0.0))
    refuse(s, "draw.guidance_scale", "draw.guidance_scale is not a number", "write 7.5, or another number");
  check_idle_keys(s);
}

void check_serving(const Settings& s) {
  const ServeSettings& serve = s.serve;
  if (trains_and_serves(s) && !s.training.do_train)
    refuse(s, "serve", "[serve] stands beside a [training] that trains nothing",
           "write data.train_file, or model.model_name_or_path and [serve] alone");
  if (trains_and_serves(s) && s.run.resume == Resume::kNever)
    refuse(s, "training.resume",
           "training.resume = \"never\" would refuse the folder that was trained and is to be served", "leave it out");
  if (serve.max_client_batch_size > serve.max_concurrent_requests)
    refuse(s, "serve.max_client_batch_size",
           "serve.max_client_batch_size = " + std::to_string(serve.max_client_batch_size) +
               " is more than serve.max_concurrent_requests = " + std::to_string(serve.max_concurrent_requests) +
               ": such a request could never be admitted",
           "lower it, or raise serve.max_concurrent_requests");
  if (serve.access_log_requests && !serve.access_log.is_given())
    refuse(s, "serve.access_log_requests", "serve.access_log_requests = true, but no log is kept",
           "write serve.access_log too, or remove it");
  check_idle_keys(s);
}

// Valid settings that this build cannot do yet, in one place; the list shrinks.

void refuse_unsupported(const Settings& settings) {
  struct Missing {
    bool is_asked_for;
    const char* key;
    const char* what;
    const char* what_to_do;
  };
  const TrainingSettings& training = settings.training;
  const Missing missing[] = {
      {settings.model.precision == Precision::kBf16 && settings.machine.products == Products::kOnednn,
       "machine.products", "bf16 with the matrix products of oneDNN", "set products = \"ours\""},
      {settings.distributed.world_size > 512, "distributed.world_size", "more than 512 ranks", "set 512 or fewer"},
      {settings.distributed.distribution_strategy == Strategy::kSharded && settings.distributed.sharded_stage > 1 &&
           training.gradient_accumulation_steps > 1,
       "training.gradient_accumulation_steps", "gradient accumulation with stages 2 and 3 of sharded",
       "set it to 1, or distributed.sharded_stage = 1"},
      {settings.distributed.distribution_strategy == Strategy::kSharded && settings.distributed.sharded_stage > 1 &&
           training.mini_batch_size > 0,
       "training.mini_batch_size", "batches in pieces with stages 2 and 3 of sharded",
       "remove it, or set distributed.sharded_stage = 1"},
  };
  for (const Missing& m : missing) {
    if (m.is_asked_for) {
      throw Error{ErrorKind::kSettings, where_written(settings, m.key),
                  std::string(m.key) + ": this version does not support " + m.what, m.what_to_do};
    }
  }
}

}  // namespace bascule
