// SPDX-License-Identifier: Apache-2.0
// The paper's steps in its order, on the letters in place: no step makes a word longer than it was given. "NLTK" marks
// what the paper does not have.
#include "src/judge/rouge.h"

#include <algorithm>
#include <string_view>

namespace bascule {
namespace {

struct Word {
  char* letters;
  std::size_t length;

  std::string_view text() const noexcept { return {letters, length}; }
  char last() const noexcept { return letters[length - 1]; }
  void append(char letter) noexcept { letters[length++] = letter; }  // only where a suffix has gone
};

struct Irregular {
  std::string_view word, stem;
};

struct Rule {
  std::string_view suffix, replacement;
};

// NLTK: words whose stem the rules would get wrong.
constexpr Irregular kIrregular[] = {
    {"sky", "sky"},        {"skies", "sky"},       {"dying", "die"},        {"lying", "lie"},
    {"tying", "tie"},      {"news", "news"},       {"innings", "inning"},   {"inning", "inning"},
    {"outings", "outing"}, {"outing", "outing"},   {"cannings", "canning"}, {"canning", "canning"},
    {"howe", "howe"},      {"proceed", "proceed"}, {"exceed", "exceed"},    {"succeed", "succeed"},
};

// In a list of rules the first whose suffix fits is the one that counts, whether or not its condition holds.
constexpr Rule kStep2[] = {
    {"ational", "ate"}, {"tional", "tion"}, {"enci", "ence"},   {"anci", "ance"},   {"izer", "ize"},  {"bli", "ble"},
    {"entli", "ent"},   {"eli", "e"},       {"ousli", "ous"},   {"ization", "ize"}, {"ation", "ate"}, {"ator", "ate"},
    {"alism", "al"},    {"iveness", "ive"}, {"fulness", "ful"}, {"ousness", "ous"}, {"aliti", "al"},  {"iviti", "ive"},
    {"biliti", "ble"},  {"fulli", "ful"},   {"logi", "log"},
};

constexpr Rule kStep3[] = {
    {"icate", "ic"}, {"ative", ""}, {"alize", "al"}, {"iciti", "ic"}, {"ical", "ic"}, {"ful", ""}, {"ness", ""},
};

constexpr Rule kStep4[] = {
    {"al", ""},  {"ance", ""},  {"ence", ""}, {"er", ""},  {"ic", ""},  {"able", ""}, {"ible", ""},
    {"ant", ""}, {"ement", ""}, {"ment", ""}, {"ent", ""}, {"ion", ""}, {"ou", ""},   {"ism", ""},
    {"ate", ""}, {"iti", ""},   {"ous", ""},  {"ive", ""}, {"ize", ""},
};

bool ends_with(const Word& word, std::string_view suffix) noexcept {
  return word.length >= suffix.size() && word.text().substr(word.length - suffix.size()) == suffix;
}

bool is_one_of(char letter, std::string_view letters) noexcept {
  return letters.find(letter) != std::string_view::npos;
}

bool is_vowel_anywhere(char letter) noexcept { return is_one_of(letter, "aeiou"); }

// A y is a consonant where no consonant stands before it: at the start of a word, and after a vowel.
bool is_consonant_after(bool is_after_consonant, char letter) noexcept {
  return letter == 'y' ? !is_after_consonant : !is_vowel_anywhere(letter);
}

bool is_consonant(const Word& word, std::size_t place) noexcept {
  bool is_changed = false;  // each y of a run is what the one before it is not
  while (place > 0 && word.letters[place] == 'y') {
    is_changed = !is_changed;
    --place;
  }
  return is_vowel_anywhere(word.letters[place]) == is_changed;
}

// How often a consonant follows a vowel in the first `length` letters.
std::size_t measure(const Word& word, std::size_t length) noexcept {
  std::size_t count = 0;
  bool was_consonant = false;
  for (std::size_t i = 0; i < length; ++i) {
    const bool is_now = is_consonant_after(was_consonant, word.letters[i]);
    if (i > 0 && is_now && !was_consonant) ++count;
    was_consonant = is_now;
  }
  return count;
}

bool contains_vowel(const Word& word, std::size_t length) noexcept {
  bool was_consonant = false;
  for (std::size_t i = 0; i < length; ++i) {
    was_consonant = is_consonant_after(was_consonant, word.letters[i]);
    if (!was_consonant) return true;
  }
  return false;
}

bool ends_in_double_consonant(const Word& word) noexcept {
  return word.length >= 2 && word.last() == word.letters[word.length - 2] && is_consonant(word, word.length - 1);
}

// Consonant, vowel, consonant at the end, the last of them not w, x or y; NLTK: or a word of vowel and consonant.
bool ends_in_short_syllable(const Word& word) noexcept {
  const std::size_t length = word.length;
  if (length == 2) return !is_consonant(word, 0) && is_consonant(word, 1);
  return length >= 3 && is_consonant(word, length - 3) && !is_consonant(word, length - 2) &&
         is_consonant(word, length - 1) && !is_one_of(word.last(), "wxy");
}

template <std::size_t kRules>
const Rule* find_rule(const Word& word, const Rule (&rules)[kRules]) noexcept {
  for (const Rule& rule : rules) {
    if (ends_with(word, rule.suffix)) return &rule;
  }
  return nullptr;
}

void replace_suffix(Word* word, const Rule& rule) noexcept {
  word->length -= rule.suffix.size();
  for (const char letter : rule.replacement) word->append(letter);
}

// Plurals.
void step_1a(Word* word) noexcept {
  if (ends_with(*word, "ies")) {
    word->length -= word->length == 4 ? 1 : 2;  // NLTK: dies -> die; flies -> fli
  } else if (ends_with(*word, "sses")) {
    word->length -= 2;
  } else if (ends_with(*word, "s") && !ends_with(*word, "ss")) {
    word->length -= 1;
  }
}

// Gives a stem that has lost -ed or -ing its e back, and takes a doubled consonant from it.
void mend_stem(Word* word) noexcept {
  const bool is_known_to_end_in_e = ends_with(*word, "at") || ends_with(*word, "bl") || ends_with(*word, "iz");
  if (!is_known_to_end_in_e && ends_in_double_consonant(*word)) {
    if (!is_one_of(word->last(), "lsz")) word->length -= 1;
    return;
  }
  if (is_known_to_end_in_e || (measure(*word, word->length) == 1 && ends_in_short_syllable(*word))) word->append('e');
}

// Past tenses and participles.
void step_1b(Word* word) noexcept {
  if (ends_with(*word, "ied")) {
    word->length -= word->length == 4 ? 1 : 2;  // NLTK: died -> die; spied -> spi
    return;
  }
  if (ends_with(*word, "eed")) {
    if (measure(*word, word->length - 3) > 0) word->length -= 1;
    return;
  }
  const std::size_t suffix = ends_with(*word, "ed") ? 2 : ends_with(*word, "ing") ? 3 : 0;
  if (suffix == 0 || !contains_vowel(*word, word->length - suffix)) return;
  word->length -= suffix;
  mend_stem(word);
}

// NLTK: happy -> happi, but enjoy and by keep their y.
void step_1c(Word* word) noexcept {
  if (ends_with(*word, "y") && word->length > 2 && is_consonant(*word, word->length - 2)) {
    word->letters[word->length - 1] = 'i';
  }
}

// Double suffixes.
void step_2(Word* word) noexcept {
  // NLTK: this rule comes first, and the others see what it leaves.
  if (ends_with(*word, "alli") && measure(*word, word->length - 4) > 0) word->length -= 2;
  const Rule* const rule = find_rule(*word, kStep2);
  if (rule == nullptr) return;
  // NLTK: the l of -logi is the stem's, so that geology has a vowel and a consonant before its suffix.
  const std::size_t suffix = rule->suffix == "logi" ? 3 : rule->suffix.size();
  if (measure(*word, word->length - suffix) > 0) replace_suffix(word, *rule);
}

void step_3(Word* word) noexcept {
  const Rule* const rule = find_rule(*word, kStep3);
  if (rule != nullptr && measure(*word, word->length - rule->suffix.size()) > 0) replace_suffix(word, *rule);
}

void step_4(Word* word) noexcept {
  const Rule* const rule = find_rule(*word, kStep4);
  if (rule == nullptr) return;
  const std::size_t stem = word->length - rule->suffix.size();
  if (measure(*word, stem) <= 1) return;
  if (rule->suffix == "ion" && !is_one_of(word->letters[stem - 1], "st")) return;
  word->length = stem;
}

void step_5a(Word* word) noexcept {
  if (!ends_with(*word, "e")) return;
  const Word stem{word->letters, word->length - 1};
  const std::size_t count = measure(stem, stem.length);
  if (count > 1 || (count == 1 && !ends_in_short_syllable(stem))) *word = stem;
}

void step_5b(Word* word) noexcept {
  if (ends_with(*word, "ll") && measure(*word, word->length - 1) > 1) word->length -= 1;
}

}  // namespace

std::size_t porter_stem(char* word, std::size_t length) noexcept {
  Word stem{word, length};
  for (const Irregular& irregular : kIrregular) {
    if (stem.text() != irregular.word) continue;
    std::copy(irregular.stem.begin(), irregular.stem.end(), word);
    return irregular.stem.size();
  }
  if (length <= 2) return length;
  step_1a(&stem);
  step_1b(&stem);
  step_1c(&stem);
  step_2(&stem);
  step_3(&stem);
  step_4(&stem);
  step_5a(&stem);
  step_5b(&stem);
  return stem.length;
}

}  // namespace bascule
