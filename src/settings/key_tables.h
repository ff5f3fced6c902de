// SPDX-License-Identifier: Apache-2.0
// The lists of keys, and the kinds of keys, each from its member: `integer<&DataSettings::ring_slots>(2, 1024)`.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "src/base/batch.h"
#include "src/settings/keys.h"

namespace bascule {

// Where the settings have a table's struct; of [[training.groups]] the last one. S: Settings, constant or not.
template <typename Table, typename S>
constexpr auto& table_of(S& settings) {
  if constexpr (std::is_same_v<Table, ModelSettings>) return settings.model;
  if constexpr (std::is_same_v<Table, DataSettings>) return settings.data;
  if constexpr (std::is_same_v<Table, MediaEngineSettings>) return settings.media_engine;
  if constexpr (std::is_same_v<Table, SimulationSettings>) return settings.media_engine.simulation;
  if constexpr (std::is_same_v<Table, RunSettings>) return settings.run;
  if constexpr (std::is_same_v<Table, TrainingSettings>) return settings.training;
  if constexpr (std::is_same_v<Table, GroupSettings>) return settings.training.groups.back();
  if constexpr (std::is_same_v<Table, GenerationSettings>) return settings.generation;
  if constexpr (std::is_same_v<Table, DrawSettings>) return settings.draw;
  if constexpr (std::is_same_v<Table, ServeSettings>) return settings.serve;
  if constexpr (std::is_same_v<Table, DistributedSettings>) return settings.distributed;
  if constexpr (std::is_same_v<Table, MachineSettings>) return settings.machine;
  if constexpr (std::is_same_v<Table, ReportSettings>) return settings.report;
}

// The two types of a pointer to a member.
template <typename Pointer>
struct MemberTypes;
template <typename ValueType, typename TableType>
struct MemberTypes<ValueType TableType::*> {
  using Value = ValueType;
  using Table = TableType;
};

template <auto Member>
constexpr auto member() {
  using Value = typename MemberTypes<decltype(Member)>::Value;
  using Table = typename MemberTypes<decltype(Member)>::Table;
  return MemberAccess<Value>{[](const Settings& s) -> const Value& { return table_of<Table>(s).*Member; },
                             [](Settings& s) -> Value& { return table_of<Table>(s).*Member; }};
}

template <auto Member>
constexpr KeyKind boolean() {
  return BoolKey{member<Member>()};
}
template <auto Member>
constexpr KeyKind integer(std::int64_t min, std::int64_t max) {
  return IntegerKey{member<Member>(), min, max};
}
// Both bounds allowed.
template <auto Member>
constexpr KeyKind real(double min, double max) {
  return RealKey{member<Member>(), min, max, true, true};
}
template <auto Member>
constexpr KeyKind real_above(double min, double max) {
  return RealKey{member<Member>(), min, max, false, true};
}
template <auto Member>
constexpr KeyKind real_below(double min, double max) {
  return RealKey{member<Member>(), min, max, true, false};
}
template <auto Member>
constexpr KeyKind range(double min, double max) {
  return RangeKey{member<Member>(), min, max};
}
template <auto Member>
constexpr KeyKind text(bool may_be_empty) {
  return TextKey{member<Member>(), may_be_empty};
}
template <auto Member>
constexpr KeyKind path() {
  return PathKey{member<Member>()};
}
template <auto Member>
constexpr KeyKind paths() {
  return PathsKey{member<Member>()};
}

// names: in the order of the enumerators.
template <auto Member, int N>
constexpr ChoiceKey words(const char* const (&names)[N]) {
  using Enumeration = typename MemberTypes<decltype(Member)>::Value;
  return ChoiceKey{names, N, [](const Settings& s) { return static_cast<int>(member<Member>().get(s)); },
                   [](Settings& s, int value) { member<Member>().at(s) = static_cast<Enumeration>(value); }};
}
template <auto Member, int N>
constexpr KeyKind choice(const char* const (&names)[N]) {
  return words<Member>(names);
}
// true: the first word; false: the last, or another one by its place.
template <auto Member, int N>
constexpr KeyKind choice_or_flag(const char* const (&names)[N], int of_false = N - 1) {
  ChoiceKey key = words<Member>(names);
  key.of_true = 0;
  key.of_false = of_false;
  return key;
}
template <auto Word, auto Path, int N>
constexpr KeyKind choice_or_path(const char* const (&names)[N]) {
  return ChoiceOrPathKey{words<Word>(names), member<Path>()};
}

// The keys by table, each file of them one list: for keys.cpp, which joins them.

// A bound for counts where only the machine sets a limit.
inline constexpr std::int64_t kMany = 1'000'000'000;
// The most tokens of one text, or of a source and a target together.
inline constexpr std::int64_t kMostTokens = kMaxTokensOfTexts;
// The update computes in float32, where a smaller value would be zero.
inline constexpr double kLeastFloat = 1.2e-38;
inline constexpr std::int64_t kMaxSeed = std::numeric_limits<std::int64_t>::max();

// Precision and WireType, in the order of their enumerators.
inline constexpr const char* kNumberTypes[] = {"float32", "bf16"};

inline constexpr KeyEffect kNumbers = KeyEffect::kNumbers;
inline constexpr KeyEffect kFromThereOn = KeyEffect::kFromThereOn;
inline constexpr KeyEffect kSameFiles = KeyEffect::kSameFiles;
inline constexpr KeyEffect kSameRows = KeyEffect::kSameRows;
inline constexpr KeyEffect kLonger = KeyEffect::kLonger;
inline constexpr KeyEffect kLower = KeyEffect::kLower;
inline constexpr KeyEffect kSameProduct = KeyEffect::kSameProduct;
inline constexpr KeyEffect kBetweenMachines = KeyEffect::kBetweenMachines;
inline constexpr KeyEffect kWhileTraining = KeyEffect::kWhileTraining;
inline constexpr KeyEffect kWithLibrary = KeyEffect::kWithLibrary;
inline constexpr KeyEffect kFree = KeyEffect::kFree;

Span<const Key> keys_of_data();      // [model], [data], [media_engine]
Span<const Key> keys_of_training();  // [training], [generation]
Span<const Key> keys_of_drawing();   // [draw]
Span<const Key> keys_of_serving();   // [serve]
Span<const Key> keys_of_machine();   // [distributed], [machine], [report]
Span<const Key> keys_of_groups();    // [[training.groups]]

}  // namespace bascule
