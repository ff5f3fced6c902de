// SPDX-License-Identifier: Apache-2.0
// The answer to one search, as text for a terminal and as an HTML page of pictures or texts: one file that asks for
// nothing from anywhere. Finish phase: allocates; the page is about 8 KB, the map (html_parts.h) and 4/3 of the
// embedded pictures' bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/answer/embedding_map.h"

namespace bascule {

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

}  // namespace bascule
