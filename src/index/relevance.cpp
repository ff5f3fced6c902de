// SPDX-License-Identifier: Apache-2.0
#include "src/index/relevance.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <unordered_map>
#include <utility>

#include "src/base/digest.h"
#include "src/base/error.h"
#include "src/index/data_files.h"
#include "src/index/line_reader.h"
#include "src/index/manifest_builder.h"
#include "src/index/manifest_readers.h"
#include "src/json/json.h"

namespace bascule {
namespace {

constexpr char kHowToJudge[] = "write query-id, corpus-id and score, with tabs between";
constexpr std::string_view kHeader = "query-id\tcorpus-id\tscore";

using Numbers = std::unordered_map<std::string, std::int32_t>;

[[noreturn]] void refuse(const std::string& file, std::int64_t line, const std::string& what,
                         const std::string& what_to_do) {
  throw Error(ErrorKind::kData, file + ":" + std::to_string(line), what, what_to_do);
}

void add_id(Numbers* numbers, const std::string& file, const TextWithId& one) {
  if (numbers->size() >= static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()))
    refuse(file, one.line, "too many texts", "split the file");
  if (one.id.empty()) refuse(file, one.line, "has no _id", "give each text its own");
  if (!numbers->emplace(one.id, static_cast<std::int32_t>(numbers->size())).second)
    refuse(file, one.line, "the _id " + quoted_text(one.id) + " is that of an earlier line", "give each text its own");
}

// The three columns of a judgement.
std::array<std::string_view, 3> fields_of(std::string_view text, const std::string& file, std::int64_t line) {
  const std::ptrdiff_t tabs = std::count(text.begin(), text.end(), '\t');
  if (tabs != 2) refuse(file, line, count_of(tabs + 1, "column") + ", not 3", kHowToJudge);
  const std::size_t one = text.find('\t'), two = text.find('\t', one + 1);
  return {text.substr(0, one), text.substr(one + 1, two - one - 1), text.substr(two + 1)};
}

class Judgements {
 public:
  Judgements(const Numbers& queries, const Numbers& documents)
      : queries_(queries), documents_(documents), judged_(queries.size()) {}

  // Returns the file's digest.
  std::uint64_t read(const std::string& file) {
    LineReader lines(file);
    for (std::string_view text; lines.next(&text);) {
      if (text.empty() || (lines.line() == 1 && text == kHeader)) continue;
      const auto [query, document, score] = fields_of(text, file, lines.line());
      std::int64_t number = 0;
      const auto [end, problem] = std::from_chars(score.data(), score.data() + score.size(), number);
      if (problem != std::errc() || end != score.data() + score.size())
        refuse(file, lines.line(), "the score is " + quoted_text(score) + ", not a whole number", kHowToJudge);
      auto& of_query = judged_[static_cast<std::size_t>(number_of(queries_, query, "query", file, lines.line()))];
      of_query.push_back({number_of(documents_, document, "document", file, lines.line()), number > 0, lines.line()});
    }
    return lines.digest();
  }

  // The relevant documents of one query, ascending. file: for messages.
  std::vector<std::int32_t> relevant(std::size_t query, const std::string& file) {
    auto& judged = judged_[query];
    std::sort(judged.begin(), judged.end(), [](const Judged& a, const Judged& b) {
      return a.document < b.document || (a.document == b.document && a.line < b.line);
    });
    std::vector<std::int32_t> found;
    for (std::size_t i = 0; i < judged.size(); ++i) {
      if (i > 0 && judged[i].document == judged[i - 1].document)
        refuse(file, judged[i].line, "the same query and document are on line " + std::to_string(judged[i - 1].line),
               "remove one of the lines");
      if (judged[i].is_relevant) found.push_back(judged[i].document);
    }
    return found;
  }

 private:
  struct Judged {
    std::int32_t document;
    bool is_relevant;
    std::int64_t line;
  };

  static std::int32_t number_of(const Numbers& numbers, std::string_view id, const char* kind, const std::string& file,
                                std::int64_t line) {
    const auto found = numbers.find(std::string(id));
    if (found == numbers.end())
      refuse(file, line, std::string("no ") + kind + " has the id " + quoted_text(id),
             "correct the id, or remove the line");
    return found->second;
  }

  const Numbers &queries_, &documents_;
  std::vector<std::vector<Judged>> judged_;  // by query
};

// Which number each document has where equal scores rank by id.
std::vector<std::int32_t> places_by_id(const Numbers& documents) {
  std::vector<const Numbers::value_type*> sorted;
  for (const auto& one : documents) sorted.push_back(&one);
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return a->first < b->first; });
  std::vector<std::int32_t> places(sorted.size());
  for (std::size_t place = 0; place < sorted.size(); ++place)
    places[static_cast<std::size_t>(sorted[place]->second)] = static_cast<std::int32_t>(place);
  return places;
}

}  // namespace

TextWithId text_with_id(std::string_view json, const std::string& file, std::int64_t line) {
  const Json row = parse_json(json, file, line);
  const std::string where = file + ":" + std::to_string(line);
  if (!row.is_object()) throw Error(ErrorKind::kData, where, "not a JSON object", "write one object a line");
  const std::string title = get_string(row, "title", where, "");
  return {get_string(row, "_id", where, ""), (title.empty() ? "" : title + " ") + get_string(row, "text", where), line};
}

