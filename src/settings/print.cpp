// SPDX-License-Identifier: Apache-2.0
// The canonical form of settings, and their digest: two walks over one list.
#include <xxhash.h>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "src/settings/command_line_keys.h"
#include "src/settings/keys.h"
#include "src/settings/resume_rules.h"
#include "src/settings/settings.h"

namespace bascule {
namespace {

// The keys of a group work on the last group, so each is printed from settings that have it alone.
std::vector<Settings> with_one_group_each(const Settings& settings) {
  std::vector<Settings> all;
  for (const GroupSettings& group : settings.training.groups) {
    all.emplace_back();
    all.back().training.groups = {group};
  }
  return all;
}

// The keys of the only group. A weight decay that was not written has no value.
std::string group_text(const Settings& settings, const char* separator) {
  std::string text;
  for (const Key& key : group_keys()) {
    if (key.name == std::string_view("weight_decay") && settings.training.groups.front().weight_decay < 0.0) continue;
    text += (text.empty() ? "" : separator) + std::string(key.name) + " = " + value_text(key, settings);
  }
  return text;
}

}  // namespace

std::string print_settings(const Settings& settings) {
  std::string text;
  std::string_view table;
  for (const Key& key : all_keys()) {
    if (!is_present(key, settings)) continue;
    if (table != key.table) {
      table = key.table;
      text += (text.empty() ? "[" : "\n[") + std::string(table) + "]\n";
    }
    text += std::string(key.name) + " = " + value_text(key, settings) + "\n";
  }
  for (const Settings& one : with_one_group_each(settings)) {
    text += "\n[[" + std::string(kGroupsTable) + "]]\n" + group_text(one, "\n") + "\n";
  }
  return text;
}

KeyValues printed_keys(const Settings& settings) {
  KeyValues values;
  std::size_t groups = 0;  // behind the other keys of their table
  for (const Key& key : all_keys()) {
    if (!is_present(key, settings)) continue;
    values.push_back({qualified_name(key), value_text(key, settings)});
    if (std::string_view("training") == key.table) groups = values.size();
  }
  if (!settings.training.groups.empty())
    values.insert(values.begin() + static_cast<std::ptrdiff_t>(groups), {kGroupsTable, groups_text(settings)});
  return values;
}

std::string group_name(std::size_t index) { return std::string(kGroupsTable) + "[" + std::to_string(index) + "]"; }

std::string groups_text(const Settings& settings) {
  std::string text;
  for (const Settings& one : with_one_group_each(settings))
    text += (text.empty() ? "{" : ", {") + group_text(one, ", ") + "}";
  return "[" + text + "]";
}

std::vector<std::string> command_line_keys(const Settings& settings) {
  const auto is_given = [&](const std::string& name) {
    const auto found = settings.origin.where.find(name);
    return found != settings.origin.where.end() && found->second == kCommandLinePlace;
  };
  std::vector<std::string> keys;
  for (const Key& key : all_keys()) {
    if (is_given(qualified_name(key))) keys.push_back(qualified_name(key) + "=" + value_text(key, settings));
  }
  if (is_given(kGroupsTable)) keys.push_back(std::string(kGroupsTable) + "=" + groups_text(settings));
  return keys;
}

std::string settings_digest(const Settings& settings) {
  Settings numbers = settings;
  if (settings.distributed.machines == 1) numbers.distributed.wire_type = DistributedSettings().wire_type;
  std::string text;
  for (const auto& [key, value] : number_keys(numbers)) text.append(key).append(" = ").append(value).append("\n");
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx",
                static_cast<unsigned long long>(XXH3_64bits(text.data(), text.size())));
  return digits;
}

// Values and ranges of keys as text.

namespace {

constexpr char kHex[] = "0123456789ABCDEF";

template <typename... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};
template <typename... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;

// The shortest decimal that reads back to the same number, always recognisable as a float.
std::string real_text(double value) {
  char digits[32];
  const std::to_chars_result end = std::to_chars(digits, digits + sizeof digits, value);
  std::string text(digits, end.ptr);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string real_range(const RealKey& key) {
  const std::string low = (key.min_is_allowed ? "from " : "above ") + real_text(key.min);
  const std::string high = (key.max_is_allowed ? " to " : " to less than ") + real_text(key.max);
  return "a number " + low + high;
}

// "a", "b" or "c"
template <typename NameAt>
std::string alternatives(std::size_t count, NameAt name_at) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0) text += i + 1 == count ? " or " : ", ";
    text += quoted(name_at(i));
  }
  return text;
}

std::string alternatives(const ChoiceKey& key) {
  return alternatives(static_cast<std::size_t>(key.count), [&](std::size_t i) { return key.names[i]; });
}

std::string list_text(const std::vector<std::string>& words) {
  std::string text = "[";
  for (std::size_t i = 0; i < words.size(); ++i) text += (i > 0 ? ", " : "") + quoted(words[i]);
  return text + "]";
}

