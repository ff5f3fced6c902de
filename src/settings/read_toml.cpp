// SPDX-License-Identifier: Apache-2.0
// TOML text -> Settings, strictly: every table and key must be known, every value of its type and in its range. Keys of
// the command line take the place of the file's.
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <system_error>
#include <utility>
#include <variant>

#include <toml++/toml.h>

#include "src/base/error.h"
#include "src/base/utf8.h"
#include "src/settings/command_line_keys.h"
#include "src/settings/keys.h"
#include "src/settings/nearest_key.h"
#include "src/settings/read_value.h"
#include "src/settings/validate.h"

namespace bascule {
namespace {

// Far above any settings file; a device or a data file named by mistake is not read to its end.
constexpr std::size_t kMaxFileBytes = std::size_t{1} << 20;

constexpr char kGroupsAdvice[] = "write all groups as a list: training.groups='[{match = \"*.bias\", freeze = true}]'";

// where: the place of the name, for messages.
const Key& key_of(const std::string& table, std::string_view name, const std::string& where) {
  for (const Key& key : keys_of_file()) {
    if (table == key.table && name == key.name) return key;
  }
  const std::string place = table.empty() ? "outside a table" : "in [" + table + "]";
  refuse(where, "unknown key " + quoted(cut(name)) + " " + place, advice_for_key(table, cut(name)));
}

[[noreturn]] void refuse_table(const std::string& name, const std::string& where) {
  refuse(where, "unknown table [" + cut(name) + "]", advice_for_table(cut(name)));
}

bool is_table_name(const std::string& name) {
  const std::vector<std::string> tables = table_names();
  return std::find(tables.begin(), tables.end(), name) != tables.end();
}

// where: the place of the table, unless it has one.
void begin_table(Settings& settings, const std::string& table, const std::string& where) {
  if (table == kSimulationTable) settings.media_engine.simulation.is_given = true;
  if (table == kDrawTable) settings.draw.is_given = true;
  if (table == kServeTable) settings.serve.is_given = true;
  settings.origin.where.emplace(table, where);
}

void read_table(Reading& reading, const std::string& table, const toml::table& content);

// node: no list of tables.
[[noreturn]] void refuse_groups(const Reading& reading, const std::string& place, const toml::node& node) {
  const toml::array* const groups = node.as_array();
  std::string what = std::string(kGroupsTable) + " is " + type_name(node);
  for (std::size_t i = 0; groups != nullptr && i < groups->size(); ++i) {
    if (groups->get(i)->is_table()) continue;
    what = group_name(i) + " is " + type_name(*groups->get(i));
    break;
  }
  refuse(place, what,
         reading.is_command_line ? kGroupsAdvice
                                 : "write [[training.groups]] on a line of its own for each group, and its keys below");
}

// Each [[training.groups]] of the file, or all of them as one list.
void read_groups(Reading& reading, const std::string& place, const toml::node& node) {
  const toml::array* const groups = node.as_array();
  const bool is_none = groups != nullptr && groups->empty() && reading.is_command_line;
  if (!is_none && !node.is_array_of_tables()) refuse_groups(reading, place, node);
  std::vector<GroupSettings>& read = reading.settings.training.groups;
  std::map<std::string, std::string>& where = reading.settings.origin.where;
  where[kGroupsTable] = place;
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
  for (const auto& [name, node] : content) {
    const std::string inner = (table.empty() ? "" : table + ".") + std::string(name.str());
    if (inner == kGroupsTable) {
      read_groups(reading, position(reading, name.source()), node);
    } else if (is_table_name(inner) && node.is_table()) {
      begin_table(reading.settings, inner, position(reading, node.source()));
      read_table(reading, inner, *node.as_table());
    } else if (is_table_name(inner)) {
      refuse(position(reading, node.source()), inner + " is " + type_name(node),
             "write [" + inner + "] on a line of its own and its keys below");
    } else if (table.empty() && (node.is_table() || node.is_array_of_tables())) {
      refuse_table(inner, position(reading, name.source()));
    } else {
      read_value(reading, key_of(table, name.str(), position(reading, name.source())), node);
    }
  }
}

// A key of the command line.
struct GivenKey {
  std::string table, name;
  toml::table document;  // with one key, "value"

