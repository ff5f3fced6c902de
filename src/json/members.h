// SPDX-License-Identifier: Apache-2.0
// A struct's members listed once, with their names in JSON: a writer and a reader walk the same list.
//
//   constexpr auto members_of(const Point*) { return std::make_tuple(named("x", &Point::x), ...); }
//   Json json = written(point);
//   read_members(json, {file, "point"}, &point);  // throws Error kData
//
// Members are numbers, booleans, strings, structs with members, and lists and optional ones of these: null where
// absent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "src/base/error.h"
#include "src/json/value.h"

namespace bascule {

template <typename Struct, typename Member>
struct NamedMember {
  const char* name;
  Member Struct::*member;
};
template <typename Struct, typename Member>
constexpr NamedMember<Struct, Member> named(const char* name, Member Struct::*member) {
  return {name, member};
}

template <typename Value>
Json written(const Value& value);
template <typename Content>
Json written(const std::optional<Content>& value) {
  return value ? written(*value) : Json();
}
template <typename Element>
Json written(const std::vector<Element>& value) {
  Json list = Json::array();
  for (const Element& element : value) list.push_back(written(element));
  return list;
}
template <typename Value>
Json written(const Value& value) {
  if constexpr (std::is_convertible_v<const Value&, Json>) {
    return value;
  } else {
    Json object = Json::object();
    std::apply([&](const auto&... one) { ((object[one.name] = written(value.*one.member)), ...); }, members_of(&value));
    return object;
  }
}

// The place of a value, for messages.
struct JsonPlace {
  const std::string& file;
  std::string path;              // "machine.cores[2].package"
  bool may_have_others = false;  // members that are none of the struct's

  JsonPlace at(const std::string& below) const { return {file, path + below, may_have_others}; }
  [[noreturn]] void refuse(const std::string& problem) const {
    throw Error(ErrorKind::kData, file, path + " " + problem, "the file is damaged, or another version wrote it");
  }
};

inline void read_members(const Json& json, const JsonPlace& place, std::int64_t* value) {
  if (!json.is_integer()) place.refuse("is not an integer");
  *value = json.integer();
}
inline void read_members(const Json& json, const JsonPlace& place, double* value) {
  if (!json.is_number()) place.refuse("is not a number");
  *value = json.number();
}
inline void read_members(const Json& json, const JsonPlace& place, bool* value) {
  if (!json.is_boolean()) place.refuse("must be true or false");
  *value = json.boolean();
}
inline void read_members(const Json& json, const JsonPlace& place, std::string* value) {
  if (!json.is_string()) place.refuse("is not a string");
  *value = json.string();
}
template <typename Struct>
void read_members(const Json& json, const JsonPlace& place, Struct* value);
template <typename Content>
void read_members(const Json& json, const JsonPlace& place, std::optional<Content>* value) {
  if (!json.is_null()) read_members(json, place, &value->emplace());
}
template <typename Element>
void read_members(const Json& json, const JsonPlace& place, std::vector<Element>* value) {
  if (!json.is_array()) place.refuse("is not a list");
  for (std::size_t i = 0; i < json.size(); ++i)
    read_members(json[i], place.at("[" + std::to_string(i) + "]"), &value->emplace_back());
}
template <typename Struct>
void read_members(const Json& json, const JsonPlace& place, Struct* value) {
  if (!json.is_object()) place.refuse("is not an object");
  const auto all = members_of(value);
  const auto read_member = [&](const auto& one) {
    const JsonPlace at = place.at(std::string(place.path.empty() ? "" : ".") + one.name);
    const Json* const found = json.find(one.name);
    if (found == nullptr) at.refuse("is missing");
    read_members(*found, at, &(value->*one.member));
  };
  std::apply([&](const auto&... one) { (read_member(one), ...); }, all);
  if (place.may_have_others || json.size() == std::tuple_size_v<decltype(all)>) return;
  for (const auto& [name, content] : json.items()) {
    const bool is_ours = std::apply([&, &key = name](const auto&... one) { return ((key == one.name) || ...); }, all);
    if (!is_ours) place.at("." + name).refuse("is not known to this version");
  }
}

}  // namespace bascule
