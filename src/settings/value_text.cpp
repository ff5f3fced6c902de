// SPDX-License-Identifier: Apache-2.0
// Values and ranges of keys as text.
#include <charconv>
#include <cstddef>

#include "src/settings/keys.h"

namespace bascule {
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

}  // namespace bascule
