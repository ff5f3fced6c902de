// SPDX-License-Identifier: Apache-2.0
// Stems against those of nltk 3.10.
#include "src/judge/rouge.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/json/json.h"
#include "tests/support/guarded_buffer.h"

namespace bascule::test {
namespace {

// The word ends at a page that cannot be touched.
std::string stem_of(const std::string& word) {
  GuardedBuffer<char> letters(word.size());
  std::copy(word.begin(), word.end(), letters.begin());
  return std::string(letters.data(), porter_stem(letters.data(), word.size()));
}

// Pairs of a word and its stem, which nltk gave.
void expect_stems(const std::vector<std::pair<std::string, std::string>>& pairs) {
  for (const auto& [word, stem] : pairs) EXPECT_EQ(stem_of(word), stem) << word;
}

TEST(PorterStem, GivesTheStemsOfNltk) {
  const Json document = read_json_file(std::string(BASCULE_TEST_DATA) + "/goldens-families/t5_relu_tied/rouge.json");
  EXPECT_GE(document["stems"].size(), 1500u);
  for (const auto& [word, stem] : document["stems"].items()) EXPECT_EQ(stem_of(word), stem.string()) << word;
}

TEST(PorterStem, KnowsIrregularWords) {
  expect_stems({{"sky", "sky"},
                {"skies", "sky"},
                {"dying", "die"},
                {"lying", "lie"},
                {"tying", "tie"},
                {"news", "news"},
                {"innings", "inning"},
                {"inning", "inning"},
                {"outings", "outing"},
                {"outing", "outing"},
                {"cannings", "canning"},
                {"canning", "canning"},
                {"howe", "howe"},
                {"proceed", "proceed"},
                {"exceed", "exceed"},
                {"succeed", "succeed"}});
}

TEST(PorterStem, RemovesPlurals) {
  expect_stems({{"caresses", "caress"},
                {"ponies", "poni"},
                {"ties", "tie"},
                {"dies", "die"},
                {"flies", "fli"},
                {"caress", "caress"},
                {"cats", "cat"},
                {"gas", "ga"},
                {"ieds", "i"},
                {"sses", "ss"},
                {"bus1s", "bus1"},
                {"yes", "ye"},
                {"4ies", "4ie"}});
}

TEST(PorterStem, RemovesPastTensesAndParticiples) {
  expect_stems({{"feed", "feed"},       {"agreed", "agre"},    {"freed", "freed"}, {"plastered", "plaster"},
                {"bled", "bled"},       {"motoring", "motor"}, {"sing", "sing"},   {"conflated", "conflat"},
                {"troubled", "troubl"}, {"sized", "size"},     {"hopping", "hop"}, {"tanned", "tan"},
                {"falling", "fall"},    {"hissing", "hiss"},   {"fizzed", "fizz"}, {"failing", "fail"},
                {"filing", "file"},     {"died", "die"},       {"spied", "spi"},   {"tied", "tie"},
                {"ied", "i"},           {"aaed", "aa"},        {"king", "king"},   {"owing", "owe"},
                {"used", "use"},        {"aging", "age"},      {"boxing", "box"},  {"playing", "play"},
                {"99ing", "99ing"},     {"a99ed", "a9"},       {"a11ing", "a1"},   {"yyed", "yy"},
                {"ayying", "ayi"},      {"ed", "ed"},          {"ing", "ing"},     {"eed", "eed"},
                {"filled", "fill"},     {"aced", "ace"},       {"bowed", "bow"},   {"trayed", "tray"}});
}

TEST(PorterStem, ChangesAFinalYAfterAConsonant) {
  expect_stems({{"happy", "happi"},
                {"enjoy", "enjoy"},
                {"by", "by"},
                {"say1y", "say1i"},
                {"spy", "spi"},
                {"fly", "fli"},
                {"cry", "cri"},
                {"toy", "toy"},
                {"1y", "1y"},
                {"ay", "ay"},
                {"yy", "yy"},
                {"yyy", "yyy"},
                {"abyy", "abyy"},
                {"shy", "shi"}});
}

TEST(PorterStem, ShortensDoubleSuffixes) {
  expect_stems({{"relational", "relat"},
                {"rational", "ration"},
                {"conditional", "condit"},
                {"national", "nation"},
                {"valency", "valenc"},
                {"hesitancy", "hesit"},
                {"digitizer", "digit"},
                {"conformably", "conform"},
                {"radically", "radic"},
                {"differently", "differ"},
                {"vilely", "vile"},
                {"analogously", "analog"},
                {"vietnamization", "vietnam"},
                {"predication", "predic"},
                {"operator", "oper"},
                {"feudalism", "feudal"},
                {"decisiveness", "decis"},
                {"hopefulness", "hope"},
                {"callousness", "callous"},
                {"formality", "formal"},
                {"sensitivity", "sensit"},
                {"sensibility", "sensibl"},
                {"hopefully", "hope"},
                {"geology", "geolog"},
                {"theology", "theolog"},
                {"logy", "logi"},
                {"apology", "apolog"},
                {"archaeology", "archaeolog"},
                {"rationally", "ration"},
                {"nationally", "nation"},
                {"traditionally", "tradit"},
                {"ally", "alli"},
                {"rally", "ralli"},
                {"totally", "total"},
                {"eli", "eli"},
                {"fullily", "fullili"},
                {"bli", "bli"},
                {"ably", "abli"},
                {"probably", "probabl"},
                {"xalli", "xalli"}});
}

TEST(PorterStem, ShortensWhatStep2Leaves) {
  expect_stems({{"triplicate", "triplic"},
                {"formative", "form"},
                {"formalize", "formal"},
                {"electricity", "electr"},
                {"electrical", "electr"},
                {"hopeful", "hope"},
                {"goodness", "good"},
                {"native", "nativ"},
                {"nicate", "nicat"},
                {"ness", "ness"},
                {"wellness", "well"},
                {"topical", "topic"},
                {"ful", "ful"}});
}

TEST(PorterStem, RemovesSuffixesOfLongStems) {
  expect_stems(
      {{"revival", "reviv"},       {"allowance", "allow"},    {"inference", "infer"},   {"airliner", "airlin"},
       {"gyroscopic", "gyroscop"}, {"adjustable", "adjust"},  {"defensible", "defens"}, {"irritant", "irrit"},
       {"replacement", "replac"},  {"adjustment", "adjust"},  {"dependent", "depend"},  {"adoption", "adopt"},
       {"homologous", "homolog"},  {"communism", "commun"},   {"activate", "activ"},    {"angularity", "angular"},
       {"effective", "effect"},    {"bowdlerize", "bowdler"}, {"million", "million"},   {"union", "union"},
       {"decision", "decis"},      {"region", "region"},      {"onion", "onion"},       {"cement", "cement"},
       {"element", "element"},     {"moment", "moment"},      {"rental", "rental"},     {"her", "her"},
       {"metal", "metal"},         {"opinion", "opinion"},    {"billion", "billion"}});
}

TEST(PorterStem, RemovesAFinalEAndAFinalL) {
  expect_stems({{"probate", "probat"},   {"rate", "rate"},    {"cease", "ceas"},
                {"controll", "control"}, {"roll", "roll"},    {"controlling", "control"},
                {"owe", "owe"},          {"axe", "axe"},      {"1e", "1e"},
                {"ore", "ore"},          {"tree", "tree"},    {"are", "are"},
                {"ease", "eas"},         {"aye", "aye"},      {"eye", "eye"},
                {"enroll", "enrol"},     {"annull", "annul"}, {"tell", "tell"},
                {"excell", "excel"},     {"lovee", "love"}});
}

TEST(PorterStem, TakesDigitsForConsonants) {
  expect_stems({{"2020s", "2020"},
                {"1990s", "1990"},
                {"3ed", "3ed"},
                {"a1b2ing", "a1b2"},
                {"12345", "12345"},
                {"1st2nd", "1st2nd"},
                {"covid19", "covid19"},
                {"h1n1s", "h1n1"},
                {"e5ation", "e5at"}});
}

TEST(PorterStem, LeavesShortWordsAlone) {
  expect_stems({{"a", "a"},
                {"is", "is"},
                {"as", "as"},
                {"be", "be"},
                {"us", "us"},
                {"ies", "i"},
                {"sss", "sss"},
                {"iss", "iss"}});
}

TEST(PorterStem, OfNoLettersIsEmpty) { EXPECT_EQ(porter_stem(nullptr, 0), 0u); }

// In time that grows with the length: a word may be a whole text.
TEST(PorterStem, TakesWordsOfAnyLength) {
  const std::string ys(1'000'000, 'y');  // each is what the one before it is not: consonant, vowel, ...
  EXPECT_EQ(stem_of(ys + "ing").size(), ys.size());
  EXPECT_EQ(stem_of(ys + "sses"), ys + "ss");
}

}  // namespace
}  // namespace bascule::test
