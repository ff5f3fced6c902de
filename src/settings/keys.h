// SPDX-License-Identifier: Apache-2.0
// The one list of the keys of a settings file: name, member, range, effect and meaning. Reading, printing, the digest
// and the reference are made from it, so that a key is spelt once. Inside this room only; before the seal.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "src/base/span.h"
#include "src/settings/resume_rules.h"
#include "src/settings/settings.h"

namespace bascule {

// How a key reaches its member.
template <typename T>
struct MemberAccess {
  const T& (*get)(const Settings&);
  T& (*at)(Settings&);
};

struct BoolKey {
  MemberAccess<bool> member;
};
struct IntegerKey {
  MemberAccess<std::int64_t> member;
  std::int64_t min;
  std::int64_t max;
};
struct RealKey {
  MemberAccess<double> member;
  double min;
  double max;
  bool min_is_allowed;
  bool max_is_allowed;
};
// A list of two numbers, both bounds allowed, the second at least the first.
struct RangeKey {
  MemberAccess<NumberRange> member;
  double min;
  double max;
};
struct TextKey {
  MemberAccess<std::string> member;
  bool may_be_empty;
};
struct PathKey {
  MemberAccess<PathSetting> member;
};
// One path, or a list of paths.
struct PathsKey {
  MemberAccess<PathsSetting> member;
};
struct WordsKey {
  MemberAccess<std::vector<std::string>> member;
};
// Closed lists too, but those of the model.
struct HeadKey {
  MemberAccess<std::string> member;
};
struct FreezeKey {
  MemberAccess<std::vector<std::string>> member;
};
// A closed list: the enumerator's value is the place of its name.
struct ChoiceKey {
  const char* const* names;
  int count;
  int (*get)(const Settings&);
  void (*set)(Settings&, int);
  int of_true = -1, of_false = -1;  // of a key that was once true or false: what these mean
};

// One of a closed list of words, or a path, which holds a '/'. As a choice its value is then the number of the words.
struct ChoiceOrPathKey {
  ChoiceKey choice;
  MemberAccess<PathSetting> path;
};

using KeyKind = std::variant<BoolKey, IntegerKey, RealKey, RangeKey, TextKey, PathKey, PathsKey, WordsKey, HeadKey,
                             FreezeKey, ChoiceKey, ChoiceOrPathKey>;

struct Key {
  const char *table, *name;
  KeyKind kind;
  KeyEffect effect;
  const char* meaning;                 // Markdown, one line, with the unit
  const char* default_note = nullptr;  // in place of the value of a fresh Settings; "required" makes the key required
  const char* before = nullptr;        // canonical value of programs older than the key; null: the default
};

// Printed and read in this order; keys of one table stand together. all_keys(): of the tables that are there once;
// group_keys(): of [[training.groups]]; keys_of_file(): both.
Span<const Key> all_keys();
Span<const Key> group_keys();
Span<const Key> keys_of_file();

// A table that exists only if the file has it.
inline constexpr const char kSimulationTable[] = "media_engine.simulation";
// The table of a run that draws, in place of those of training and its data.
inline constexpr const char kDrawTable[] = "draw";
// The same of one that only serves a finished model.
inline constexpr const char kServeTable[] = "serve";
// A table that may occur many times, as [[training.groups]]. Its keys access the members of the last group.
inline constexpr const char kGroupsTable[] = "training.groups";

// With [serve] beside training.output_dir, the run trains first, and then its finished folder is served. With [serve]
// and none of training, a finished model is served.
bool trains_and_serves(const Settings& settings);
bool only_serves(const Settings& settings);

// Whether the key is one of these settings': not one of a device that is not simulated, of drawing or serving where the
// file does not say so, or of training where it does.
bool is_present(const Key& key, const Settings& settings);
// Whether the key is of a table that every file may have, and without effect where these settings draw or serve.
bool is_idle(const Key& key, const Settings& settings);
bool is_required(const Key& key);
std::string qualified_name(const Key& key);  // "data.ring_slots"

// The values that a key may have: "an integer from 2 to 1024", "\"off\", \"full\" or \"fit\"".
std::string allowed_values(const Key& key, const ModelWords& words);

// The value as canonical TOML.
std::string value_text(const Key& key, const Settings& settings);
std::string quoted(const std::string& text);

// training.groups as one canonical value: "[{match = \"...\", ...}]".
std::string groups_text(const Settings& settings);

}  // namespace bascule
