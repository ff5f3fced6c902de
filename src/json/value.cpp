// SPDX-License-Identifier: Apache-2.0
#include "src/json/value.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

namespace bascule {
namespace {

bool begins_with_string(const Json& value) { return value.is_array() && value.size() == 2 && value[0].is_string(); }

}  // namespace

Json::Json(Value value) noexcept : value_(std::move(value)) {}
Json::Json() noexcept = default;
Json::Json(std::nullptr_t) noexcept {}
Json::Json(int value) : value_(std::int64_t{value}) {}
Json::Json(unsigned value) : value_(std::int64_t{value}) {}
Json::Json(std::int64_t value) : value_(value) {}
Json::Json(std::uint64_t value) : value_(value) {
  if (value <= std::uint64_t{std::numeric_limits<std::int64_t>::max()}) value_ = static_cast<std::int64_t>(value);
}
Json::Json(float value) : value_(static_cast<double>(value)) {}
Json::Json(double value) : value_(value) {}
Json::Json(const char* text) : value_(std::string(text)) {}
Json::Json(std::string text) : value_(std::move(text)) {}
Json::Json(Array elements) : value_(std::move(elements)) {}
Json::Json(Object members) : value_(std::move(members)) {}
Json::Json(std::initializer_list<Json> elements) : value_(Array(elements)) {
  if (!std::all_of(elements.begin(), elements.end(), begins_with_string)) return;
  Object members;
  for (const Json& pair : elements) members.emplace(pair[0].string(), pair[1]);
  value_ = std::move(members);
}
Json::Json(const Json& other) = default;
Json::Json(Json&& other) noexcept = default;
Json& Json::operator=(const Json& other) = default;
Json& Json::operator=(Json&& other) noexcept = default;
Json::~Json() = default;

Json Json::array(std::initializer_list<Json> elements) { return Json(Array(elements)); }
Json Json::object() { return Json(Object()); }

bool Json::is_null() const noexcept { return std::holds_alternative<std::nullptr_t>(value_); }
bool Json::is_boolean() const noexcept { return std::holds_alternative<bool>(value_); }
bool Json::is_integer() const noexcept { return std::holds_alternative<std::int64_t>(value_); }
bool Json::is_number() const noexcept {
  return is_integer() || std::holds_alternative<std::uint64_t>(value_) || std::holds_alternative<double>(value_);
}
bool Json::is_string() const noexcept { return std::holds_alternative<std::string>(value_); }
bool Json::is_array() const noexcept { return std::holds_alternative<Array>(value_); }
bool Json::is_object() const noexcept { return std::holds_alternative<Object>(value_); }

bool Json::boolean() const { return std::get<bool>(value_); }
std::int64_t Json::integer() const { return std::get<std::int64_t>(value_); }
double Json::number() const {
  if (is_integer()) return static_cast<double>(integer());
  const std::uint64_t* const large = std::get_if<std::uint64_t>(&value_);
  return large != nullptr ? static_cast<double>(*large) : std::get<double>(value_);
}
const std::string& Json::string() const { return std::get<std::string>(value_); }

std::size_t Json::size() const { return is_object() ? items().size() : std::get<Array>(value_).size(); }
const Json& Json::operator[](std::size_t index) const { return std::get<Array>(value_).at(index); }
Json& Json::operator[](std::size_t index) { return std::get<Array>(value_).at(index); }
const Json* Json::begin() const { return std::get<Array>(value_).data(); }
const Json* Json::end() const {
  const Array& elements = std::get<Array>(value_);
  return elements.data() + elements.size();
}
void Json::push_back(Json element) { std::get<Array>(value_).push_back(std::move(element)); }

const Json::Object& Json::items() const { return std::get<Object>(value_); }
Json::Object& Json::items() { return std::get<Object>(value_); }
bool Json::contains(std::string_view key) const { return find(key) != nullptr; }
const Json* Json::find(std::string_view key) const {
  const Object* const object = std::get_if<Object>(&value_);
  if (object == nullptr) return nullptr;
  const auto place = object->find(key);
  return place == object->end() ? nullptr : &place->second;
}
const Json& Json::operator[](std::string_view key) const {
  const Json* const member = find(key);
  if (member == nullptr) throw std::out_of_range("no \"" + std::string(key) + "\" in the JSON object");
  return *member;
}
Json& Json::operator[](std::string_view key) {
  if (is_null()) value_ = Object();
  return items()[std::string(key)];
}

bool operator==(const Json& a, const Json& b) {
  const bool are_numbers = a.is_number() && b.is_number() && a.value_.index() != b.value_.index();
  return are_numbers ? a.number() == b.number() : a.value_ == b.value_;
}

}  // namespace bascule
