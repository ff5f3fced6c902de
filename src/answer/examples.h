// SPDX-License-Identifier: Apache-2.0
// Examples for report.html: what a finished model says of single rows and of classes of the split judged last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace bascule {

struct ReportPicture {
  std::string name;                // path as in the manifest
  std::string caption;             // of one of its rows: the alternative text
  std::vector<std::uint8_t> file;  // its bytes, embedded as they are
};

// Retrieval.
struct PictureHit {
  std::size_t picture = 0;  // index into Report::pictures
  double score = 0.0;
  bool right = false;
};
struct CaptionHit {
  std::string caption;
  double score = 0.0;
  bool right = false;
};
struct CaptionExample {
  std::string caption;
  std::vector<PictureHit> hits;  // best first, about five
  PictureHit right_hit;          // the right picture
  std::int64_t right_rank = 0;   // its place among all, from 1; 0: unknown
};
struct PictureExample {
  std::size_t picture = 0;
  std::vector<CaptionHit> hits;  // best first, about five
  CaptionHit right_hit;          // the best of the right captions
  std::int64_t right_rank = 0;   // as above
};

// A class or a token that the model names.
struct Guess {
  std::string name;
  double probability = 0.0;
  bool right = false;
};

// Classes.
struct ClassAccuracy {
  std::string name;
  std::int64_t rows = 0, right = 0;
};
struct Confusion {
  std::string label, predicted;
  std::int64_t rows = 0;
};
struct ClassExample {
  std::size_t picture = 0;  // index into Report::pictures
  std::string label;
  std::vector<Guess> guesses;  // best first, at most five
};

// Texts with a label that the model got wrong.
struct TextMistake {
  std::string text, second_text;  // of a pair
  std::string label;
  std::vector<Guess> guesses;  // best first, at most five
};
struct TextValue {
  std::string text, second_text;  // of a pair
  double label = 0.0, predicted = 0.0;
};

// Words with tags.
struct EntityFigures {
  std::string type;
  double precision = 0.0, recall = 0.0, f1 = 0.0;
  std::int64_t labelled = 0, predicted = 0;
};
struct MarkedEntity {
  std::string type;
  std::size_t begin = 0, end = 0;  // words [begin, end)
  bool right = false;              // labelled and predicted alike
};
struct TaggedText {
  std::vector<std::string> words;
  std::vector<MarkedEntity> labelled, predicted;  // in order
};

// Masked tokens.
struct ShownToken {
  std::string text;            // that the model saw
  std::string expected;        // of a token that was to be predicted; empty: it was not
  std::vector<Guess> guesses;  // for it, best first, at most five
};
struct SentenceExample {
  std::vector<ShownToken> tokens;
  // For a pair of texts: whether the second one follows the first one, the model's answer, and its probability.
  bool is_pair = false, follows = false, predicted_to_follow = false;
  double probability = 0.0;
};

// A text that the model wrote, beside its source and the target of the file.
struct TextExample {
  std::string source, reference, generated;
  double rouge[4] = {};  // 1, 2, L, Lsum, times 100
};

}  // namespace bascule
