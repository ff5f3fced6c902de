// SPDX-License-Identifier: Apache-2.0
// The data of a run, opened for the checks: also where a run would refuse it. Missing pictures and empty texts are
// rows like others here; rows that a run refuses are a finding, and so is a split that cannot be opened at all. Before
// the seal. Then its texts and pictures, as they were read.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/base/span.h"
#include "src/doctor/equal_rows.h"
#include "src/doctor/finding.h"
#include "src/record/recorded_run.h"
#include "src/settings/settings.h"
#include "src/text/tokenizer.h"

namespace bascule {

class OpenedData {
 public:
  // Throws Error for settings and a model that cannot be opened, as a run does. findings: those of rows and splits that
  // cannot be read are appended.
  OpenedData(const Settings& settings, std::vector<Finding>* findings, std::size_t most_examples = kMostExamples);

  const RunData& data() const { return run_.data; }
  const OpenedModel& model() const { return run_.opened; }
  const Settings& settings() const { return settings_; }
  // The most examples of one finding.
  std::size_t most_examples() const { return most_examples_; }
  // The run's own data.on_bad_sample.
  bool stops_at_bad_samples() const { return stops_at_bad_samples_; }
  std::string name(std::size_t split) const { return split_name(run_.data.splits[split].split); }  // "train"
  // "train.jsonl:17", "shard-003.tar". For examples.
  std::string where(std::size_t split, std::int64_t row) const;

 private:
  std::size_t most_examples_;
  bool stops_at_bad_samples_;
  Settings settings_;  // bad samples are skipped
  RecordedRun run_;
};

// The advice for content of a later split that split `in` has too.
std::string advice_for_shared(const OpenedData& opened, std::size_t in);

// Texts, counted by their tokens.

// Lengths of texts in at most a dozen bars.
struct LengthBar {
  std::int64_t from = 0, to = 0;    // tokens, both included
  std::int64_t texts = 0, cut = 0;  // cut: those of them that are
};

// Bars of equal width (1, 2 or 5 times a power of ten) from the shortest text to the longest that has a count of its
// own; the last also has all longer ones.
std::vector<LengthBar> length_bars(const TextFigures& figures);

// The greatest length with a count of its own.
inline constexpr std::int64_t kLongestCounted = 65536;

class TextCounter {
 public:
  // special: the special tokens of a text.
  TextCounter(const Tokenizer& tokenizer, std::int64_t special, TextFigures* figures)
      : unknown_id_(tokenizer.unknown_id()), special_(special), figures_(*figures) {}

  struct Text {
    std::int64_t unknown = 0;
    bool is_cut = false, is_empty = false, is_all_unknown = false;
  };
  // ids: all of a text's tokens, special ones too. is_blank: it has nothing but spaces, which may be tokens.
  Text add(Span<const std::int32_t> ids, bool is_blank = false);

 private:
  std::int32_t unknown_id_;
  std::int64_t special_;
  TextFigures& figures_;
};

// A text worth showing: the row, and a number to say.
struct NotedText {
  std::int64_t row = 0;
  std::int64_t tokens = 0;  // of the text
};

// The texts of one kind of a split: number 0, or 1 of a second text of its own. place: of a row's texts, where each is
// a text by itself; else kAllTexts.
struct SplitTexts {
  std::size_t split = 0;
  int number = 0, place = -1;
  TextFigures figures;
  // Of the tokens that the model reads, cut where a run cuts, by row, of a corpus by sentence; empty texts: kNoContent.
  RowDigests digests;
  std::vector<NotedText> cut, empty, unknown;  // the first of each; unknown: the worst
  std::size_t most = kMostExamples;            // of each
};

// Reads the texts of all splits and kinds, in order, as a run does but for their cut. Memory: 8 bytes for each text.
// Throws Error kData for a text that cannot be tokenised.
std::vector<SplitTexts> read_texts(const OpenedData& opened);

// Where the text is and what it says, shortened: "train.jsonl:17: \"a cat\"".
std::string shown_text(const OpenedData& opened, const SplitTexts& texts, std::int64_t row);

// Appends the findings about them.
void find_in_texts(const OpenedData& opened, const std::vector<SplitTexts>& texts, std::vector<Finding>* findings);

// The same of rows whose texts are embedded each by itself.
void find_in_rows_of_texts(const OpenedData& opened, std::vector<Finding>* findings);

// Pictures as 8 x 8 squares of RGB, for finding those that are the same picture in another size, quality or format.
//
// Two thumbnails are alike if no value differs by more than kMostApart and the mean difference is at most
// kMostApartMean. Measured on 1,883 emoji of 64 pixels a side: two different ones differ by 14 at least (white squares
// of two sizes), the same one as a JPEG of quality 75 by 7 at most in 95 % of the cases, of half the size by 12.
// Alike pictures are looked for among neighbours in four sorted tables, so that a pair in a hundred may be missed; and
// only such are compared, so that no number of pictures makes it slow.

inline constexpr int kSquareSide = 8;
inline constexpr int kMostApart = 12;
inline constexpr double kMostApartMean = 2.5;

using Thumbnail = std::array<std::uint8_t, 3 * kSquareSide * kSquareSide>;  // planes R, G, B

// The means of squares of a picture: planes of side x side values of 0 to 255, which may lie outside. side >= 1.
Thumbnail thumbnail_of(const float* pixels, std::int64_t side);

bool are_alike(const Thumbnail& a, const Thumbnail& b) noexcept;

// Groups of two or more that are alike, or are joined by others that are; each ascending, the groups by their first.
std::vector<std::vector<std::uint32_t>> find_alike(const std::vector<Thumbnail>& thumbnails);

struct PictureRecord {
  std::int64_t reason = 0;              // 0: it can be used; picture_reason(); minus errno of a file
  std::uint32_t width = 0, height = 0;  // upright; 0 where unknown
  bool has_thumbnail = false;
  bool is_grey_16 = false;  // a grey PNG of 16 bits
};

// By picture of a split.
struct SplitPictures {
  std::size_t split = 0;
  std::vector<PictureRecord> records;
  RowDigests digests;                 // of the files' bytes; kNoContent where a file was not read
  std::vector<Thumbnail> thumbnails;  // of those that can be used
  double seconds = 0.0;               // of one core, that reading and decoding took
};

// Reads and decodes every picture of the splits as an evaluation does; none where the model reads no pictures. threads:
// that decode. Memory: 224 bytes a picture, and while equal ones are looked for, 250 more.
std::vector<SplitPictures> read_pictures(const OpenedData& opened, int threads);

PictureFigures figures_of(const SplitPictures& pictures);
// By row of the split.
RowDigests digests_by_row(const Manifest& manifest, const SplitPictures& pictures);

// Findings about single pictures, then about equal ones.
void find_in_pictures(const OpenedData& opened, const std::vector<SplitPictures>& pictures,
                      std::vector<Finding>* findings);
void find_equal_pictures(const OpenedData& opened, const std::vector<SplitPictures>& pictures,
                         std::vector<Finding>* findings);

}  // namespace bascule
