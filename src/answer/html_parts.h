// SPDX-License-Identifier: Apache-2.0
// The sections of report.html, each as finished HTML ("" if there is nothing to say). Only html.cpp puts them together.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "src/answer/report.h"

namespace bascule {

// Bodies of sections, without heading.
std::string memory_section(const Report& report);
std::string time_section(const Report& report);
std::string contracts_section(const Report& report);
std::string evaluation_section(const Report& report);
// Keys with their tables, those of a table one after another.
std::string settings_section(const std::vector<NamedText>& settings);
// One of Report::facts.
std::string facts_section(const FactTable& facts);

// A classifier: accuracy of each class, confusions. Pictures with their label and the guesses.
std::string classes_section(const Report& report);
std::string class_examples_section(const Report& report);
// Texts that a classifier got wrong, or whose values are furthest off.
std::string text_mistakes_section(const Report& report);
// The figures of each type of entity, and the texts with the most mistakes, their entities marked; empty: none.
std::string entities_section(const Report& report);
// Sentences with their masked tokens and the guesses.
std::string sentence_examples_section(const Report& report);
std::string text_examples_section(const Report& report);

// Retrieval examples.
std::string caption_examples_section(const Report& report);
std::string picture_examples_section(const Report& report);
std::string query_examples_section(const Report& report);

// The map of embeddings, for the report and the page of a search: an SVG of points and lines, and over it a radio
// button for each thumbnail, so that one press of Tab reaches them and arrow keys lead from one to the next. Needs
// map_style(). "" for a map without captions. A page grows by about 0.2 KB a point, texts being cut, and by the
// thumbnails: at most about 2 MB, where texts are of ordinary letters.
std::string embedding_map_section(const EmbeddingMap& map);
// Rules beside html_style()'s; "" for a map without captions.
std::string map_style(const EmbeddingMap& map);

// A picture of the report as an element; an empty frame where there is none. The pictures are backgrounds of classes
// p0, p1, ..., so that each is embedded once however often it is shown; picture_styles() has those rules, for the
// pictures that an example shows.
std::string picture_element(const Report& report, std::size_t index, const char* extra_class);
std::string picture_styles(const Report& report);

}  // namespace bascule
