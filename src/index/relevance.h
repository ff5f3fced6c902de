// SPDX-License-Identifier: Apache-2.0
// Retrieval over texts: which texts of a split are queries and documents, and which documents are right for a query.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "src/index/manifest.h"
#include "src/settings/settings.h"

namespace bascule {

struct Relevance {
  static constexpr std::int32_t kNoPlace = -1;

  // By text of the split, text c of row r at r * texts_in_a_row + c. Documents have the numbers from 0 on, in the order
  // in which they rank where they score equally; queries those behind them. kNoPlace: a text that equals another one
  // which has the place.
  std::vector<std::int32_t> places;
  std::int64_t texts_in_a_row = 1;
  std::int64_t documents = 0, queries = 0;
  std::int64_t left_out = 0;  // queries without a relevant document
  // Query q has relevant[first[q], first[q + 1]), at least one, ascending.
  std::vector<std::int64_t> first;
  std::vector<std::int32_t> relevant;

  Span<const std::int32_t> relevant_of(std::int64_t query) const noexcept {
    const auto q = static_cast<std::size_t>(query);
    return {relevant.data() + first[q], static_cast<std::size_t>(first[q + 1] - first[q])};
  }
  std::size_t bytes() const noexcept {
    return places.size() * sizeof(places[0]) + first.size() * sizeof(first[0]) + relevant.size() * sizeof(relevant[0]);
  }
};

// One text of a file of texts with ids: of a corpus or of queries as BEIR has them.
struct TextWithId {
  std::string id, text;  // id: empty where a line has none
  std::int64_t line = 0;
};
// Of such a line. Throws Error kData at `where`.
TextWithId text_with_id(std::string_view json, const std::string& file, std::int64_t line);

// One JSON object a line: "_id", "text", and "title", which is put before the text with a space between; a title may be
// absent, null or empty, and other members are not read. Empty lines are skipped. Returns the file's digest. Throws
// Error kData.
std::uint64_t read_texts_with_ids(const std::string& file, const std::function<void(const TextWithId&)>& take);

// Documents, queries and judgements in the files of BEIR: a manifest whose rows have one text each, first all
// documents, then those queries that have a relevant document, with its relevance(). Judgements are lines of query id,
// document id and a whole number, with tabs between, behind a header or not; a document is relevant where its number is
// above 0. Equal scores rank by document id. Before the seal. Throws Error kData naming the line: an id that is
// missing, there twice or not known, a judgement that is made twice; and where no query has a relevant document.
// prompts: put before each of those texts.
struct RetrievalPrompts {
  std::string document, query;
};
Manifest load_retrieval(const RetrievalFiles& files, const RetrievalPrompts& prompts = {});

// Of rows that are a query, a document that is right for it, and perhaps documents that are wrong: equal texts are one
// query, and one document, and a query's relevant documents are those of all rows that have it. Equal scores rank as
// the documents stand in the rows.
Relevance relevance_of_rows(const Manifest& manifest);

}  // namespace bascule
