// SPDX-License-Identifier: Apache-2.0
#include "src/json/json.h"

#include <cstddef>
#include <type_traits>
#include <utility>
#include <variant>

#include <nlohmann/json.hpp>

#include "src/base/digest.h"
#include "src/files/input_file.h"

namespace bascule {
namespace {

constexpr std::size_t kMaxDepth = 200;  // destroying and printing a document recurse

// Builds the document from the library's events, refusing what its own builder lets pass: keys given twice (it would
// keep one of them) and bottomless nesting.
class StrictBuilder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit StrictBuilder(Json& root) : root_(root) {}

  bool null() override { return add(Json()); }
  bool boolean(bool value) override { return add(Json(value)); }
  bool number_integer(number_integer_t value) override { return add(Json(value)); }
  bool number_unsigned(number_unsigned_t value) override { return add(Json(value)); }
  bool number_float(number_float_t value, const string_t&) override { return add(Json(value)); }
  bool string(string_t& value) override { return add(Json(std::move(value))); }
  bool binary(binary_t&) override { return false; }

  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    const auto [place, is_new] = open_.back()->items().emplace(name, Json());
    if (!is_new) problem_ = "duplicate key \"" + name + "\"";
    member_ = &place->second;
    return is_new;
  }

  bool parse_error(std::size_t position, const std::string& last_token,
                   const nlohmann::detail::exception& error) override {
    position_ = position;
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while parsing ...": from
    // "syntax". The other error has no place: "[json.exception.out_of_range.406] number overflow parsing '1e999'".
    problem_ = error.what();
    const std::size_t reason = problem_.find(": ");
    problem_ = "not JSON: " +
               (reason == std::string::npos ? "a number is too large: " + last_token : problem_.substr(reason + 2));
    constexpr std::size_t kMaxProblem = 300;  // it quotes the token, which may be the rest of the file
    if (problem_.size() > kMaxProblem) problem_ = problem_.substr(0, kMaxProblem) + "...";
    return false;
  }

  const std::string& problem() const { return problem_; }
  std::size_t position() const { return position_; }  // bytes read when the problem was met; 0: unknown

 private:
  Json* place(Json value) {
    if (!open_.empty() && open_.back()->is_array()) {
      Json& array = *open_.back();
      array.push_back(std::move(value));
      return &array[array.size() - 1];
    }
    Json* const destination = open_.empty() ? &root_ : member_;
    *destination = std::move(value);
    return destination;
  }

  bool add(Json value) {
    place(std::move(value));
    return true;
  }

  bool open(Json container) {
    if (open_.size() == kMaxDepth) {
      problem_ = "nested deeper than " + std::to_string(kMaxDepth) + " levels";
      return false;
    }
    open_.push_back(place(std::move(container)));
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  Json& root_;
  std::vector<Json*> open_;  // a parent does not grow while its child is open, so the pointers hold
  Json* member_ = nullptr;
  std::string problem_;
  std::size_t position_ = 0;
};

// The document in the library's type, which prints it.
nlohmann::json as_printed(const Json& document) {
  return std::visit(
      [](const auto& value) -> nlohmann::json {
        using Value = std::decay_t<decltype(value)>;
        nlohmann::json printed;
        if constexpr (std::is_same_v<Value, Json::Array>) {
          printed = nlohmann::json::array();
          for (const Json& element : value) printed.push_back(as_printed(element));
        } else if constexpr (std::is_same_v<Value, Json::Object>) {
          printed = nlohmann::json::object();
          for (const auto& [key, member] : value) printed.emplace(key, as_printed(member));
        } else {
          printed = value;
        }
        return printed;
      },
      document.value());
}

std::string line_and_column(std::string_view text, std::size_t bytes_read, std::int64_t first_line) {
  const std::size_t at = bytes_read == 0 ? 0 : std::min(bytes_read - 1, text.size());
  std::int64_t line = first_line;
  std::size_t line_start = 0;
  for (std::size_t i = 0; i < at; ++i) {
    if (text[i] == '\n') {
      ++line;
      line_start = i + 1;
    }
  }
  return std::to_string(line) + ":" + std::to_string(at - line_start + 1);
}

std::string short_text(const Json& value) {
  std::string text = json_text(value);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

[[noreturn]] void wrong_type(const std::string& where, const std::string& key, const Json& value, const char* wanted) {
  throw Error{ErrorKind::kData, where, "\"" + key + "\" is " + short_text(value), std::string("it must be ") + wanted};
}

const Json& require_member(const Json& object, const std::string& key, const std::string& where) {
  const Json* member = find_member(object, key, where);
  if (member == nullptr) throw Error{ErrorKind::kData, where, "\"" + key + "\" is missing", ""};
  return *member;
}

std::int64_t as_int(const Json& value, const std::string& key, const std::string& where) {
  if (!value.is_integer()) wrong_type(where, key, value, "a 64-bit integer");
  return value.integer();
}

double as_number(const Json& value, const std::string& key, const std::string& where) {
  if (!value.is_number()) wrong_type(where, key, value, "a number");
  return value.number();
}

bool as_bool(const Json& value, const std::string& key, const std::string& where) {
  if (!value.is_boolean()) wrong_type(where, key, value, "true or false");
  return value.boolean();
}

std::string as_string(const Json& value, const std::string& key, const std::string& where) {
  if (!value.is_string()) wrong_type(where, key, value, "a string");
  return value.string();
}

// Every element of the array `key`, read by `as`.
template <typename T>
std::vector<T> elements(const Json& object, const std::string& key, const std::string& where,
                        T (*as)(const Json&, const std::string&, const std::string&)) {
  std::vector<T> values;
  for (const Json& value : get_array(object, key, where)) values.push_back(as(value, key, where));
  return values;
}

const char* word_of(ErrorKind kind) {
  constexpr const char* kWords[] = {"bug", "settings", "data", "memory", "rank", "disk", "not_as_recorded"};
  return kWords[static_cast<int>(kind) - 1];
}

}  // namespace

Json parse_json(std::string_view text, const std::string& where, std::int64_t first_line) {
  Json document;
  StrictBuilder builder(document);
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) {
    const bool placed = builder.position() > 0;
    const std::string at =
        placed ? ":" + line_and_column(text, builder.position(), first_line) : ":" + std::to_string(first_line);
    throw Error{ErrorKind::kData, where + at, builder.problem(), ""};
  }
  // The library takes a zero byte for the end of the text.
  if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos)
    throw Error{ErrorKind::kData, where + ":" + line_and_column(text, zero + 1, first_line), "not JSON: a zero byte",
                ""};
  return document;
}

