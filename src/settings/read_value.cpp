// SPDX-License-Identifier: Apache-2.0
#include "src/settings/read_value.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <iterator>
#include <optional>

#include "src/base/error.h"
#include "src/base/paths.h"
#include "src/base/utf8.h"
#include "src/settings/absolute_paths.h"
#include "src/settings/command_line_keys.h"
#include "src/settings/nearest_key.h"

namespace bascule {

std::string position(const Reading& reading, const toml::source_region& source) {
  if (reading.is_command_line) return kCommandLinePlace;
  return reading.file + ":" + std::to_string(source.begin.line) + ":" + std::to_string(source.begin.column);
}

void refuse(const std::string& where, const std::string& what, const std::string& what_to_do) {
  throw Error{ErrorKind::kSettings, where, what, what_to_do};
}

const char* type_name(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table: return "a table";
    case toml::node_type::array: return "a list";
    case toml::node_type::string: return "a string";
    case toml::node_type::integer: return "an integer";
    case toml::node_type::floating_point: return "a float";
    case toml::node_type::boolean: return "a boolean";
    default: return "a date or time";
  }
}

std::string cut(std::string_view text) {
  constexpr std::size_t kShownBytes = 60;
  if (text.size() <= kShownBytes) return std::string(text);
  return std::string(text.substr(0, utf8_cut(text, kShownBytes))) + "...";
}

namespace {

// The text of a scalar, the type of anything else: for messages.
std::string shown(const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) return quoted(cut(*text));
  if (const auto integer = node.value_exact<std::int64_t>()) return std::to_string(*integer);
  if (const auto truth = node.value_exact<bool>()) return *truth ? "true" : "false";
  if (const auto number = node.value_exact<double>()) {
    char digits[32];
    std::snprintf(digits, sizeof digits, "%g", *number);
    return digits;
  }
  return type_name(node);
}

// One value and all that a message about it needs.
struct Written {
  const Reading& reading;
  const Key& key;
  const toml::node& node;
};

// node: the value, or an element of it.
[[noreturn]] void refuse_type(const Written& w, const toml::node& node) {
  const bool has_text = node.is_string() || node.is_number() || node.is_boolean();
  const std::string found = (&node == &w.node ? " = " : ": ") + shown(node);
  refuse(position(w.reading, node.source()),
         qualified_name(w.key) + (has_text ? found : std::string()) + " is " + type_name(node),
         "write " + allowed_values(w.key, w.reading.settings.words));
}

[[noreturn]] void refuse_range(const Written& w) {
  refuse(position(w.reading, w.node.source()), qualified_name(w.key) + " = " + shown(w.node) + " is out of range",
         "write " + allowed_values(w.key, w.reading.settings.words));
}

// A word outside its closed list.
[[noreturn]] void refuse_word(const Written& w, const toml::node& word, const std::vector<std::string>& names,
                              const std::string& else_do = "") {
  const std::optional<std::string> near = nearest_name(cut(word.value_or(std::string())), names);
  refuse(position(w.reading, word.source()), qualified_name(w.key) + ": " + shown(word) + " is not a valid value",
         (near ? "did you mean " + quoted(*near) + "? " : std::string()) +
             "allowed: " + allowed_values(w.key, w.reading.settings.words) + else_do);
}

std::string text_of(const Written& w, const toml::node& node) {
  const std::optional<std::string> text = node.value_exact<std::string>();
  if (!text) refuse_type(w, node);
  if (text->find('\0') != std::string::npos) {
    refuse(position(w.reading, node.source()), qualified_name(w.key) + " contains a NUL character", "remove it");
  }
  return *text;
}

void read_kind(Settings& out, const BoolKey& key, const Written& w) {
  const std::optional<bool> value = w.node.value_exact<bool>();
  if (!value) refuse_type(w, w.node);
  key.member.at(out) = *value;
}

void read_kind(Settings& out, const IntegerKey& key, const Written& w) {
  const std::optional<std::int64_t> value = w.node.value_exact<std::int64_t>();
  if (!value) refuse_type(w, w.node);
  if (*value < key.min || *value > key.max) refuse_range(w);
  key.member.at(out) = *value;
}

double number_of(const Written& w, const toml::node& node) {
  if (!node.is_number()) refuse_type(w, node);
  return node.is_integer() ? static_cast<double>(*node.value_exact<std::int64_t>()) : *node.value_exact<double>();
}

void read_kind(Settings& out, const RealKey& key, const Written& w) {
  const double value = number_of(w, w.node);
  const bool above_min = key.min_is_allowed ? value >= key.min : value > key.min;
  const bool below_max = key.max_is_allowed ? value <= key.max : value < key.max;
  if (!above_min || !below_max) refuse_range(w);  // NaN is neither
  key.member.at(out) = value + 0.0;               // -0.0 becomes 0.0: one canonical form
}

void read_kind(Settings& out, const RangeKey& key, const Written& w) {
  const toml::array* const list = w.node.as_array();
  if (list == nullptr) refuse_type(w, w.node);
  if (list->size() != 2) refuse_range(w);
  const NumberRange range = {number_of(w, *list->get(0)) + 0.0, number_of(w, *list->get(1)) + 0.0};
  if (!(range.least >= key.min && range.least <= range.most && range.most <= key.max)) refuse_range(w);
  key.member.at(out) = range;
}

