// SPDX-License-Identifier: Apache-2.0
// Settings that may change between the start of a run and its resumption from a checkpoint. Every key has one of these
// effects (the tables of key_tables.h); the check before a run goes on, `bascule settings --resume`, the reference of
// keys and the refusals are made from it. Before the seal.
#pragma once

#include <string>
#include <vector>

#include "src/base/readable.h"
#include "src/settings/settings.h"

namespace bascule {

enum class KeyEffect {
  kNumbers,          // another value gives other results: a run goes on with the same value only
  kFromThereOn,      // gives other results, but its meaning is clear: may change, and holds from the checkpoint on
  kSameFiles,        // a path: may change where it leads to files of the same content
  kSameRows,         // the training file: may change where its rows are the same, but for bad pictures and their rows
  kLonger,           // the length of the run or of its schedule: may grow
  kLower,            // may be lowered after values that are not finite stopped the run
  kSameProduct,      // ranks and accumulation: may change where their product stays
  kBetweenMachines,  // on several machines kNumbers, on one kFree
  kWhileTraining,    // may lead to other weights as long as the run trains, none afterwards: may change
  kWithLibrary,      // with oneDNN's products kWhileTraining, with our own kFree
  kFree,             // the same results with any value
};

// For a table, one or two words: "no", "yes", "longer". For people, what that means.
const char* resume_word(KeyEffect effect);
const char* resume_meaning(KeyEffect effect);
// Every word with its meaning; and as a Markdown list.
std::vector<NamedText> resume_words();
std::string resume_legend();

// A key with its value and what may become of it.
struct KeyRule {
  std::string key;    // "data.ring_slots"
  std::string value;  // canonical
  const char *word, *resume_meaning;
};
// One rule for each key, in the order of the reference.
std::vector<KeyRule> resume_rules(const Settings& settings);

using KeyValues = std::vector<NamedText>;

// Keys with any effect but kFree, kWhileTraining and kSameProduct with their canonical values, in the order of the
// reference, frozen parts that have no gradient being at their default, a value of programs older than its key left
// out; and what follows from several keys together, under a name of its own: world size and accumulation enter as their
// product.
KeyValues number_keys(const Settings& settings);
// The remaining keys.
KeyValues other_keys(const Settings& settings);
// Every key of print_settings(), with its table; training.groups as one value.
KeyValues printed_keys(const Settings& settings);

// A key whose value is not what it was. The values are canonical; "not set" stands for none.
struct SettingChange {
  std::string key;
  std::string from;
  std::string to;
  KeyEffect effect = KeyEffect::kFree;
};

// Differences between number_keys() and other_keys() of the start and the settings of now, in the order of the
// reference. A number key that was not kept (an older program did not have it) had the value that the table states, or
// its default; another key that was not kept is no change. An entry that is no key, such as the product, has the effect
// kNumbers. kBetweenMachines and kWithLibrary are resolved by the settings of now.
std::vector<SettingChange> setting_changes(const KeyValues& numbers, const KeyValues& others, const Settings& now);

// The effect of a key, "training.max_steps", resolved in the same way.
KeyEffect effect_of_key(const std::string& name, const Settings& settings);

}  // namespace bascule
