// SPDX-License-Identifier: Apache-2.0
#include "src/settings/read_canonical.h"

#include <algorithm>
#include <charconv>

#include "src/base/error.h"
#include "src/settings/keys.h"
#include "src/settings/validate.h"

namespace bascule {
namespace {

// One line's value. Functions return false where the text is something else.
class Value {
 public:
  explicit Value(std::string_view text) : text_(text) {}

  bool read(bool* out) {
    *out = text_ == "true";
    return *out || text_ == "false";
  }
  template <typename Number>
  bool read(Number* out) {
    const auto [end, failure] = std::from_chars(text_.data(), text_.data() + text_.size(), *out);
    return failure == std::errc() && end == text_.data() + text_.size();
  }
  bool read(NumberRange* out) {
    const std::size_t comma = text_.find(", ");
    if (comma == std::string_view::npos || text_.front() != '[' || text_.back() != ']') return false;
    return Value(text_.substr(1, comma - 1)).read(&out->least) &&
           Value(text_.substr(comma + 2, text_.size() - comma - 3)).read(&out->most);
  }
  bool read(std::string* out) { return take_string(out) && text_.empty(); }
  bool read(std::vector<std::string>* out) {
    out->clear();
    if (!take("[")) return false;
    while (!take("]")) {
      if (!out->empty() && !take(", ")) return false;
      out->emplace_back();
      if (!take_string(&out->back())) return false;
    }
    return text_.empty();
  }
  bool is_list() const { return text_.substr(0, 1) == "["; }

 private:
  bool take(std::string_view prefix) {
    if (text_.substr(0, prefix.size()) != prefix) return false;
    text_.remove_prefix(prefix.size());
    return true;
  }
  // As quoted() writes it.
  bool take_string(std::string* out) {
    out->clear();
    if (!take("\"")) return false;
    while (!text_.empty() && text_[0] != '"') {
      unsigned byte = 0;
      if (take("\\u00")) {
        const std::string_view digits = text_.substr(0, 2);
        const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
        if (failure != std::errc() || end != digits.data() + 2) return false;
        text_.remove_prefix(2);
      } else {
        (void)take("\\");
        if (text_.empty()) return false;
        byte = static_cast<unsigned char>(text_[0]);
        text_.remove_prefix(1);
      }
      *out += static_cast<char>(byte);
    }
    return take("\"");
  }

  std::string_view text_;
};

bool set_word(Settings& out, const ChoiceKey& key, Value value) {
  bool flag = false;
  if (key.of_true >= 0 && value.read(&flag)) {
    key.set(out, flag ? key.of_true : key.of_false);
    return true;
  }
  std::string word;
  if (!value.read(&word)) return false;
  for (int i = 0; i < key.count; ++i) {
    if (word != key.names[i]) continue;
    key.set(out, i);
    return true;
  }
  return false;
}

// Gives one key its value.
struct Setter {
  Settings& out;
  Value value;

  template <typename Kind>
  bool operator()(const Kind& key) {
    return value.read(&key.member.at(out));
  }
  bool operator()(const PathKey& key) { return value.read(&key.member.at(out).written); }
  bool operator()(const PathsKey& key) {
    std::vector<std::string>& written = key.member.at(out).written;
    if (value.is_list()) return value.read(&written);
    std::string path;
    if (!value.read(&path)) return false;
    if (!path.empty()) written = {path};
    return true;
  }
  bool operator()(const ChoiceKey& key) { return set_word(out, key, value); }
  bool operator()(const ChoiceOrPathKey& key) {
    if (set_word(out, key.choice, value)) return true;
    key.choice.set(out, key.choice.count);
    return value.read(&key.path.at(out).written);
  }
};

const Key* find_key(std::string_view table, std::string_view name) {
  for (const Key& key : keys_of_file()) {
    if (table == key.table && name == key.name) return &key;
  }
  return nullptr;
}

}  // namespace

std::vector<CanonicalLine> canonical_lines(std::string_view text) {
  using Kind = CanonicalLine::Kind;
  std::vector<CanonicalLine> lines;
  std::string_view table;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty()) continue;
    CanonicalLine read{Kind::kOther, number, line, table, {}, {}};
    const std::size_t equals = line.find(" = ");
    if (line == "[[" + std::string(kGroupsTable) + "]]") {
      read.kind = Kind::kGroup;
      read.table = table = line.substr(2, line.size() - 4);
    } else if (line.size() > 2 && line.front() == '[' && line.back() == ']') {
      read.kind = Kind::kTable;
      read.table = table = line.substr(1, line.size() - 2);
    } else if (equals != std::string_view::npos) {
      read.kind = Kind::kValue;
      read.name = line.substr(0, equals);
      read.value = line.substr(equals + 3);
    }
    lines.push_back(read);
  }
  return lines;
}

Settings read_canonical_settings(std::string_view text, const std::string& name, const ModelWords& words) {
  Settings settings = default_settings(words);
  settings.origin.file = name;
  for (const CanonicalLine& line : canonical_lines(text)) {
    if (line.kind == CanonicalLine::Kind::kGroup) settings.training.groups.emplace_back();
    if (line.kind == CanonicalLine::Kind::kTable && line.table == kSimulationTable)
      settings.media_engine.simulation.is_given = true;
    if (line.kind == CanonicalLine::Kind::kTable && line.table == kDrawTable) settings.draw.is_given = true;
    if (line.kind == CanonicalLine::Kind::kTable && line.table == kServeTable) settings.serve.is_given = true;
    if (line.kind == CanonicalLine::Kind::kGroup || line.kind == CanonicalLine::Kind::kTable) continue;
    const Key* const key = line.kind == CanonicalLine::Kind::kValue ? find_key(line.table, line.name) : nullptr;
    const bool has_group = line.table != kGroupsTable || !settings.training.groups.empty();
    if (key == nullptr || !has_group || !std::visit(Setter{settings, Value(line.value)}, key->kind)) {
      throw Error(ErrorKind::kSettings, name + ":" + std::to_string(line.number),
                  "\"" + std::string(line.text.substr(0, 60)) + "\" is not a setting that this program writes");
    }
    settings.origin.where[qualified_name(*key)] = name;
  }
  resolve_defaults(settings);
  return settings;
}

}  // namespace bascule
