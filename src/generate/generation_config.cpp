// SPDX-License-Identifier: Apache-2.0
#include "src/generate/generation_config.h"

#include <cmath>
#include <filesystem>

#include "src/base/error.h"
#include "src/json/json.h"

namespace bascule {
namespace {

// Transformers' default, where neither a length nor a number of new tokens is named.
constexpr std::int64_t kNewTokens = 20;

// A key that changes what is generated in a way that this program does not know, unless it has one of these values.
struct Unknown {
  const char* key;
  const char* harmless;  // as JSON, beside null
};
constexpr Unknown kUnknown[] = {{"do_sample", "false"},
                                {"repetition_penalty", "1.0"},
                                {"encoder_repetition_penalty", "1.0"},
                                {"encoder_no_repeat_ngram_size", "0"},
                                {"diversity_penalty", "0.0"},
                                {"num_beam_groups", "1"},
                                {"num_return_sequences", "1"},
                                {"penalty_alpha", "0.0"},
                                {"guidance_scale", "1.0"},
                                {"renormalize_logits", "false"},
                                {"remove_invalid_values", "false"},
                                {"forced_decoder_ids", "null"},
                                {"forced_bos_token_id", "null"},
                                {"forced_eos_token_id", "null"},
                                {"force_words_ids", "null"},
                                {"bad_words_ids", "null"},
                                {"constraints", "null"},
                                {"sequence_bias", "null"},
                                {"suppress_tokens", "null"},
                                {"begin_suppress_tokens", "null"},
                                {"exponential_decay_length_penalty", "null"},
                                {"prompt_lookup_num_tokens", "null"},
                                {"stop_strings", "null"},
                                {"watermarking_config", "null"},
                                {"dola_layers", "null"},
                                {"token_healing", "false"},
                                {"max_time", "null"}};

// Longer texts than this are a mistake, and would not fit the numbers of a cache's places.
constexpr std::int64_t kMostLength = 1 << 20;
constexpr double kMostPenalty = 100.0;

void refuse_unknown(const Json& object, const std::string& where) {
  for (const Unknown& one : kUnknown) {
    const Json* const value = find_member(object, one.key, where);
    const bool is_empty = value != nullptr && value->is_array() && value->size() == 0;
    if (value == nullptr || is_empty || *value == parse_json(one.harmless, where)) continue;
    throw Error(ErrorKind::kData, where, std::string(one.key) + " = " + json_text(*value) + " is not supported",
                std::string("remove the key, or set it to ") + one.harmless);
  }
}

std::int32_t id_of(std::int64_t id, const char* key, const std::string& where) {
  if (id < 0 || id > INT32_MAX)
    throw Error(ErrorKind::kData, where, std::string(key) + " = " + std::to_string(id) + " is not a token id");
  return static_cast<std::int32_t>(id);
}

void read_end_ids(const Json& object, const std::string& where, SearchOptions* options) {
  const Json* const value = find_member(object, "eos_token_id", where);
  if (value == nullptr) return;
  options->end_ids.clear();
  if (!value->is_array()) {
    options->end_ids.push_back(id_of(get_int(object, "eos_token_id", where), "eos_token_id", where));
    return;
  }
  for (const std::int64_t id : get_ints(object, "eos_token_id", where))
    options->end_ids.push_back(id_of(id, "eos_token_id", where));
}

void read_ids(const Json& object, const std::string& where, SearchOptions* options) {
  const auto id = [&](const char* key, std::int32_t* place) {
    *place = id_of(get_int(object, key, where, *place), key, where);
  };
  id("decoder_start_token_id", &options->start_id);
  id("pad_token_id", &options->pad_id);
  read_end_ids(object, where, options);
}

// The file that speaks of generation.
struct OptionsFile {
  std::string path;
  Json json;
  std::string note;     // what is missing there
  bool is_own = false;  // not config.json
};

OptionsFile open_options(const std::string& folder, SearchOptions* options) {
  const std::string old_path = folder + "/config.json", own_path = folder + "/generation_config.json";
  options->end_ids = {1};
  if (!std::filesystem::exists(std::filesystem::symlink_status(own_path)))
    return {old_path, read_json_file(old_path), "", false};
  OptionsFile file{own_path, read_json_file(own_path), "", true};
  if (!file.json.is_object())
    throw Error(ErrorKind::kData, own_path, "is not a JSON object", "correct the file, or remove it");
  // Transformers raises where the start is missing there, and goes on for ever where the end is.
  std::string missing;
  const Json old = read_json_file(old_path);
  for (const char* const key : {"decoder_start_token_id", "eos_token_id"}) {
    const Json* const value = find_member(old, key, old_path);
    if (find_member(file.json, key, own_path) != nullptr || value == nullptr) continue;
    file.json[key] = *value;
    missing += (missing.empty() ? "no " : " and no ") + std::string(key);
  }
  if (!missing.empty()) file.note = own_path + ": " + missing + "; that of config.json is used";
  return file;
}

void check_ids(const SearchOptions& options, const std::string& where) {
  if (options.end_ids.empty())
    throw Error(ErrorKind::kData, where, "eos_token_id is empty", "name the token that ends a text");
  const auto check_id = [&](std::int32_t id, const char* key) {
    if (id < options.vocabulary_size) return;
    throw Error(ErrorKind::kData, where,
                std::string(key) + " = " + std::to_string(id) + " is outside the vocabulary of " +
                    std::to_string(options.vocabulary_size),
                "");
  };
  check_id(options.start_id, "decoder_start_token_id");
  check_id(options.pad_id, "pad_token_id");
  for (const std::int32_t id : options.end_ids) check_id(id, "eos_token_id");
}

EarlyStopping early_stopping_of(const Json& value, const std::string& where) {
  const std::string text = json_text(value);
  if (text == "false") return EarlyStopping::kNo;
  if (text == "true") return EarlyStopping::kYes;
  if (text == "\"never\"") return EarlyStopping::kNever;
  throw Error(ErrorKind::kData, where, "early_stopping = " + text + " is not valid", "use false, true or \"never\"");
}

Json early_stopping_json(EarlyStopping value) {
  return value == EarlyStopping::kNever ? Json("never") : Json(value == EarlyStopping::kYes);
}

// config.json without its other keys.
Json options_of_config(const Json& config) {
  Json options = Json::object();
  const auto keep = [&](const char* key) {
    if (config.contains(key)) options[key] = config[key];
  };
  for (const char* const key : {"bos_token_id", "num_beams", "length_penalty", "no_repeat_ngram_size", "early_stopping",
                                "max_length", "min_length", "max_new_tokens", "min_new_tokens"})
    keep(key);
  for (const Unknown& one : kUnknown) keep(one.key);
  return options;
}

void write_search(const SearchOptions& options, Json* json) {
  for (const Unknown& one : kUnknown) json->items().erase(one.key);
  for (const char* const key : {"max_new_tokens", "min_new_tokens"}) json->items().erase(key);
  (*json)["num_beams"] = options.num_beams;
  (*json)["max_length"] = options.max_length;
  (*json)["min_length"] = options.min_length;
  (*json)["length_penalty"] = options.length_penalty;
  (*json)["early_stopping"] = early_stopping_json(options.early_stopping);
  (*json)["no_repeat_ngram_size"] = options.no_repeat_ngram_size;
}

}  // namespace

void read_search_options(const Json& object, const std::string& where, SearchOptions* options) {
  refuse_unknown(object, where);
  options->num_beams = get_int(object, "num_beams", where, options->num_beams);
  options->length_penalty = get_number(object, "length_penalty", where, options->length_penalty);
  options->no_repeat_ngram_size = get_int(object, "no_repeat_ngram_size", where, options->no_repeat_ngram_size);
  if (const Json* const value = find_member(object, "early_stopping", where))
    options->early_stopping = early_stopping_of(*value, where);
  read_ids(object, where, options);
  // New tokens stand behind the start token, and count before a length does: also where they are fewer, and 0.
  options->max_length = get_int(object, "max_length", where, options->max_length);
  options->min_length = get_int(object, "min_length", where, options->min_length);
  const auto new_tokens = [&](const char* key, std::int64_t least) {
    const std::int64_t tokens = get_int(object, key, where);
    if (tokens >= least && tokens < kMostLength) return tokens;
    throw Error(ErrorKind::kData, where,
                std::string(key) + " = " + std::to_string(tokens) + " is not between " + std::to_string(least) +
                    " and " + std::to_string(kMostLength - 1));
  };
  if (find_member(object, "max_new_tokens", where) != nullptr)
    options->max_length = new_tokens("max_new_tokens", 1) + 1;
  if (find_member(object, "min_new_tokens", where) != nullptr)
    options->min_length = new_tokens("min_new_tokens", 0) + 1;
}

void check_search_options(const SearchOptions& options, const std::string& where) {
  check_ids(options, where);
  const auto refuse = [&](const std::string& what, const std::string& what_to_do) {
    throw Error(ErrorKind::kData, where, what, what_to_do);
  };
  const auto outside = [&](std::int64_t value, std::int64_t least, const char* key) {
    if (value < least)
      refuse(std::string(key) + " = " + std::to_string(value) + " is below " + std::to_string(least), "");
  };
  outside(options.num_beams, 1, "num_beams");
  outside(options.max_length, 1, "max_length");
  outside(options.min_length, 0, "min_length");
  outside(options.no_repeat_ngram_size, 0, "no_repeat_ngram_size");
  if (options.max_length > kMostLength)
    refuse("max_length = " + std::to_string(options.max_length) + " is above " + std::to_string(kMostLength), "");
  if (!(std::fabs(options.length_penalty) <= kMostPenalty))
    refuse("length_penalty is not a number from -100 to 100", "");
  if (options.num_beams > options.vocabulary_size) {
    refuse("num_beams = " + std::to_string(options.num_beams) + " is above the vocabulary's " +
               std::to_string(options.vocabulary_size) + " tokens",
           "use fewer beams");
  }
  if (options.num_beams > 1 && static_cast<std::int64_t>(options.end_ids.size()) >= options.vocabulary_size)
    refuse("eos_token_id names every token of the vocabulary", "no text could go on");
  if (options.min_length > options.max_length) {
    refuse("min_length = " + std::to_string(options.min_length) +
               " is above max_length = " + std::to_string(options.max_length),
           "no row could end; change one of them");
  }
}

GenerationConfig read_generation_config(const std::string& folder, std::int64_t vocabulary_size) {
  GenerationConfig config;
  SearchOptions& options = config.options;
  options.vocabulary_size = vocabulary_size;
  const OptionsFile file = open_options(folder, &options);
  if (!file.note.empty()) config.notes.push_back(file.note);
  read_search_options(file.json, file.path, &options);
  if (options.max_length == 0) options.max_length = 1 + kNewTokens;
  check_search_options(options, file.path);
  return config;
}

SearchOptions read_generation_ids(const std::string& folder, std::int64_t vocabulary_size) {
  SearchOptions options;
  options.vocabulary_size = vocabulary_size;
  const OptionsFile file = open_options(folder, &options);
  read_ids(file.json, file.path, &options);
  check_ids(options, file.path);
  return options;
}

Json generation_config_to_write(const std::string& folder, const SearchOptions* searched, std::int64_t length) {
  SearchOptions ids;
  const OptionsFile file = open_options(folder, &ids);
  read_ids(file.json, file.path, &ids);
  Json json = file.is_own ? file.json : options_of_config(file.json);
  json.items().erase("_from_model_config");  // Transformers would take other options of config.json
  json["decoder_start_token_id"] = ids.start_id;
  json["pad_token_id"] = ids.pad_id;
  json["eos_token_id"] = ids.end_ids.size() == 1 ? Json(ids.end_ids.front()) : Json(ids.end_ids);
  const auto names = [&](const char* key) { return find_member(json, key, file.path) != nullptr; };
  if (searched != nullptr) write_search(*searched, &json);
  if (!names("max_length") && !names("max_new_tokens")) json["max_length"] = length;
  return json;
}

}  // namespace bascule
