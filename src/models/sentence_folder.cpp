// SPDX-License-Identifier: Apache-2.0
#include "src/models/sentence_folder.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <utility>

#include "src/base/error.h"
#include "src/models/config_values.h"

namespace bascule {
namespace {

constexpr char kPoolingFolder[] = "1_Pooling", kFactsFile[] = "config_sentence_transformers.json",
               kLengthFile[] = "sentence_bert_config.json", kTokenizerFile[] = "tokenizer_config.json";
// The body's settings: the first of these that exists.
constexpr const char* kLengthFiles[] = {kLengthFile,
                                        "sentence_roberta_config.json",
                                        "sentence_distilbert_config.json",
                                        "sentence_camembert_config.json",
                                        "sentence_albert_config.json",
                                        "sentence_xlm-roberta_config.json",
                                        "sentence_xlnet_config.json"};
constexpr char kLengthKey[] = "max_seq_length", kOnlyMeanClsMax[] = "mean, cls and max are supported";
// In the order of the enumerators.
constexpr const char* kPoolingNames[] = {"mean", "cls", "max"};
constexpr const char* kSimilarityNames[] = {"cosine", "dot"};

struct PoolingFlag {
  const char *key, *mode;
};
// The older form of a pooling.
constexpr PoolingFlag kPoolingFlags[] = {{"pooling_mode_cls_token", "cls"},
                                         {"pooling_mode_max_tokens", "max"},
                                         {"pooling_mode_mean_tokens", "mean"},
                                         {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens"},
                                         {"pooling_mode_weightedmean_tokens", "weightedmean"},
                                         {"pooling_mode_lasttoken", "lasttoken"}};

bool file_is_there(const std::string& path) { return std::filesystem::is_regular_file(path); }

Json read_object(const std::string& path) {
  Json object = read_json_file(path);
  if (!object.is_object()) refuse_config(path, "is not a JSON object");
  return object;
}

// Reads a file that not every body has.
Json read_own_object(SentenceFolder* sentence, const std::string& path) {
  sentence->files.push_back(path.substr(sentence->folder.size() + 1));
  return read_object(path);
}

// A module of modules.json.
struct SentenceModule {
  std::string kind;  // the last part of its type
  std::string path;  // its folder
};

std::string joined(const std::string& folder, const std::string& path) {
  return path.empty() ? folder : folder + "/" + path;
}

SentenceModule read_module(const Json& entry, std::size_t index, const std::string& path) {
  const std::string name = "module " + std::to_string(index);
  if (!entry.is_object()) refuse_config(path, name + " is not an object");
  const std::string type = get_string(entry, "type", path);
  SentenceModule module;
  module.kind = type.substr(type.rfind('.') + 1);
  module.path = get_string(entry, "path", path, "");
  constexpr char kLibrary[] = "sentence_transformers.";
  constexpr const char* kKnown[] = {"Transformer", "Pooling", "Normalize"};
  if (type.rfind(kLibrary, 0) != 0 || std::find(std::begin(kKnown), std::end(kKnown), module.kind) == std::end(kKnown))
    refuse_config(path, name + " of type \"" + type + "\" is not supported",
                  "supported: Transformer, Pooling and Normalize of sentence_transformers, in this order");
  // The body's files are copied and listed as those of the folder, so they lie below it.
  const std::filesystem::path below(module.path);
  if (below.is_absolute() || std::find(below.begin(), below.end(), "..") != below.end())
    refuse_config(path, name + " has the path \"" + module.path + "\"", "it must be a folder below this one");
  return module;
}

std::vector<SentenceModule> read_modules(const std::string& path) {
  const Json json = read_json_file(path);
  if (!json.is_array()) refuse_config(path, "is not a list of modules");
  std::vector<SentenceModule> modules;
  for (const Json& entry : json) modules.push_back(read_module(entry, modules.size(), path));
  if (modules.empty() || modules.front().kind != "Transformer")
    refuse_config(path, "its first module is no Transformer", "it must be the body of the model");
  if (modules.size() < 2 || modules[1].kind != "Pooling")
    refuse_config(path, "has no Pooling behind the Transformer", "rows of tokens become a vector only by a pooling");
  for (std::size_t i = 2; i < modules.size(); ++i) {
    if (modules[i].kind != "Normalize")
      refuse_config(path, "module " + std::to_string(i) + " is another " + modules[i].kind,
                    "one Transformer and one Pooling are supported");
    if (i > 2) refuse_config(path, "has two modules Normalize", "remove one: the second changes nothing but rounding");
  }
  return modules;
}

Pooling pooling_of(const std::string& mode, const std::string& path) {
  const auto* const found = std::find(std::begin(kPoolingNames), std::end(kPoolingNames), mode);
  if (found == std::end(kPoolingNames))
    refuse_config(path, "pooling_mode \"" + mode + "\" is not supported", kOnlyMeanClsMax);
  return static_cast<Pooling>(found - std::begin(kPoolingNames));
}

// The newer key beats the older ones.
std::vector<std::string> pooling_modes(const Json& json, const std::string& path) {
  std::vector<std::string> modes;
  if (const Json* const mode = find_member(json, "pooling_mode", path); mode != nullptr) {
    if (mode->is_array()) return get_strings(json, "pooling_mode", path);
    return {get_string(json, "pooling_mode", path)};
  }
  for (const auto& [key, mode] : kPoolingFlags) {
    if (get_bool(json, key, path, false)) modes.emplace_back(mode);
  }
  return modes;
}

void read_pooling(SentenceFolder* sentence, const std::string& path, std::int64_t width) {
  const Json json = read_own_object(sentence, path);
  constexpr const char* kDimensions[] = {"embedding_dimension", "word_embedding_dimension"};
  for (const auto& [key, value] : json.items()) {
    const auto is_flag = [&name = key](const PoolingFlag& flag) { return name == flag.key; };
    if (key != kDimensions[0] && key != kDimensions[1] && key != "pooling_mode" && key != "include_prompt" &&
        std::none_of(std::begin(kPoolingFlags), std::end(kPoolingFlags), is_flag))
      refuse_config(path, "the key \"" + key + "\" is not known", "the library refuses it too; remove it");
  }
  const char* const dimension = kDimensions[json.contains(kDimensions[0]) ? 0 : 1];
  const std::int64_t given = get_int(json, dimension, path);
  if (given != width)
    refuse_config(path,
                  std::string(dimension) + " = " + std::to_string(given) + ", but the rows of the model have " +
                      std::to_string(width) + " numbers",
                  "write " + std::to_string(width));
  const std::vector<std::string> modes = pooling_modes(json, path);
  if (modes.empty())
    refuse_config(path, "names no pooling",
                  "versions of the library disagree on what that means; " + std::string(kOnlyMeanClsMax));
  if (modes.size() > 1)
    refuse_config(path, "several poolings, " + and_list(modes) + ", are not supported",
                  "exactly one of mean, cls and max is");
  sentence->pooling = pooling_of(modes.front(), path);
  sentence->include_prompt = get_bool(json, "include_prompt", path, true);
}

// Values with which the library calls the body as we do; every other key changes tokens or rows.
bool is_usual_call(const std::string& key, const Json& value) {
  static const std::pair<const char*, Json> kUsual[] = {
      {"transformer_task", "feature-extraction"},
      {"module_output_name", "token_embeddings"},
      {"modality_config", {{"text", {{"method", "forward"}, {"method_output_name", "last_hidden_state"}}}}}};
  for (const auto& [usual, wanted] : kUsual) {
    if (key == usual) return value == wanted;
  }
  if (key == "unpad_inputs") return true;  // another way to the same rows
  return value.is_null() || (value.is_object() && value.size() == 0);
}

// The length that the file states, and the case.
std::optional<std::int64_t> read_call(SentenceFolder* sentence) {
  const auto* const name = std::find_if(std::begin(kLengthFiles), std::end(kLengthFiles),
                                        [&](const char* file) { return file_is_there(sentence->body + "/" + file); });
  if (name == std::end(kLengthFiles)) return {};
  const std::string path = sentence->body + "/" + *name;
  const Json json = read_own_object(sentence, path);
  for (const auto& [key, value] : json.items()) {
    if (key != kLengthKey && key != "do_lower_case" && !is_usual_call(key, value))
      refuse_config(path, key + " = " + json_text(value) + " is not supported",
                    "it changes the tokens or the rows that are pooled");
  }
  sentence->lower_case = get_bool(json, "do_lower_case", path, false);
  if (find_member(json, kLengthKey, path) == nullptr) return {};
  sentence->length_source = std::string(kLengthKey) + " of " + *name;
  return get_int(json, kLengthKey, path);
}

// Infinity where the tokenizer states none: Transformers writes 1e30 for that.
double tokenizer_length(const std::string& body) {
  const std::string path = body + "/" + kTokenizerFile;
  if (!file_is_there(path)) return HUGE_VAL;
  const double length = get_number(read_object(path), "model_max_length", path, HUGE_VAL);
  if (!(length >= 1.0)) refuse_config(path, "model_max_length is less than 1");
  return length;
}

// room: the tokens that the body has positions for.
void read_length(SentenceFolder* sentence, std::int64_t room) {
  const std::optional<std::int64_t> given = read_call(sentence);
  const double of_tokenizer = given ? 0.0 : tokenizer_length(sentence->body);
  const bool is_of_tokenizer = !given && of_tokenizer < static_cast<double>(room);
  if (is_of_tokenizer) {
    sentence->length_source = std::string("model_max_length of ") + kTokenizerFile;
  } else if (!given) {
    sentence->length_source = "the positions of config.json";
  }
  sentence->max_seq_length = given ? *given : is_of_tokenizer ? static_cast<std::int64_t>(of_tokenizer) : room;
  if (sentence->max_seq_length > room)
    refuse_config(sentence->body,
                  sentence->length_source + " is " + std::to_string(sentence->max_seq_length) +
                      ", but the model has positions for " + std::to_string(room) + " tokens",
                  "write at most " + std::to_string(room));
  if (sentence->max_seq_length < 2)
    refuse_config(sentence->body, sentence->length_source + " is " + std::to_string(sentence->max_seq_length),
                  "a text has two special tokens");
}

void read_facts(SentenceFolder* sentence) {
  for (const char* name : {"query", "document"}) sentence->prompts[name] = "";  // every model of the library has them
  const std::string path = sentence->folder + "/" + kFactsFile;
  if (!file_is_there(path)) return;
  const Json json = read_own_object(sentence, path);
  constexpr char kKind[] = "SentenceTransformer";
  if (const std::string kind = get_string(json, "model_type", path, kKind); kind != kKind)
    refuse_config(path, "model_type = \"" + kind + "\" is not supported", std::string("only ") + kKind + " is");
  if (const Json* const cut = find_member(json, "truncate_dim", path); cut != nullptr)
    refuse_config(path, "truncate_dim = " + json_text(*cut) + " is not supported",
                  "versions of the library disagree on it; remove it");
  const std::string similarity = get_string(json, "similarity_fn_name", path, kSimilarityNames[0]);
  const auto* const found = std::find(std::begin(kSimilarityNames), std::end(kSimilarityNames), similarity);
  if (found == std::end(kSimilarityNames))
    refuse_config(path, "similarity_fn_name = \"" + similarity + "\" is not supported", "cosine and dot are");
  sentence->similarity = static_cast<Similarity>(found - std::begin(kSimilarityNames));
  if (find_member(json, "prompts", path) != nullptr) {
    const Json& prompts = get_object(json, "prompts", path);
    for (const auto& [name, prompt] : prompts.items()) sentence->prompts[name] = get_string(prompts, name, path, "");
  }
  sentence->default_prompt = get_string(json, "default_prompt_name", path, "");
  if (!sentence->default_prompt.empty() && sentence->prompts.count(sentence->default_prompt) == 0)
    refuse_config(path, "default_prompt_name = \"" + sentence->default_prompt + "\", but prompts has no such name");
}

}  // namespace

std::string body_folder(const std::string& folder) {
  const std::string modules = folder + "/" + kModulesFile;
  return file_is_there(modules) ? joined(folder, read_modules(modules).front().path) : folder;
}

SentenceFolder read_sentence_folder(const std::string& folder, std::int64_t width, const TextShape& text) {
  SentenceFolder sentence;
  sentence.folder = sentence.body = folder;
  const std::string modules_path = folder + "/" + kModulesFile;
  sentence.has_modules = file_is_there(modules_path);
  if (sentence.has_modules) {
    const std::vector<SentenceModule> modules = read_modules(modules_path);
    sentence.files.push_back(kModulesFile);
    sentence.body = joined(folder, modules[0].path);
    read_pooling(&sentence, joined(folder, modules[1].path) + "/config.json", width);
    sentence.normalize = modules.size() > 2;
  }
  read_facts(&sentence);
  read_length(&sentence, text.max_positions - text.positions.first);
  return sentence;
}

std::string sentence_facts(const SentenceFolder& folder) {
  return std::string(kPoolingNames[static_cast<int>(folder.pooling)]) + " pooling" +
         (folder.normalize ? ", norm" : ", no norm") + (folder.has_modules ? "" : " (no modules.json)") + ", " +
         count_of(folder.max_seq_length, "token") + " (" + folder.length_source + ")";
}

std::string prompt_named(const SentenceFolder& folder, const std::string* name) {
  const std::string& wanted = name == nullptr ? folder.default_prompt : *name;
  if (wanted.empty()) return "";
  const auto found = folder.prompts.find(wanted);
  if (found == folder.prompts.end()) {
    std::vector<std::string> names;
    for (const auto& [known, prompt] : folder.prompts) names.push_back("\"" + known + "\"");
    throw Error(ErrorKind::kSettings, folder.folder, "has no prompt \"" + wanted + "\"", "it has " + and_list(names));
  }
  if (!folder.include_prompt && !found->second.empty())
    throw Error(ErrorKind::kData, folder.folder,
                "include_prompt is false: the rows of the prompt \"" + wanted +
                    "\" would be left out of the pooling, "
                    "which is not supported",
                "use no prompt");
  return found->second;
}

std::vector<NamedText> sentence_files(const SentenceFolder& folder, std::int64_t width) {
  const auto module = [](int index, const char* path, const char* kind) {
    return Json{{"idx", index},
                {"name", std::to_string(index)},
                {"path", path},
                {"type", std::string("sentence_transformers.models.") + kind}};
  };
  Json modules = Json::array({module(0, "", "Transformer"), module(1, kPoolingFolder, "Pooling")});
  if (folder.normalize) modules.push_back(module(2, "2_Normalize", "Normalize"));
  Json pooling = {{"word_embedding_dimension", width}};
  for (const auto& [key, mode] : kPoolingFlags) {
    // Versions 2.0 to 2.2 know no others.
    const std::string name = mode;
    if (name == "weightedmean" || name == "lasttoken") continue;
    pooling[key] = name == kPoolingNames[static_cast<int>(folder.pooling)];
  }
  if (!folder.include_prompt) pooling["include_prompt"] = false;
  const Json length = {{kLengthKey, folder.max_seq_length}, {"do_lower_case", folder.lower_case}};
  Json prompts = Json::object();
  for (const auto& [name, prompt] : folder.prompts) prompts[name] = prompt;
  // The versions whose layout this is.
  const Json facts = {
      {"__version__", {{"sentence_transformers", "2.0.0"}, {"transformers", "4.6.1"}, {"pytorch", "1.8.1"}}},
      {"prompts", prompts},
      {"default_prompt_name", folder.default_prompt.empty() ? Json() : Json(folder.default_prompt)},
      {"similarity_fn_name", kSimilarityNames[static_cast<int>(folder.similarity)]}};
  std::vector<NamedText> files;
  for (const auto& [name, json] : {std::pair<std::string, Json>{std::string(kPoolingFolder) + "/config.json", pooling},
                                   {kLengthFile, length},
                                   {kFactsFile, facts},
                                   {kModulesFile, modules}}) {
    files.push_back({name, json_text(json, 2) + "\n"});
  }
  return files;
}

}  // namespace bascule