void read_kind(Settings& out, const TextKey& key, const Written& w) {
  const std::string text = text_of(w, w.node);
  if (text.empty() && !key.may_be_empty) refuse_range(w);
  key.member.at(out) = text;
}

std::string resolved_path(const Written& w, const std::string& written) {
  return path_from(w.reading.directory.string(), written);
}

// node: the value, or an element of it.
std::string path_of(const Written& w, const toml::node& node) {
  std::string written = text_of(w, node);
  if (const std::string problem = unexpanded_problem(written); !problem.empty()) {
    refuse(position(w.reading, node.source()), qualified_name(w.key) + " = " + shown(node) + ": " + problem,
           "write the full path");
  }
  return written;
}

void read_path(PathSetting& path, const Written& w) {
  path.written = path_of(w, w.node);
  path.resolved = path.written.empty() ? "" : resolved_path(w, path.written);
  if (w.reading.is_command_line) path.written = path.resolved;
}

// A file, a glob or a list of shards, as the settings keep it.
std::string data_path_of(const Written& w, const toml::node& node) {
  std::string written = path_of(w, node);
  if (!w.reading.is_command_line || written.empty()) return written;
  PathsSetting paths;
  paths.start = w.reading.directory.string();
  const PathProblem problem = data_path_problem(paths, written);
  if (!problem.what.empty())
    refuse(kCommandLinePlace, qualified_name(w.key) + " = " + shown(node) + ": " + problem.what, problem.what_to_do);
  return absolute_data_path(paths, written);
}

void read_kind(Settings& out, const PathKey& key, const Written& w) { read_path(key.member.at(out), w); }

void read_kind(Settings& out, const PathsKey& key, const Written& w) {
  PathsSetting& paths = key.member.at(out);
  paths.start = w.reading.directory.string();
  const toml::array* const list = w.node.as_array();
  if (list == nullptr) {
    const std::string path = data_path_of(w, w.node);
    if (!path.empty()) paths.written = {path};
    return;
  }
  for (const toml::node& node : *list) {
    paths.written.push_back(data_path_of(w, node));
    if (paths.written.back().empty())
      refuse(position(w.reading, node.source()), qualified_name(w.key) + " contains an empty path", "remove it");
  }
  if (list->empty())
    refuse(position(w.reading, w.node.source()), qualified_name(w.key) + " is an empty list",
           "name a file, or remove the key");
}

void read_kind(Settings& out, const WordsKey& key, const Written& w) {
  const toml::array* list = w.node.as_array();
  if (list == nullptr) refuse_type(w, w.node);
  std::vector<std::string> words;
  for (const toml::node& word : *list) words.push_back(text_of(w, word));
  key.member.at(out) = words;
}

void read_kind(Settings& out, const HeadKey& key, const Written& w) {
  const std::string text = text_of(w, w.node);
  std::vector<std::string> names;
  for (const HeadWords& head : out.words.heads) names.push_back(head.name);
  // For a pipeline, which has no heads, the key is refused as such: check_tables(), check_drawing().
  const bool is_known = names.empty() || std::find(names.begin(), names.end(), text) != names.end();
  if (!is_known) refuse_word(w, w.node, names);
  key.member.at(out) = text;
}

void read_kind(Settings& out, const FreezeKey& key, const Written& w) {
  const toml::array* list = w.node.as_array();
  if (list == nullptr) refuse_type(w, w.node);
  const std::vector<std::string>& names = out.words.parts;
  std::vector<std::string> written;
  for (const toml::node& word : *list) {
    written.push_back(text_of(w, word));
    const bool is_known = out.words.draws || std::find(names.begin(), names.end(), written.back()) != names.end();
    if (!is_known)
      refuse_word(w, word, names, "; [[training.groups]] with freeze = true freezes tensors by their names");
  }
  std::vector<std::string>& freeze = key.member.at(out);
  freeze.clear();
  std::copy_if(names.begin(), names.end(), std::back_inserter(freeze), [&](const std::string& name) {
    return std::find(written.begin(), written.end(), name) != written.end();
  });
}

void read_kind(Settings& out, const ChoiceKey& key, const Written& w) {
  const std::optional<bool> flag = w.node.value_exact<bool>();
  if (flag && key.of_true >= 0) return key.set(out, *flag ? key.of_true : key.of_false);
  const std::string text = text_of(w, w.node);
  for (int i = 0; i < key.count; ++i) {
    if (text == key.names[i]) return key.set(out, i);
  }
  refuse_word(w, w.node, {key.names, key.names + key.count});
}

void read_kind(Settings& out, const ChoiceOrPathKey& key, const Written& w) {
  if (text_of(w, w.node).find('/') == std::string::npos) return read_kind(out, key.choice, w);
  key.choice.set(out, key.choice.count);
  read_path(key.path.at(out), w);
}

}  // namespace

void read_value(Reading& reading, const Key& key, const toml::node& node) {
  const Written written{reading, key, node};
  std::visit([&](const auto& kind) { read_kind(reading.settings, kind, written); }, key.kind);
  reading.settings.origin.where[qualified_name(key)] = position(reading, node.source());
}

}  // namespace bascule