  const toml::node& value() const { return *document.get("value"); }
  bool is_groups() const { return table + "." + name == kGroupsTable; }
};

// As TOML writes it: without the zeros before it. key: of an integer. TOML's other bases are for files.
std::string decimal_text(const Key& key, const std::string& text) {
  const auto refuse_text = [&](const char* problem) {
    refuse(kCommandLinePlace, qualified_name(key) + " = " + cut(text) + problem, "write " + allowed_values(key, {}));
  };
  for (const char* base : {"0x", "0o", "0b"}) {
    if (text.rfind(base, 0) == 0) refuse_text(" is not a decimal integer");
  }
  const std::size_t sign = text.rfind('-', 0) == 0 ? 1 : 0, first = text.find_first_not_of('0', sign);
  if (text.size() == sign || text.find_first_not_of("0123456789", sign) != std::string::npos) return text;
  std::string decimal = text.substr(0, sign) + (first == std::string::npos ? "0" : text.substr(first));
  std::int64_t number = 0;
  if (std::from_chars(decimal.data(), decimal.data() + decimal.size(), number).ec != std::errc())
    refuse_text(" is out of range");
  return decimal;
}

// TOML, or else a string.
toml::table value_of(const std::string& text) {
  try {
    toml::table document = toml::parse("value = " + text);
    if (document.size() == 1) return document;
  } catch (const toml::parse_error&) {
    // It is a string.
  }
  toml::table document;
  document.insert("value", text);
  return document;
}

void check_table(const GivenKey& given) {
  const std::string whole = (given.table.empty() ? "" : given.table + ".") + given.name;
  if (given.table == kGroupsTable)
    refuse(kCommandLinePlace, std::string(kGroupsTable) + " is a list of tables", kGroupsAdvice);
  if (!given.is_groups() && is_table_name(whole))
    refuse(kCommandLinePlace, cut(whole) + " is a table", "name a key of it, as " + cut(whole) + ".KEY=VALUE");
  if (!given.table.empty() && !is_table_name(given.table)) refuse_table(given.table, kCommandLinePlace);
}

// "training.seed=7"
GivenKey given_key(const std::string& argument) {
  const std::size_t equals = argument.find('=');
  if (equals == std::string::npos)
    refuse(kCommandLinePlace, "unexpected argument " + quoted(cut(argument)),
           "write a key of the settings as TABLE.KEY=VALUE, such as training.seed=7");
  const std::string name = argument.substr(0, equals), value = argument.substr(equals + 1);
  if (first_invalid_utf8(name) < name.size())
    refuse(kCommandLinePlace, "the key \"" + cut(name) + "\" is not UTF-8", "write it in UTF-8");
  if (first_invalid_utf8(value) < value.size())
    refuse(kCommandLinePlace, "the value of " + cut(name) + " is not UTF-8", "write it in UTF-8");
  if (name.find(' ') != std::string::npos)
    refuse(kCommandLinePlace, quoted(cut(name)) + " contains a space",
           "write training.seed=7, without spaces around \"=\"");
  const std::size_t dot = name.rfind('.');
  GivenKey given;
  if (dot != std::string::npos) given.table = name.substr(0, dot);
  given.name = name.substr(dot + 1);  // of npos: all of it
  check_table(given);
  const Key* const key = given.is_groups() ? nullptr : &key_of(given.table, given.name, kCommandLinePlace);
  const bool is_integer = key != nullptr && std::holds_alternative<IntegerKey>(key->kind);
  given.document = value_of(is_integer ? decimal_text(*key, value) : value);
  return given;
}

std::vector<GivenKey> given_keys(const std::vector<std::string>& arguments) {
  std::vector<GivenKey> keys;
  for (const std::string& argument : arguments) {
    GivenKey given = given_key(argument);
    const bool is_twice = std::any_of(keys.begin(), keys.end(), [&](const GivenKey& other) {
      return other.table == given.table && other.name == given.name;
    });
    if (is_twice) refuse(kCommandLinePlace, given.table + "." + given.name + " is given twice", "give it once");
    keys.push_back(std::move(given));
  }
  return keys;
}

// A key of the file that the given one replaces beside its own: of the two that set the length, one is set.
const char* replaced_key(const GivenKey& given) {
  if (given.table != "training" || !(given.value().value_or(0.0) > 0.0)) return "";
  return given.name == "max_steps" ? "num_train_epochs" : given.name == "num_train_epochs" ? "max_steps" : "";
}

// As if it stood in the file in place of the file's own.
void read_given(Reading& reading, const GivenKey& given) {
  if (given.is_groups()) return read_groups(reading, kCommandLinePlace, given.value());
  begin_table(reading.settings, given.table, kCommandLinePlace);
  read_value(reading, key_of(given.table, given.name, kCommandLinePlace), given.value());
}

// That relative paths of the command line start from. Only they need it.
std::filesystem::path current_folder() {
  std::error_code error;
  std::filesystem::path folder = std::filesystem::current_path(error);
  if (error)
    refuse(kCommandLinePlace, "the current folder cannot be read: " + error.message(),
           "change to one that exists to give keys");
  return folder;
}

// The model's folder: the command line's, or else the file's.
std::string model_folder(const Reading& reading, const toml::table& parsed, const std::vector<GivenKey>& keys) {
  for (const GivenKey& key : keys) {
    if (key.table == "model" && key.name == "model_name_or_path")
      return (current_folder() / key.value().value_or(std::string())).lexically_normal().string();
  }
  const std::string model = parsed["model"]["model_name_or_path"].value_or(std::string());
  return (reading.directory / model).lexically_normal().string();
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
  if (!file) {
    const bool is_key = path.find('=') != std::string::npos;
    refuse(path, std::string("cannot be read: ") + std::strerror(errno),
           is_key ? "name the TOML file before keys of its settings" : "name a TOML file");
  }
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
                            const std::vector<std::string>& keys, const FindModelWords& find) {
  Reading reading{name, resolved_folder(directory), {}};
  try {
    toml::table parsed = toml::parse(text, name);
    const std::vector<GivenKey> given = given_keys(keys);
    reading.settings = default_settings(find(model_folder(reading, parsed, given)));
    reading.settings.origin.file = name;
    for (const GivenKey& key : given) {
      toml::table* const table = parsed.at_path(key.table).as_table();
      if (table == nullptr) continue;
      table->erase(key.name);
      table->erase(replaced_key(key));
    }
    read_table(reading, "", parsed);
    if (!given.empty()) reading.directory = current_folder();
    reading.is_command_line = true;
    for (const GivenKey& key : given) read_given(reading, key);
  } catch (const toml::parse_error& error) {
    refuse(position(reading, error.source()), std::string(error.description()), "see toml.io for the syntax");
  }
  check_tables(reading.settings);
  require_keys(reading.settings);
  resolve_defaults(reading.settings);
  check_settings(reading.settings);
  return reading.settings;
}

Settings read_settings_text(std::string_view text, const std::string& name, const std::string& directory,
                            const FindModelWords& find) {
  return read_settings_text(text, name, directory, {}, find);
}

Settings read_settings(const std::string& path, const std::vector<std::string>& keys, const FindModelWords& find) {
  return read_settings_text(read_text(path), path, std::filesystem::path(path).parent_path().string(), keys, find);
}

Settings read_settings(const std::string& path, const FindModelWords& find) { return read_settings(path, {}, find); }

}  // namespace bascule