std::uint64_t read_texts_with_ids(const std::string& file, const std::function<void(const TextWithId&)>& take) {
  LineReader lines(file);
  for (std::string_view text; lines.next(&text);) {
    if (!is_empty_text(text)) take(text_with_id(text, file, lines.line()));
  }
  return lines.digest();
}

Manifest load_retrieval(const RetrievalFiles& files, const RetrievalPrompts& prompts) {
  DataFiles all = find_data_files(files.corpus);
  const DataFiles of_queries = find_data_files(files.queries), of_relevance = find_data_files(files.relevance);
  const std::size_t corpora = all.manifests.size();
  for (const DataFiles* more : {&of_queries, &of_relevance}) {
    all.manifests.insert(all.manifests.end(), more->manifests.begin(), more->manifests.end());
    all.written.insert(all.written.end(), more->written.begin(), more->written.end());
  }
  ManifestColumns columns;
  columns.image = "";
  columns.text = "text";
  ManifestBuilder builder(all, columns);
  Digest digest;
  Numbers documents, queries;
  for (std::size_t i = 0; i < corpora; ++i) {
    const DataFile& file = all.manifests[i];
    builder.begin_file(file);
    digest.add_number(read_texts_with_ids(file.path, [&](const TextWithId& one) {
      add_id(&documents, file.path, one);
      const std::string whole = prompts.document + one.text;
      const std::string_view text = whole;
      builder.add("", {&text, 1}, {}, one.line);
    }));
    builder.end_file();
  }
  if (documents.empty()) throw Error(ErrorKind::kData, all.name, "has no documents", "add at least one");
  std::vector<std::vector<TextWithId>> asked(of_queries.manifests.size());
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const std::string& path = of_queries.manifests[i].path;
    digest.add_number(read_texts_with_ids(path, [&](const TextWithId& one) {
      add_id(&queries, path, one);
      asked[i].push_back(one);
    }));
  }
  Judgements judgements(queries, documents);
  for (const DataFile& file : of_relevance.manifests) digest.add_number(judgements.read(file.path));
  Relevance relevance;
  relevance.documents = static_cast<std::int64_t>(documents.size());
  relevance.places = places_by_id(documents);
  relevance.first.push_back(0);
  std::size_t query = 0;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const DataFile& file = of_queries.manifests[i];
    builder.begin_file(file);
    for (const TextWithId& one : asked[i]) {
      std::vector<std::int32_t> relevant = judgements.relevant(query++, of_relevance.name);
      if (relevant.empty()) {
        ++relevance.left_out;
        continue;
      }
      for (std::int32_t& document : relevant) document = relevance.places[static_cast<std::size_t>(document)];
      std::sort(relevant.begin(), relevant.end());
      const std::string whole = prompts.query + one.text;
      const std::string_view text = whole;
      builder.add("", {&text, 1}, {}, one.line);
      relevance.places.push_back(static_cast<std::int32_t>(relevance.documents + relevance.queries++));
      relevance.relevant.insert(relevance.relevant.end(), relevant.begin(), relevant.end());
      relevance.first.push_back(static_cast<std::int64_t>(relevance.relevant.size()));
    }
    builder.end_file();
  }
  if (relevance.queries == 0)
    throw Error(ErrorKind::kData, of_relevance.name, "names no relevant document: no line has a score above 0",
                kHowToJudge);
  for (const DataFile& file : of_relevance.manifests) {
    builder.begin_file(file);
    builder.end_file();
  }
  Manifest manifest = builder.finish(digest.value());
  manifest.set_relevance(std::move(relevance));
  return manifest;
}

Relevance relevance_of_rows(const Manifest& manifest) {
  const std::size_t each = manifest.texts_of_a_row();
  Relevance relevance;
  relevance.texts_in_a_row = static_cast<std::int64_t>(each);
  relevance.places.assign(static_cast<std::size_t>(manifest.rows()) * each, Relevance::kNoPlace);
  std::unordered_map<std::string_view, std::int32_t> queries, documents;
  std::vector<std::vector<std::int32_t>> relevant;  // by query
  std::vector<std::size_t> texts;                   // of queries
  for (std::int64_t row = 0; row < manifest.rows(); ++row) {
    const std::size_t first = static_cast<std::size_t>(row) * each;
    const auto [query, is_new] = queries.emplace(manifest.text(row, 0), static_cast<std::int32_t>(queries.size()));
    if (is_new) {
      texts.push_back(first);
      relevant.emplace_back();
    }
    for (std::size_t text = 1; text < each; ++text) {
      const auto [document, is_new_one] =
          documents.emplace(manifest.text(row, text), static_cast<std::int32_t>(documents.size()));
      if (is_new_one) relevance.places[first + text] = document->second;
      if (text == 1) relevant[static_cast<std::size_t>(query->second)].push_back(document->second);
    }
  }
  relevance.documents = static_cast<std::int64_t>(documents.size());
  relevance.queries = static_cast<std::int64_t>(queries.size());
  relevance.first.push_back(0);
  for (std::size_t query = 0; query < texts.size(); ++query) {
    relevance.places[texts[query]] = static_cast<std::int32_t>(relevance.documents + static_cast<std::int64_t>(query));
    std::vector<std::int32_t>& own = relevant[query];
    std::sort(own.begin(), own.end());
    own.erase(std::unique(own.begin(), own.end()), own.end());
    relevance.relevant.insert(relevance.relevant.end(), own.begin(), own.end());
    relevance.first.push_back(static_cast<std::int64_t>(relevance.relevant.size()));
  }
  return relevance;
}

}  // namespace bascule