// A member as canonical TOML: its type says how, whatever the key's kind allows.
std::string text_of(bool value) { return value ? "true" : "false"; }
std::string text_of(std::int64_t value) { return std::to_string(value); }
std::string text_of(double value) { return real_text(value); }
std::string text_of(const NumberRange& range) {
  return "[" + real_text(range.least) + ", " + real_text(range.most) + "]";
}
std::string text_of(const std::string& text) { return quoted(text); }
std::string text_of(const PathSetting& path) { return quoted(path.written); }
std::string text_of(const std::vector<std::string>& words) { return list_text(words); }
// A list of one is that path.
std::string text_of(const PathsSetting& paths) {
  if (paths.written.size() > 1) return list_text(paths.written);
  return quoted(paths.written.empty() ? "" : paths.written.front());
}

}  // namespace

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const unsigned byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\u00";
      out += kHex[byte / 16];
      out += kHex[byte % 16];
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string allowed_values(const Key& key, const ModelWords& words) {
  return std::visit(
      Overloaded{
          [](const BoolKey&) -> std::string { return "true or false"; },
          [](const IntegerKey& k) {
            return "an integer from " + std::to_string(k.min) + " to " + std::to_string(k.max);
          },
          [](const RealKey& k) { return real_range(k); },
          [](const RangeKey& k) {
            return "a list of two numbers from " + real_text(k.min) + " to " + real_text(k.max) +
                   ", the second at least the first";
          },
          [](const TextKey& k) -> std::string { return k.may_be_empty ? "a string" : "a non-empty string"; },
          [](const PathKey&) -> std::string { return "a path as a string"; },
          [](const PathsKey&) -> std::string { return "a path as a string, or a list of paths"; },
          [](const WordsKey&) -> std::string { return "a list of strings"; },
          [&](const HeadKey&) {
            return alternatives(words.heads.size(), [&](std::size_t i) { return words.heads[i].name; });
          },
          [&](const FreezeKey&) -> std::string {
            if (words.parts.empty()) return "an empty list, as no part of this model can be frozen";
            return "a list of any of " +
                   alternatives(words.parts.size(), [&](std::size_t i) { return words.parts[i]; });
          },
          [](const ChoiceKey& k) { return alternatives(k); },
          [](const ChoiceOrPathKey& k) { return alternatives(k.choice) + ", or a path with a `/`"; },
      },
      key.kind);
}

std::string value_text(const Key& key, const Settings& settings) {
  return std::visit(Overloaded{
                        [&](const ChoiceKey& k) { return quoted(k.names[k.get(settings)]); },
                        [&](const ChoiceOrPathKey& k) {
                          const int word = k.choice.get(settings);
                          return word < k.choice.count ? quoted(k.choice.names[word]) : text_of(k.path.get(settings));
                        },
                        [&](const auto& k) { return text_of(k.member.get(settings)); },
                    },
                    key.kind);
}

namespace {

constexpr std::size_t kMeaningColumn = 30;

// Code marks are Markdown's, which a terminal shows as they are.
std::string plain(std::string_view markdown) {
  std::string text;
  for (const char c : markdown) {
    if (c != '`') text += c;
  }
  return text;
}

std::string row(const std::string& name, const std::string& text) {
  const std::size_t width = name.size() + 2;
  return "  " + name + std::string(width + 1 < kMeaningColumn ? kMeaningColumn - width : 2, ' ') + text + "\n";
}

// '|' would end a cell.
std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

// Calls take(key, value, header) with the value of a fresh Settings, and with the header of the key's table, which is
// empty for all but the first key of it.
template <typename Take>
void for_each_key(const ModelWords& words, const Take& take) {
  Settings defaults = default_settings(words);
  defaults.training.groups.resize(1);
  std::string_view table;
  for (const Key& key : keys_of_file()) {
    const bool is_first = table != key.table, many = std::string_view(key.table) == kGroupsTable;
    table = key.table;
    const std::string header = (many ? "[[" : "[") + std::string(table) + (many ? "]]" : "]");
    take(key, value_text(key, defaults), is_first ? header : "");
  }
}

}  // namespace

std::vector<KeyReference> key_reference(const ModelWords& words) {
  std::vector<KeyReference> reference;
  for_each_key(words, [&](const Key& key, const std::string& value, const std::string&) {
    const bool many = std::string_view(key.table) == kGroupsTable;
    reference.push_back({many ? std::string(key.table) + "[]." + key.name : qualified_name(key), plain(key.meaning),
                         plain(allowed_values(key, words)),
                         key.default_note != nullptr ? plain(key.default_note) : value, resume_word(key.effect)});
  });
  return reference;
}

std::string settings_help(const ModelWords& words) {
  std::string text = "Settings, by table of the TOML file:\n";
  for_each_key(words, [&](const Key& key, const std::string& value, const std::string& header) {
    if (!header.empty()) text += "\n" + header + "\n";
    text += row(key.name, plain(key.meaning));
    text += row(
        "", plain(allowed_values(key, words)) +
                (is_required(key) ? "; required"
                                  : "; default: " + (key.default_note != nullptr ? plain(key.default_note) : value)));
  });
  return text;
}

std::string settings_reference(const ModelWords& words) {
  std::string text;
  for_each_key(words, [&](const Key& key, const std::string& value, const std::string& header) {
    if (!header.empty())
      text += (text.empty() ? "### " : "\n### ") + header +
              "\n\n| key | default | allowed | meaning | may change |\n|---|---|---|---|---|\n";
    text += std::string("| `") + key.name + "` | " +
            (key.default_note != nullptr ? key.default_note : "`" + value + "`") + " | " +
            cell(allowed_values(key, words)) + " | " + cell(key.meaning) + " | " + resume_word(key.effect) + " |\n";
  });
  return text +
         "\nThe last column says whether a key may change when a run resumes from a checkpoint; `bascule settings "
         "--resume` prints the same:\n\n" +
         resume_legend();
}

}  // namespace bascule
