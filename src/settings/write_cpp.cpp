// SPDX-License-Identifier: Apache-2.0
#include "src/settings/write_cpp.h"

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "src/base/digest.h"
#include "src/settings/keys.h"

namespace bascule {
namespace {

// A string literal: printable ASCII as it is, every other byte as three octal digits.
std::string literal(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const unsigned byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\' || c == '?' || byte < 0x20 || byte > 0x7e) {
      char octal[5];
      std::snprintf(octal, sizeof octal, "\\%03o", byte);
      out += octal;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

// One literal a line.
std::string lines_literal(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    out += "\n    " + literal(text.substr(0, end));
    text.remove_prefix(end);
  }
  return out.empty() ? literal("") : out;
}

std::string list(const std::vector<std::string>& texts) {
  std::string out = "{";
  for (const std::string& text : texts) out += (out.size() > 1 ? ", " : "") + literal(text);
  return out + "}";
}

std::string truth(bool value) { return value ? "true" : "false"; }

// The statements that give `member`, as "s.data.ring_slots", the value of one key.
struct Assignment {
  const Key& key;
  const Settings& settings;
  std::string member;

  std::string assigned(const std::string& to, const std::string& value) const {
    return "  " + to + " = " + value + ";\n";
  }
  std::string word(const ChoiceKey& kind) const {
    const int value = kind.get(settings);
    return assigned(member, "static_cast<decltype(" + member + ")>(" + std::to_string(value) + ")");
  }

  // The member's type says how, whatever the key's kind allows.
  template <typename Number>
  std::string given(const Number&) const {
    return assigned(member, value_text(key, settings));
  }
  std::string given(const NumberRange&) const {
    const std::string text = value_text(key, settings);
    return assigned(member, "{" + text.substr(1, text.size() - 2) + "}");
  }
  std::string given(const std::string& text) const { return assigned(member, literal(text)); }
  std::string given(const std::vector<std::string>& words) const { return assigned(member, list(words)); }
  std::string given(const PathSetting& path) const { return assigned(member + ".written", literal(path.written)); }
  std::string given(const PathsSetting& paths) const { return assigned(member + ".written", list(paths.written)); }

  template <typename Kind>
  std::string operator()(const Kind& kind) const {
    return given(kind.member.get(settings));
  }
  std::string operator()(const ChoiceKey& kind) const { return word(kind); }
  // Its path is a member of its own, named after what it leads to.
  std::string operator()(const ChoiceOrPathKey& kind) const {
    return word(kind.choice) + assigned(member + "_checkpoint.written", literal(kind.path.get(settings).written));
  }
};

std::string assignment(const Key& key, const Settings& settings, const std::string& table) {
  return std::visit(Assignment{key, settings, table + "." + key.name}, key.kind);
}

std::string keys_text(const Settings& settings) {
  std::string text;
  for (const Key& key : all_keys()) {
    const char* const holder = key.holder != nullptr ? key.holder : key.table;
    text += assignment(key, settings, std::string("s.") + holder);
  }
  text += "  s.draw.is_given = " + truth(settings.draw.is_given) + ";\n";
  text += "  s.serve.is_given = " + truth(settings.serve.is_given) + ";\n";
  text += "  s.media_engine.simulation.is_given = " + truth(settings.media_engine.simulation.is_given) + ";\n";
  for (const GroupSettings& group : settings.training.groups) {
    Settings one;
    one.training.groups = {group};  // the keys of groups work on the last one
    text += "  s.training.groups.emplace_back();\n";
    for (const Key& key : group_keys()) text += assignment(key, one, "s.training.groups.back()");
  }
  return text;
}

std::string words_text(const ModelWords& words) {
  std::string text;
  for (const HeadWords& head : words.heads) {
    text += "  s.words.heads.push_back({" + literal(head.name) + ", " + truth(head.reads_labels) + ", " +
            truth(head.uses_negatives) + ", " + truth(head.has_classes) + ", " + list(head.smaller_is_better) + ", " +
            truth(head.mixes_labels) + ", " + truth(head.reads_pairs) + ", " + truth(head.reads_targets) + ", " +
            truth(head.reads_words) + ", " + truth(head.embeds_texts) + "});\n";
  }
  return text + "  s.words.parts = " + list(words.parts) + ";\n  s.words.frozen = " + list(words.frozen) +
         ";\n  s.words.idle = " + list(words.idle) + ";\n  s.words.draws = " + truth(words.draws) +
         ";\n  s.words.body = " + literal(words.body) + ";\n";
}

std::string origin_text(const SettingsOrigin& origin) {
  std::string text = "  s.origin.file = " + literal(origin.file) + ";\n";
  for (const auto& [key, place] : origin.where)
    text += "  s.origin.where[" + literal(key) + "] = " + literal(place) + ";\n";
  return text;
}

}  // namespace

std::string settings_as_cpp(Settings settings, const std::string& name) {
  for (auto& [key, place] : settings.origin.where) place.replace(0, settings.origin.file.size(), name);
  settings.origin.file = name;
  const std::string toml = print_settings(settings);
  Sha256 sum;
  sum.add(toml.data(), toml.size());
  return "// Written by seal_settings.\n#include \"src/settings/command_line_keys.h\"\n\nnamespace bascule {\n\n"
         "const SealedSettings* sealed_settings() {\n  static constexpr SealedSettings kSealed = {" +
         literal(settings.origin.file) + ", " + literal(settings_digest(settings)) + ", " + literal(sum.hex()) + "," +
         lines_literal(toml) +
         "};\n  return &kSealed;\n}\n\n"
         "Settings settings_of_run(const SettingsSource&, const FindModelWords&) {\n  Settings s;\n" +
         keys_text(settings) + words_text(settings.words) + origin_text(settings.origin) +
         "  return placed_settings(s);\n}\n\n"
         "Settings settings_of_service(const std::string&, const std::vector<std::string>&, const FindModelWords& "
         "find) "
         "{\n  return settings_of_run({}, find);\n}\n\n}  // namespace bascule\n";
}

}  // namespace bascule
