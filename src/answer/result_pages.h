// SPDX-License-Identifier: Apache-2.0
// The pages of a search, of a run that draws and of several runs, each one file; the first and the last as text for a
// terminal too. Finish phase: allocates.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/answer/embedding_map.h"
#include "src/answer/page.h"

namespace bascule {

// report.html of a run that draws: figures, where the time of a call goes, and small copies of the first pictures,
// which lie beside the page.

struct PagePicture {
  std::string file, prompt, negative;   // negative: the prompt of what it shall not show; may be empty
  std::string facts;                    // "seed 42, noise 0, 3.1 s"
  std::vector<std::uint8_t> thumbnail;  // a small square PNG of the whole; empty: the prompt alone is shown
};

struct DrawPage {
  std::string title;
  std::vector<NamedText> figures;
  std::vector<OperationTime> operations;  // of the UNet's calls, the longest first
  std::vector<PagePicture> pictures;      // the first ones
  std::size_t all_pictures = 0;
  std::int64_t width = 1, height = 1;  // of each: its proportions on the page
  std::vector<NamedText> settings;
};

std::string draw_html(const DrawPage& page);

// The answer to one search, as text and as a page of pictures or texts: about 8 KB, the map (embedding_map.h) and 4/3
// of the embedded pictures' bytes.

struct SearchHit {
  std::string path;     // of the picture; of a text its name: an id, or its file and line
  std::string caption;  // of the picture's row; may be empty; the text
  double score = 0.0;   // cosine
  bool right = false;   // known to be an answer: its row has the query's own caption, or its own picture
};

// A picture that could not be searched or shown.
struct RefusedPicture {
  std::string path, reason;
};

struct SearchAnswer {
  std::string model;          // the folder as given
  std::string query;          // the text, or the picture's path
  bool from_picture = false;  // the query is a picture, and its answers are captions
  bool of_texts = false;      // texts of a file are searched
  std::string searched;       // "validation", or a folder of pictures, or a file of texts
  std::size_t candidates = 0;
  std::vector<SearchHit> hits;  // best first
  std::vector<RefusedPicture> refused;
  EmbeddingMap map;  // of the run that is searched, with the query; without captions: other pictures are searched
};

// One line a hit, under a heading. Control characters of paths and captions become spaces.
std::string search_text(const SearchAnswer& answer);

// The bytes of the files to embed: the query's, if that is a picture, and each hit's. Empty: shown as an empty
// frame.
struct SearchPictures {
  std::vector<std::uint8_t> query;
  std::vector<std::vector<std::uint8_t>> hits;  // as many as the answer has; of texts none
};
std::string search_html(const SearchAnswer& answer, const SearchPictures& pictures);

// A comparison of several runs, as text and as a page with their curves.

// As many as can be told apart by their colours.
inline constexpr std::size_t kMostCurves = 8;

// A figure of log.jsonl over the updates: "loss", "eval_accuracy".
struct RunCurve {
  std::string figure;
  std::vector<ChartPoint> points;  // by update, ascending
};

struct ListedRun {
  std::string path;            // as people see it
  std::string state;           // "running", "finished" or "stopped"
  std::string note;            // more about the state; may be empty
  bool draws = false;          // steps are then pictures
  std::int64_t step = 0;       // updates or pictures that are done
  std::int64_t steps = 0;      // of the whole run; 0: unknown
  double loss = std::nan("");  // of the last logged interval
  std::string best_figure;     // "" where no evaluation was logged
  double best = std::nan("");
  std::int64_t best_step = 0;
  double seconds = std::nan("");    // of the training loop, or of the process that drew
  std::vector<NamedText> settings;  // "training.seed" with its canonical value: those in which listed runs differ
  std::vector<RunCurve> curves;
};

// The value of one of its settings; "" where the run does not have it.
std::string setting_of(const ListedRun& run, std::string_view key);

// A table, and below each run the settings that differ, as words of a shell.
std::string runs_text(const std::vector<ListedRun>& runs);

// title: what was listed. At most kMostCurves of the runs have curves.
std::string runs_html(const std::string& title, const std::vector<ListedRun>& runs);

}  // namespace bascule
