// SPDX-License-Identifier: Apache-2.0
// A JSON document as a value. json.h reads and writes documents; the library that does it stays in json.cpp, because
// its header costs seconds of compile time in every file that includes it.
//
//   Json entry = {{"step", step}, {"loss", loss}};  // a list of pairs that begin with a string: an object
//   entry["shape"] = Json::array({2, 3});
//   for (const auto& [key, value] : entry.items()) ...
//
// An accessor for another type than the value has throws std::bad_variant_access: ask first, or use get_int() and its
// like of json.h, which name the key.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

namespace bascule {

class Json {
 public:
  using Array = std::vector<Json>;
  // Sorted by key, as Transformers writes them; lookup is logarithmic (a vocabulary has 50,000 keys).
  using Object = std::map<std::string, Json, std::less<>>;
  // The unsigned integers are those above the largest signed one.
  using Value = std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string, Array, Object>;

  Json() noexcept;  // null
  Json(std::nullptr_t) noexcept;
  template <typename Bool, typename = std::enable_if_t<std::is_same_v<Bool, bool>>>  // no pointer is one
  Json(Bool value) : Json(Value(value)) {}
  Json(int value);
  Json(unsigned value);
  Json(std::int64_t value);
  Json(std::uint64_t value);
  Json(float value);
  Json(double value);
  Json(const char* text);
  Json(std::string text);
  Json(Array elements);
  Json(Object members);
  template <typename Element>
  Json(const std::vector<Element>& elements) : Json(Array(elements.begin(), elements.end())) {}
  Json(std::initializer_list<Json> elements);
  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(const Json& other);
  Json& operator=(Json&& other) noexcept;
  ~Json();

  static Json array(std::initializer_list<Json> elements = {});
  static Json object();

  bool is_null() const noexcept;
  bool is_boolean() const noexcept;
  bool is_integer() const noexcept;  // written as one, and fits into 64 bits with a sign
  bool is_number() const noexcept;
  bool is_string() const noexcept;
  bool is_array() const noexcept;
  bool is_object() const noexcept;

  bool boolean() const;
  std::int64_t integer() const;
  double number() const;
  const std::string& string() const;
  const Value& value() const noexcept { return value_; }

  std::size_t size() const;  // elements of an array, members of an object

  // Arrays.
  const Json& operator[](std::size_t index) const;
  Json& operator[](std::size_t index);
  const Json* begin() const;
  const Json* end() const;
  void push_back(Json element);

  // Objects. operator[] of a document that may change makes an object of null, and adds a member that is absent.
  const Object& items() const;
  Object& items();
  bool contains(std::string_view key) const;           // false for what is no object
  const Json* find(std::string_view key) const;        // nullptr: absent, or this is no object
  const Json& operator[](std::string_view key) const;  // throws std::out_of_range
  Json& operator[](std::string_view key);

  // 1 equals 1.0.
  friend bool operator==(const Json& a, const Json& b);
  friend bool operator!=(const Json& a, const Json& b) { return !(a == b); }

 private:
  explicit Json(Value value) noexcept;
  Value value_;
};

}  // namespace bascule
