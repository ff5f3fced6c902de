// SPDX-License-Identifier: Apache-2.0
#include "src/json/json_scan.h"

#include <array>
#include <charconv>

#include "src/base/utf8.h"

namespace bascule {
namespace {

bool is_space(char c) noexcept { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

void skip_space(std::string_view* rest) noexcept {
  std::size_t end = 0;
  while (end < rest->size() && is_space((*rest)[end])) ++end;
  rest->remove_prefix(end);
}

int hex_value(char c) noexcept {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// Characters of a string at the start that stand for themselves and are one byte.
std::size_t plain_bytes(std::string_view text) noexcept {
  std::size_t end = 0;
  while (end < text.size() && text[end] >= ' ' && text[end] != '"' && text[end] != '\\') ++end;
  return end;
}

// Four hexadecimal digits at the start; -1: there are none.
std::int32_t hex_unit(std::string_view text) noexcept {
  if (text.size() < 4) return -1;
  std::int32_t unit = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    const int digit = hex_value(text[i]);
    if (digit < 0) return -1;
    unit = unit * 16 + digit;
  }
  return unit;
}

bool is_high(std::int32_t unit) noexcept { return unit >= 0xD800 && unit < 0xDC00; }
bool is_low(std::int32_t unit) noexcept { return unit >= 0xDC00 && unit < 0xE000; }

// What an escape stands for, and its bytes; no bytes: it is none. text begins behind the backslash.
struct Escape {
  std::uint32_t code_point = 0;
  std::size_t bytes = 0;
};
Escape read_escape(std::string_view text) noexcept {
  if (text.empty()) return {};
  switch (text[0]) {
    case '"':
    case '\\':
    case '/': return {static_cast<std::uint32_t>(text[0]), 1};
    case 'b': return {'\b', 1};
    case 'f': return {'\f', 1};
    case 'n': return {'\n', 1};
    case 'r': return {'\r', 1};
    case 't': return {'\t', 1};
    case 'u': break;
    default: return {};
  }
  const std::int32_t unit = hex_unit(text.substr(1));
  if (unit < 0 || is_low(unit)) return {};
  if (!is_high(unit)) return {static_cast<std::uint32_t>(unit), 5};
  if (text.size() < 11 || text[5] != '\\' || text[6] != 'u') return {};
  const std::int32_t low = hex_unit(text.substr(7));
  if (!is_low(low)) return {};
  return {0x10000u + (static_cast<std::uint32_t>(unit - 0xD800) << 10) + static_cast<std::uint32_t>(low - 0xDC00), 11};
}

// The characters of a string of a checked document, one after another.
class Characters {
 public:
  explicit Characters(std::string_view raw) noexcept : raw_(raw) {}
  bool is_done() const noexcept { return raw_.empty(); }
  std::uint32_t take() noexcept {
    if (raw_[0] == '\\') {
      const Escape escape = read_escape(raw_.substr(1));
      raw_.remove_prefix(1 + escape.bytes);
      return escape.code_point;
    }
    const Utf8Character character = utf8_character(raw_, 0);
    raw_.remove_prefix(character.bytes);
    return character.code_point;
  }

 private:
  std::string_view raw_;
};

bool are_equal(std::string_view raw_a, std::string_view raw_b) noexcept {
  Characters a(raw_a), b(raw_b);
  while (!a.is_done() && !b.is_done()) {
    if (a.take() != b.take()) return false;
  }
  return a.is_done() && b.is_done();
}

bool is_text(std::string_view raw, std::string_view text) noexcept {
  Characters characters(raw);
  for (std::size_t place = 0; place < text.size();) {
    const Utf8Character character = utf8_character(text, place);
    if (characters.is_done() || characters.take() != character.code_point) return false;
    place += character.bytes;
  }
  return characters.is_done();
}

class Checker {
 public:
  explicit Checker(std::string_view text) noexcept : text_(text), rest_(text) {}

  JsonProblem check() noexcept {
    value(0);
    if (what_ == nullptr) {
      skip_space(&rest_);
      if (!rest_.empty()) fail("there is more behind the end of the document");
    }
    return {what_, what_ == nullptr ? 0 : text_.size() - rest_.size()};
  }

 private:
  bool fail(const char* what) noexcept {
    if (what_ == nullptr) what_ = what;
    return false;
  }
  // The next character that is no white space; 0 at the end.
  char peek() noexcept {
    skip_space(&rest_);
    return rest_.empty() ? '\0' : rest_[0];
  }
  bool take(char c, const char* problem) noexcept {
    if (peek() != c) return fail(problem);
    rest_.remove_prefix(1);
    return true;
  }

  bool value(int depth) noexcept {
    const char c = peek();
    if (c == '{' || c == '[') {
      if (depth == kMostScannedDepth) return fail("the document is nested too deeply");
      return c == '{' ? object(depth + 1) : array(depth + 1);
    }
    if (c == '"') return string();
    if (c == '-' || is_digit(c)) return number();
    for (const std::string_view word :
         {std::string_view("true"), std::string_view("false"), std::string_view("null")}) {
      if (rest_.substr(0, word.size()) != word) continue;
      rest_.remove_prefix(word.size());
      return true;
    }
    return fail(rest_.empty() ? "the document ends early" : "a value is expected");
  }

  bool object(int depth) noexcept {
    std::array<std::string_view, kMostScannedMembers> keys;
    std::size_t count = 0;
    rest_.remove_prefix(1);
    if (peek() == '}') return take('}', "");
    for (;;) {
      if (peek() != '"') return fail("a member's name is expected");
      const std::string_view before = rest_;
      if (!string()) return false;
      const std::string_view key = before.substr(1, before.size() - rest_.size() - 2);
      for (std::size_t i = 0; i < count; ++i) {
        if (are_equal(keys[i], key)) return fail("an object has a member twice");
      }
      if (count == keys.size()) return fail("an object has too many members");
      keys[count++] = key;
      if (!take(':', "a colon is expected") || !value(depth)) return false;
      if (peek() == '}') return take('}', "");
      if (!take(',', "a comma or the end of the object is expected")) return false;
    }
  }

  bool array(int depth) noexcept {
    rest_.remove_prefix(1);
    if (peek() == ']') return take(']', "");
    for (;;) {
      if (!value(depth)) return false;
      if (peek() == ']') return take(']', "");
      if (!take(',', "a comma or the end of the array is expected")) return false;
    }
  }

  bool string() noexcept {
    rest_.remove_prefix(1);
    for (;;) {
      rest_.remove_prefix(plain_bytes(rest_));
      if (rest_.empty() || rest_[0] == '"') break;
      if (static_cast<unsigned char>(rest_[0]) < 0x20) return fail("a string has a control character");
      std::size_t bytes = utf8_bytes_at(rest_, 0);
      if (bytes == 0) return fail("a byte is not UTF-8");
      if (rest_[0] == '\\') {
        const Escape escape = read_escape(rest_.substr(1));
        if (escape.bytes == 0) return fail("a string has an escape that is none, or half of a surrogate pair");
        bytes = 1 + escape.bytes;
      }
      rest_.remove_prefix(bytes);
    }
    if (rest_.empty()) return fail("a string has no end");
    rest_.remove_prefix(1);
    return true;
  }

  bool digits() noexcept {
    if (rest_.empty() || !is_digit(rest_[0])) return fail("a number has no digit where one is expected");
    while (!rest_.empty() && is_digit(rest_[0])) rest_.remove_prefix(1);
    return true;
  }

  bool number() noexcept {
    if (rest_[0] == '-') rest_.remove_prefix(1);
    if (!rest_.empty() && rest_[0] == '0') {
      rest_.remove_prefix(1);
      if (!rest_.empty() && is_digit(rest_[0])) return fail("a number begins with 0");
    } else if (!digits()) {
      return false;
    }
    if (!rest_.empty() && rest_[0] == '.') {
      rest_.remove_prefix(1);
      if (!digits()) return false;
    }
    if (!rest_.empty() && (rest_[0] == 'e' || rest_[0] == 'E')) {
      rest_.remove_prefix(1);
      if (!rest_.empty() && (rest_[0] == '+' || rest_[0] == '-')) rest_.remove_prefix(1);
      return digits();
    }
    return true;
  }

  const std::string_view text_;
  std::string_view rest_;
  const char* what_ = nullptr;
};

// Bytes of the string that `text` begins with, quotes too. The document is checked.
std::size_t string_bytes(std::string_view text) noexcept {
  std::size_t end = 1;
  while (text[end] != '"') end += text[end] == '\\' ? 2 : 1;
  return end + 1;
}

// Bytes of the value that `text` begins with.
std::size_t value_bytes(std::string_view text) noexcept {
  if (text[0] == '"') return string_bytes(text);
  std::size_t end = 0;
  if (text[0] != '{' && text[0] != '[') {
    constexpr std::string_view kEnds = ",]} \t\n\r";
    while (end < text.size() && kEnds.find(text[end]) == std::string_view::npos) ++end;
    return end;
  }
  int depth = 0;
  do {
    const char c = text[end];
    if (c == '"') {
      end += string_bytes(text.substr(end));
      continue;
    }
    depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
    ++end;
  } while (depth > 0);
  return end;
}

}  // namespace

JsonProblem check_json(std::string_view text) noexcept { return Checker(text).check(); }

JsonView::JsonView(std::string_view document) noexcept : rest_(document) { skip_space(&rest_); }

JsonKind JsonView::kind() const noexcept {
  if (rest_.empty()) return JsonKind::kNone;
  switch (rest_[0]) {
    case '{': return JsonKind::kObject;
    case '[': return JsonKind::kArray;
    case '"': return JsonKind::kString;
    case 't': return JsonKind::kTrue;
    case 'f': return JsonKind::kFalse;
    case 'n': return JsonKind::kNull;
    default: return JsonKind::kNumber;
  }
}

// The value that stands next in an object or an array, whose end may be there instead.
JsonView JsonView::at(std::string_view rest, bool has_key) noexcept {
  skip_space(&rest);
  if (rest[0] == '}' || rest[0] == ']') return {};
  std::string_view key;
  if (has_key) {
    const std::size_t bytes = string_bytes(rest);
    key = rest.substr(1, bytes - 2);
    rest.remove_prefix(bytes);
    skip_space(&rest);
    rest.remove_prefix(1);
    skip_space(&rest);
  }
  JsonView view(rest, key);
  view.is_member_ = has_key;
  return view;
}

JsonView JsonView::first() const noexcept {
  if (!is(JsonKind::kObject) && !is(JsonKind::kArray)) return {};
  return at(rest_.substr(1), is(JsonKind::kObject));
}

JsonView JsonView::next() const noexcept {
  std::string_view rest = rest_.substr(value_bytes(rest_));
  skip_space(&rest);
  if (rest[0] != ',') return {};
  return at(rest.substr(1), is_member_);
}

JsonView JsonView::member(std::string_view name) const noexcept {
  if (!is(JsonKind::kObject)) return {};
  for (JsonView one = first(); one.is_there(); one = one.next()) {
    if (is_text(one.key_, name)) return one;
  }
  return {};
}

std::size_t JsonView::count() const noexcept {
  std::size_t items = 0;
  for (JsonView one = first(); one.is_there(); one = one.next()) ++items;
  return items;
}

std::string_view JsonView::raw_string() const noexcept {
  return is(JsonKind::kString) ? rest_.substr(1, string_bytes(rest_) - 2) : std::string_view();
}

std::string_view JsonView::string(Span<char> room) const noexcept {
  const std::string_view raw = raw_string();
  if (raw.find('\\') == std::string_view::npos) return raw;
  Characters characters(raw);
  std::size_t bytes = 0;
  while (!characters.is_done()) bytes += put_utf8(characters.take(), room.data() + bytes);
  return {room.data(), bytes};
}

bool JsonView::equals(std::string_view text) const noexcept {
  return is(JsonKind::kString) && is_text(raw_string(), text);
}

std::optional<std::int64_t> JsonView::integer() const noexcept {
  if (!is(JsonKind::kNumber)) return std::nullopt;
  const char* const end = rest_.data() + value_bytes(rest_);
  std::int64_t value = 0;
  const std::from_chars_result read = std::from_chars(rest_.data(), end, value);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return value;
}

std::optional<double> JsonView::number() const noexcept {
  if (!is(JsonKind::kNumber)) return std::nullopt;
  double value = 0.0;
  const std::from_chars_result read = std::from_chars(rest_.data(), rest_.data() + value_bytes(rest_), value);
  if (read.ec != std::errc()) return std::nullopt;
  return value;
}

}  // namespace bascule
