// SPDX-License-Identifier: Apache-2.0
// TOML text -> Settings, strictly: every table and key must be known, every value of its type and in its range. The
// only place that knows toml++.
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>

#include <toml++/toml.h>

#include "src/base/error.h"
#include "src/base/utf8.h"
#include "src/settings/key_advice.h"
#include "src/settings/keys.h"
#include "src/settings/nearest_key.h"
#include "src/settings/settings.h"
#include "src/settings/unexpanded_path.h"
#include "src/settings/validate.h"

namespace bascule {
namespace {

// Far above any settings file; a device or a data file named by mistake is not read to its end.
constexpr std::size_t kMaxFileBytes = std::size_t{1} << 20;

// How much of a text messages quote.
constexpr std::size_t kShownBytes = 60;

// The settings being read, and how places in the file are named.
struct Reading {
  std::string file;
  std::filesystem::path directory;
  Settings settings;
};

std::string position(const Reading& reading, const toml::source_region& source) {
  return reading.file + ":" + std::to_string(source.begin.line) + ":" + std::to_string(source.begin.column);
}

[[noreturn]] void refuse(const std::string& where, const std::string& what, const std::string& what_to_do) {
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

// Quotations in messages are cut, between characters: a file that is no settings file may have "keys" of a megabyte.
std::string cut(std::string_view text) {
  if (text.size() <= kShownBytes) return std::string(text);
  return std::string(text.substr(0, utf8_cut(text, kShownBytes))) + "...";
}

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
[[noreturn]] void refuse_word(const Written& w, const toml::node& word, const std::vector<std::string>& names) {
  const std::optional<std::string> near = nearest_name(cut(word.value_or(std::string())), names);
  refuse(position(w.reading, word.source()), qualified_name(w.key) + ": " + shown(word) + " is not a valid value",
         (near ? "did you mean " + quoted(*near) + "? " : std::string()) +
             "allowed: " + allowed_values(w.key, w.reading.settings.words));
}

std::string text_of(const Written& w, const toml::node& node) {
  const std::optional<std::string> text = node.value_exact<std::string>();
  if (!text) refuse_type(w, node);
  if (text->find('\0') != std::string::npos) {
    refuse(position(w.reading, node.source()), qualified_name(w.key) + " contains a NUL character", "remove it");
  }
  return *text;
}

void read_value(Settings& out, const BoolKey& key, const Written& w) {
  const std::optional<bool> value = w.node.value_exact<bool>();
  if (!value) refuse_type(w, w.node);
  key.member.at(out) = *value;
}

void read_value(Settings& out, const IntegerKey& key, const Written& w) {
  const std::optional<std::int64_t> value = w.node.value_exact<std::int64_t>();
  if (!value) refuse_type(w, w.node);
  if (*value < key.min || *value > key.max) refuse_range(w);
  key.member.at(out) = *value;
}

double number_of(const Written& w, const toml::node& node) {
  if (!node.is_number()) refuse_type(w, node);
  return node.is_integer() ? static_cast<double>(*node.value_exact<std::int64_t>()) : *node.value_exact<double>();
}

void read_value(Settings& out, const RealKey& key, const Written& w) {
  const double value = number_of(w, w.node);
  const bool above_min = key.min_is_allowed ? value >= key.min : value > key.min;
  const bool below_max = key.max_is_allowed ? value <= key.max : value < key.max;
  if (!above_min || !below_max) refuse_range(w);  // NaN is neither
  key.member.at(out) = value + 0.0;               // -0.0 becomes 0.0: one canonical form
}

void read_value(Settings& out, const RangeKey& key, const Written& w) {
  const toml::array* const list = w.node.as_array();
  if (list == nullptr) refuse_type(w, w.node);
  if (list->size() != 2) refuse_range(w);
  const NumberRange range = {number_of(w, *list->get(0)) + 0.0, number_of(w, *list->get(1)) + 0.0};
  if (!(range.least >= key.min && range.least <= range.most && range.most <= key.max)) refuse_range(w);
  key.member.at(out) = range;
}

void read_value(Settings& out, const TextKey& key, const Written& w) {
  const std::string text = text_of(w, w.node);
  if (text.empty() && !key.may_be_empty) refuse_range(w);
  key.member.at(out) = text;
}

std::string resolved_path(const Written& w, const std::string& written) {
  std::string path = (w.reading.directory / written).lexically_normal().string();
  if (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

// node: the value, or an element of it.
std::string path_of(const Written& w, const toml::node& node) {
  const std::string written = text_of(w, node);
  if (const std::string problem = unexpanded_problem(written); !problem.empty()) {
    refuse(position(w.reading, node.source()), qualified_name(w.key) + " = " + shown(node) + ": " + problem,
           "write the full path");
  }
  return written;
}

void read_path(PathSetting& path, const Written& w) {
  path.written = path_of(w, w.node);
  path.resolved = path.written.empty() ? "" : resolved_path(w, path.written);
}

void read_value(Settings& out, const PathKey& key, const Written& w) { read_path(key.member.at(out), w); }

void read_value(Settings& out, const PathsKey& key, const Written& w) {
  PathsSetting& paths = key.member.at(out);
  paths.start = w.reading.directory.string();
  const toml::array* const list = w.node.as_array();
  if (list == nullptr) {
    const std::string path = path_of(w, w.node);
    if (!path.empty()) paths.written = {path};
    return;
  }
  for (const toml::node& node : *list) {
    paths.written.push_back(path_of(w, node));
    if (paths.written.back().empty())
      refuse(position(w.reading, node.source()), qualified_name(w.key) + " contains an empty path", "remove it");
  }
  if (list->empty())
    refuse(position(w.reading, w.node.source()), qualified_name(w.key) + " is an empty list",
           "name a file, or remove the key");
}

void read_value(Settings& out, const WordsKey& key, const Written& w) {
  const toml::array* list = w.node.as_array();
  if (list == nullptr) refuse_type(w, w.node);
  std::vector<std::string> words;
  for (const toml::node& word : *list) words.push_back(text_of(w, word));
  key.member.at(out) = words;
}

void read_value(Settings& out, const HeadKey& key, const Written& w) {
  const std::string text = text_of(w, w.node);
  std::vector<std::string> names;
  for (const HeadWords& head : out.words.heads) names.push_back(head.name);
  // Of a pipeline, which has no heads, the key is refused as such: check_tables(), check_drawing().
  const bool is_known = names.empty() || std::find(names.begin(), names.end(), text) != names.end();
  if (!is_known) refuse_word(w, w.node, names);
  key.member.at(out) = text;
}

void read_value(Settings& out, const FreezeKey& key, const Written& w) {
  const toml::array* list = w.node.as_array();
  if (list == nullptr) refuse_type(w, w.node);
  const std::vector<std::string>& names = out.words.parts;
  std::vector<std::string> written;
  for (const toml::node& word : *list) {
    written.push_back(text_of(w, word));
    const bool is_known = out.words.draws || std::find(names.begin(), names.end(), written.back()) != names.end();
    if (!is_known) refuse_word(w, word, names);
  }
  std::vector<std::string>& freeze = key.member.at(out);
  freeze.clear();
  std::copy_if(names.begin(), names.end(), std::back_inserter(freeze), [&](const std::string& name) {
    return std::find(written.begin(), written.end(), name) != written.end();
  });
}

void read_value(Settings& out, const ChoiceKey& key, const Written& w) {
  const std::optional<bool> flag = w.node.value_exact<bool>();
  if (flag && key.of_true >= 0) return key.set(out, *flag ? key.of_true : key.of_false);
  const std::string text = text_of(w, w.node);
  for (int i = 0; i < key.count; ++i) {
    if (text == key.names[i]) return key.set(out, i);
  }
  refuse_word(w, w.node, {key.names, key.names + key.count});
}

void read_value(Settings& out, const ChoiceOrPathKey& key, const Written& w) {
  if (text_of(w, w.node).find('/') == std::string::npos) return read_value(out, key.choice, w);
  key.choice.set(out, key.choice.count);
  read_path(key.path.at(out), w);
}

void read_key(Reading& reading, const std::string& table, const toml::key& name, const toml::node& node) {
  for (const Key& key : keys_of_file()) {
    if (table != key.table || name.str() != key.name) continue;
    Settings& out = reading.settings;
    const Written written{reading, key, node};
    std::visit([&](const auto& kind) { read_value(out, kind, written); }, key.kind);
    out.origin.where[qualified_name(key)] = position(reading, node.source());
    return;
  }
  const std::string place = table.empty() ? "outside a table" : "in [" + table + "]";
  refuse(position(reading, name.source()), "unknown key " + quoted(cut(name.str())) + " " + place,
         advice_for_key(table, cut(name.str())));
}

void read_table(Reading& reading, const std::string& table, const toml::table& content);

// Each [[training.groups]] of the file.
void read_groups(Reading& reading, const toml::key& name, const toml::node& node) {
  const toml::array* const groups = node.as_array();
  if (groups == nullptr || !node.is_array_of_tables()) {
    refuse(position(reading, name.source()), std::string(kGroupsTable) + " is " + type_name(node),
           "write [[training.groups]] on a line of its own for each group, and its keys below");
  }
  std::vector<GroupSettings>& read = reading.settings.training.groups;
  std::map<std::string, std::string>& where = reading.settings.origin.where;
  where[kGroupsTable] = position(reading, name.source());
  for (const toml::node& group : *groups) {
    const std::string own_name = group_name(read.size());
    where[own_name] = position(reading, group.source());
    read.emplace_back();
    read_table(reading, kGroupsTable, *group.as_table());
    if (read.back().match.empty()) {
      refuse(where[own_name], own_name + " has no key \"match\"",
             "write match = \"*.bias\" or another pattern of tensor names");
    }
  }
}

// table: "" for the file itself.
void read_table(Reading& reading, const std::string& table, const toml::table& content) {
  const std::vector<std::string> tables = table_names();
  for (const auto& [name, node] : content) {
    const std::string inner = (table.empty() ? "" : table + ".") + std::string(name.str());
    const bool is_table_name = std::find(tables.begin(), tables.end(), inner) != tables.end();
    if (inner == kGroupsTable) {
      read_groups(reading, name, node);
    } else if (is_table_name && node.is_table()) {
      if (inner == kSimulationTable) reading.settings.media_engine.simulation.is_given = true;
      if (inner == kDrawTable) reading.settings.draw.is_given = true;
      reading.settings.origin.where[inner] = position(reading, node.source());
      read_table(reading, inner, *node.as_table());
    } else if (is_table_name) {
      refuse(position(reading, node.source()), inner + " is " + type_name(node),
             "write [" + inner + "] on a line of its own and its keys below");
    } else if (table.empty() && (node.is_table() || node.is_array_of_tables())) {
      refuse(position(reading, name.source()), "unknown table [" + cut(inner) + "]", advice_for_table(cut(inner)));
    } else {
      read_key(reading, table, name, node);
    }
  }
}

void require_keys(const Settings& settings) {
  for (const Key& key : all_keys()) {
    if (!is_present(key, settings)) continue;
    const auto* path = std::get_if<PathKey>(&key.kind);
    const bool missing = settings.origin.where.count(qualified_name(key)) == 0;
    if (is_required(key) && (missing || (path != nullptr && !path->member.get(settings).is_given()))) {
      refuse(where_written(settings, qualified_name(key)), qualified_name(key) + " is missing",
             std::string("write ") + key.name + " = \"...\" in [" + key.table + "]: " + key.meaning);
    }
  }
}

std::string read_text(const std::string& path) {
  if (std::filesystem::is_directory(path)) refuse(path, "is a folder", "name a TOML file");
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse(path, std::string("cannot be read: ") + std::strerror(errno), "name a TOML file");
  std::string text(kMaxFileBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (file.bad()) refuse(path, "cannot be read", "");
  if (text.size() > kMaxFileBytes) refuse(path, "is larger than 1 MiB", "name a TOML file of settings");
  return text;
}

// Absolute and without symbolic links, so that ".." in a path of the file means what the system would make of it.
std::filesystem::path resolved_folder(const std::string& directory) {
  std::error_code error;
  const std::filesystem::path folder = directory.empty() ? "." : directory;
  const std::filesystem::path canonical = std::filesystem::canonical(folder, error);
  return error ? std::filesystem::absolute(folder).lexically_normal() : canonical;
}

}  // namespace

Settings read_settings_text(std::string_view text, const std::string& name, const std::string& directory,
                            const FindModelWords& find) {
  Reading reading{name, resolved_folder(directory), {}};
  try {
    const toml::table parsed = toml::parse(text, name);
    const std::string model = parsed["model"]["model_name_or_path"].value_or(std::string());
    reading.settings = default_settings(find((reading.directory / model).lexically_normal().string()));
    reading.settings.origin.file = name;
    read_table(reading, "", parsed);
  } catch (const toml::parse_error& error) {
    refuse(position(reading, error.source()), std::string(error.description()), "see toml.io for the syntax");
  }
  check_tables(reading.settings);
  require_keys(reading.settings);
  resolve_defaults(reading.settings);
  check_settings(reading.settings);
  return reading.settings;
}

Settings read_settings(const std::string& path, const FindModelWords& find) {
  return read_settings_text(read_text(path), path, std::filesystem::path(path).parent_path().string(), find);
}

}  // namespace bascule