Json read_json_file(const std::string& path, std::int64_t max_bytes) {
  return parse_json(text_of_file(path, max_bytes), path);
}

std::uint64_t json_digest(const Json& document) {
  const std::string text = json_text(document);
  return digest_of(text.data(), text.size());
}

std::string json_text(const Json& document, int indent) {
  return as_printed(document).dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

const Json* find_member(const Json& object, const std::string& key, const std::string& where) {
  if (!object.is_object()) {
    throw Error{ErrorKind::kData, where, "expected an object with \"" + key + "\", found " + short_text(object), ""};
  }
  const Json* const member = object.find(key);
  return member == nullptr || member->is_null() ? nullptr : member;
}

std::int64_t get_int(const Json& object, const std::string& key, const std::string& where) {
  return as_int(require_member(object, key, where), key, where);
}
std::int64_t get_int(const Json& object, const std::string& key, const std::string& where, std::int64_t fallback) {
  const Json* member = find_member(object, key, where);
  return member == nullptr ? fallback : as_int(*member, key, where);
}

std::uint64_t get_unsigned(const Json& object, const std::string& key, const std::string& where) {
  const Json& value = require_member(object, key, where);
  if (const auto* const large = std::get_if<std::uint64_t>(&value.value())) return *large;
  if (!value.is_integer() || value.integer() < 0)
    wrong_type(where, key, value, "an integer from 0 to 18446744073709551615");
  return static_cast<std::uint64_t>(value.integer());
}

double get_number(const Json& object, const std::string& key, const std::string& where) {
  return as_number(require_member(object, key, where), key, where);
}
double get_number(const Json& object, const std::string& key, const std::string& where, double fallback) {
  const Json* member = find_member(object, key, where);
  return member == nullptr ? fallback : as_number(*member, key, where);
}

bool get_bool(const Json& object, const std::string& key, const std::string& where) {
  return as_bool(require_member(object, key, where), key, where);
}
bool get_bool(const Json& object, const std::string& key, const std::string& where, bool fallback) {
  const Json* member = find_member(object, key, where);
  return member == nullptr ? fallback : as_bool(*member, key, where);
}

std::string get_string(const Json& object, const std::string& key, const std::string& where) {
  return as_string(require_member(object, key, where), key, where);
}
std::string get_string(const Json& object, const std::string& key, const std::string& where,
                       const std::string& fallback) {
  const Json* member = find_member(object, key, where);
  return member == nullptr ? fallback : as_string(*member, key, where);
}

const Json& get_object(const Json& object, const std::string& key, const std::string& where) {
  const Json& value = require_member(object, key, where);
  if (!value.is_object()) wrong_type(where, key, value, "an object");
  return value;
}

const Json& get_array(const Json& object, const std::string& key, const std::string& where) {
  const Json& value = require_member(object, key, where);
  if (!value.is_array()) wrong_type(where, key, value, "an array");
  return value;
}

std::vector<std::int64_t> get_ints(const Json& object, const std::string& key, const std::string& where) {
  return elements<std::int64_t>(object, key, where, as_int);
}

std::vector<double> get_numbers(const Json& object, const std::string& key, const std::string& where) {
  return elements<double>(object, key, where, as_number);
}

std::vector<std::string> get_strings(const Json& object, const std::string& key, const std::string& where) {
  return elements<std::string>(object, key, where, as_string);
}

Json error_json(const Error& error) {
  return {{"kind", word_of(error.kind())},
          {"exit_code", exit_code(error.kind())},
          {"where", error.where()},
          {"what", error.problem()},
          {"what_to_do", error.what_to_do()}};
}

}  // namespace bascule
