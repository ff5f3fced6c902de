// SPDX-License-Identifier: Apache-2.0
// Parts of reading and checking settings. check_settings() of settings.h is implemented beside them. Inside this room
// only; before the seal.
#pragma once

#include "src/settings/settings.h"

namespace bascule {

// Throws Error{kSettings} of a key, which names the place where it is written.
[[noreturn]] void refuse(const Settings& settings, const std::string& key, const std::string& what,
                         const std::string& what_to_do);

// Those of the model with a trait: "a", "a or b", each in quotes.
std::string heads_that(const Settings& settings, bool HeadWords::*trait, const char* quote);
// Throws Error{kSettings} where a key is set, but the head lacks a trait, for which only others do something.
// what_to_do: where none does.
void need_head(const Settings& settings, bool is_set, const std::string& key, bool HeadWords::*trait,
               const std::string& does, const char* what_to_do = "remove it");

// Throws Error{kSettings} where a key is set that has no effect: it applies only to something else.
void applies_only(const Settings& settings, bool is_set, const std::string& key, const std::string& to,
                  const std::string& what_to_do = "remove it, or set that");

// Whether the file has the key or the table.
bool is_written(const Settings& settings, const std::string& key);

// Fills the keys whose default depends on others: do_train, do_eval, do_predict, num_train_epochs, tokenizer_name; and,
// for a head that embeds texts, pooling, normalize and max_seq_length.
void resolve_defaults(Settings& settings);
// tokenizer_name alone, once the path of the model is resolved.
void resolve_tokenizer(Settings& settings);

// That the tables are those of one kind of run, which the model can do. Throws Error{kSettings}.
void check_tables(const Settings& settings);

// Keys of a run that draws, and of a model that is served. Throws Error{kSettings}.
void check_drawing(const Settings& settings);
void check_serving(const Settings& settings);

// Keys of the learning rate and the optimizer. Throws Error{kSettings}.
void check_updates(const Settings& settings);

// Keys of samples that are a source and a target. Throws Error{kSettings}.
void check_embedded_texts(const Settings& settings);
void check_targets(const Settings& settings);

// Keys of texts that are written in evaluations. Throws Error{kSettings}.
void check_generation(const Settings& settings);

}  // namespace bascule
