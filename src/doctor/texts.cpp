// SPDX-License-Identifier: Apache-2.0
#include "src/doctor/data.h"

#include <algorithm>
#include <string>

#include "src/base/digest.h"
#include "src/base/error.h"
#include "src/base/paths.h"
#include "src/base/utf8.h"
#include "src/doctor/finding.h"
#include "src/index/relevance.h"
#include "src/loader/loader_parts.h"

namespace bascule {
namespace {

constexpr std::int64_t kMostBars = 12;

std::int64_t width_for(std::int64_t first, std::int64_t last) {
  for (std::int64_t power = 1;; power *= 10) {
    for (const std::int64_t times : {1, 2, 5}) {
      const std::int64_t width = times * power;
      if (last / width - first / width < kMostBars) return width;
    }
  }
}

// More tokens than this are not counted: a text of a million tokens is cut in any case.
constexpr std::size_t kMostTokensCounted = std::size_t{1} << 20;

std::uint64_t digest_of_ids(Span<const std::int32_t> ids, std::int64_t second_begin) {
  const std::uint64_t digest = digest_of(ids.data(), ids.size() * sizeof(std::int32_t));
  const std::uint64_t begin =
      second_begin < static_cast<std::int64_t>(ids.size()) ? static_cast<std::uint64_t>(second_begin) : 0;
  return std::max<std::uint64_t>(1, digest ^ begin);
}

void note(std::vector<NotedText>* list, const NotedText& text, std::size_t most) {
  if (list->size() < most) list->push_back(text);
}

// Those with the most unknown tokens are kept.
bool has_more_unknown(const NotedText& a, const NotedText& b) { return a.tokens > b.tokens; }

void note_text(SplitTexts* texts, std::int64_t row, std::int64_t tokens, const TextCounter::Text& text) {
  if (text.is_cut) note(&texts->cut, {row, tokens}, texts->most);
  if (text.is_empty) note(&texts->empty, {row, tokens}, texts->most);
  if (text.unknown > 0) add_one(&texts->unknown, {row, text.unknown}, texts->most, has_more_unknown);
}

bool is_blank(const Texts& texts) {
  return is_empty_text(texts.first) && (!texts.second || is_empty_text(*texts.second));
}

std::size_t longest_row_bytes(const Manifest& manifest, const TextSettings& settings) {
  const std::size_t texts = manifest.has_pairs() ? 2 : 1;
  return settings.prefix.size() + texts * manifest.longest_text_bytes();
}

class RowReader {
 public:
  RowReader(const Manifest& manifest, const TextSettings& settings)
      : manifest_(manifest),
        settings_(settings),
        ids_(std::max(std::min(longest_row_bytes(manifest, settings) + 64, kMostTokensCounted),
                      static_cast<std::size_t>(settings.shape.max_length) + 1)),
        words_of_(settings.reads_words ? ids_.size() : 0),
        scratch_(encode_scratch_bytes(settings, manifest.longest_text_bytes())) {}

  // The first `room` tokens of a row's text, cut as a run cuts it; 0: all.
  Span<const std::int32_t> read(std::int64_t row, std::int64_t room, std::int64_t* second_begin) {
    const std::size_t most = room > 0 ? static_cast<std::size_t>(room) : ids_.size();
    const Span<std::int32_t> ids(ids_.data(), most);
    const Span<std::byte> scratch(scratch_.data(), scratch_.size());
    Encoded encoded;
    const Status status = settings_.reads_words ? read_words(row, ids, &encoded, scratch)
                                                : encode_text(manifest_, settings_, row, ids, &encoded, scratch);
    if (!status.ok()) throw Error(ErrorKind::kInternal, manifest_.where(row), "the text cannot be tokenised");
    *second_begin = encoded.second_begin;
    return Span<const std::int32_t>(ids_.data(), static_cast<std::size_t>(encoded.tokens));
  }

 private:
  Status read_words(std::int64_t row, Span<std::int32_t> ids, Encoded* encoded, Span<std::byte> scratch) {
    EncodedWords words;
    const Span<std::int32_t> words_of(words_of_.data(), ids.size());
    BASCULE_TRY(settings_.tokenizer->encode_words_into(manifest_.row(row).text, ids, words_of, false, &words, scratch));
    encoded->tokens = encoded->second_begin = words.tokens;
    return ok_status();
  }

  const Manifest& manifest_;
  const TextSettings& settings_;
  std::vector<std::int32_t> ids_, words_of_;
  std::vector<std::byte> scratch_;
};

// A document is there to be found: equal ones in a corpus of another split say nothing. So its digest is one of its
// split.
bool is_document(const Manifest& manifest, std::int64_t row) {
  const Relevance* const relevance = manifest.relevance();
  if (relevance == nullptr) return false;
  const std::int32_t place = relevance->places[static_cast<std::size_t>(row * relevance->texts_in_a_row)];
  return place != Relevance::kNoPlace && place < relevance->documents;
}

void read_rows(const Manifest& manifest, const TextSettings& settings, SplitTexts* texts) {
  TextCounter counter(*settings.tokenizer, special_tokens(settings, manifest), &texts->figures);
  RowReader reader(manifest, settings);
  texts->digests.resize(static_cast<std::size_t>(manifest.rows()), kNoContent);
  for (std::int64_t row = 0; row < manifest.rows(); ++row) {
    std::int64_t second_begin = 0;
    Span<const std::int32_t> ids = reader.read(row, 0, &second_begin);
    const std::int64_t tokens = static_cast<std::int64_t>(ids.size());
    const TextCounter::Text text = counter.add(ids, is_blank(texts_of(manifest, row, settings.of_row)));
    note_text(texts, row, tokens, text);
    if (text.is_empty) continue;
    if (text.is_cut) ids = reader.read(row, texts->figures.limit, &second_begin);
    const std::uint64_t digest = digest_of_ids(ids, second_begin);
    texts->digests[static_cast<std::size_t>(row)] =
        is_document(manifest, row) ? digest_of_both(digest, texts->split + 1) : digest;
  }
}

// Sentences of a corpus; their special tokens count where a sample is a line.
void read_sentences(const Corpus& corpus, const Tokenizer& tokenizer, bool are_lines, SplitTexts* texts) {
  const TokenStore& store = corpus.store();
  const std::int64_t special = are_lines ? tokenizer.special_tokens(false) : 0;
  TextCounter counter(tokenizer, special, &texts->figures);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(store.longest_sentence() + special));
  texts->digests.resize(static_cast<std::size_t>(store.sentences()));
  for (std::int64_t sentence = 0; sentence < store.sentences(); ++sentence) {
    const std::int64_t first = store.sentence_begin(sentence);
    const std::int64_t tokens = store.sentence_begin(sentence + 1) - first;
    // Special tokens, which only count, come first.
    std::fill_n(ids.begin(), special, tokenizer.before().empty() ? 0 : tokenizer.before()[0]);
    store.copy(first, tokens, ids.data() + special);
    const Span<const std::int32_t> all(ids.data(), static_cast<std::size_t>(tokens + special));
    const TextCounter::Text text = counter.add(all);
    note_text(texts, sentence, tokens + special, text);
    const std::int64_t left = text.is_cut ? texts->figures.limit : tokens + special;
    texts->digests[static_cast<std::size_t>(sentence)] = digest_of_ids(all.first(static_cast<std::size_t>(left)), left);
  }
}

SplitTexts texts_of(const OpenedData& opened, std::size_t split, int number, const TextSettings& settings) {
  const RunData& data = opened.data();
  const RecordedSplit& recorded = data.splits[split];
  const StreamSettings& stream = data.loader.streams[recorded.stream];
  SplitTexts texts;
  texts.split = split;
  texts.number = number;
  texts.place = settings.of_row;
  texts.most = opened.most_examples();
  const bool has_two = reads_text(data.loader, 1);
  texts.figures.limit = settings.shape.max_length;
  texts.figures.limit_setting = !has_two                       ? "data.max_seq_length"
                                : number == 0                  ? "data.max_source_length"
                                : stream.max_target_length > 0 ? "data.val_max_target_length"
                                                               : "data.max_target_length";
  if (recorded.corpus != nullptr) {
    const bool are_lines =
        opened.settings().data.text_layout == TextLayout::kLines && !opened.model().inputs.reads_pairs;
    texts.figures.kind = "sentences";
    if (!are_lines) texts.figures.limit = 0;
    read_sentences(*recorded.corpus, *settings.tokenizer, are_lines, &texts);
    return texts;
  }
  texts.figures.kind = has_two                            ? (number == 0 ? "sources" : "targets")
                       : reads_pictures(data.loader)      ? "captions"
                       : data.loader.takes_texts_in_a_row ? "texts of \"" + settings.column + "\""
                                                          : "texts";
  read_rows(*recorded.manifest, settings, &texts);
  return texts;
}

std::string shortened(std::string_view text) {
  constexpr std::size_t kMost = 100;
  const std::size_t end = utf8_cut(text, kMost);
  return printable_line(std::string(text.substr(0, end))) + (end < text.size() ? "..." : "");
}

}  // namespace

std::vector<LengthBar> length_bars(const TextFigures& figures) {
  std::vector<LengthBar> bars;
  const auto is_used = [](std::int64_t count) { return count > 0; };
  const auto first_used = std::find_if(figures.counts.begin(), figures.counts.end(), is_used);
  if (first_used == figures.counts.end()) return bars;
  const std::int64_t first = first_used - figures.counts.begin();
  const std::int64_t last = static_cast<std::int64_t>(figures.counts.size()) - 1;
  const std::int64_t width = width_for(first, last);
  for (std::int64_t from = first / width * width; from <= last; from += width) {
    LengthBar bar{from, from + width - 1, 0};
    for (std::int64_t length = from; length <= std::min(last, bar.to); ++length) {
      const std::int64_t texts = figures.counts[static_cast<std::size_t>(length)];
      bar.texts += texts;
      if (figures.limit > 0 && length > figures.limit) bar.cut += texts;
    }
    if (bar.to >= last && figures.longest > last) bar.to = figures.longest;
    bars.push_back(bar);
  }
  return bars;
}

std::int64_t TextFigures::quantile(double share) const {
  const double wanted = share * static_cast<double>(texts);
  std::int64_t so_far = 0;
  for (std::size_t length = 0; length < counts.size(); ++length) {
    so_far += counts[length];
    if (so_far > 0 && static_cast<double>(so_far) >= wanted)
      return length + 1 == counts.size() ? longest : static_cast<std::int64_t>(length);
  }
  return 0;
}

TextCounter::Text TextCounter::add(Span<const std::int32_t> ids, bool is_blank) {
  Text text;
  const std::int64_t tokens = static_cast<std::int64_t>(ids.size());
  if (unknown_id_ >= 0) text.unknown = std::count(ids.begin(), ids.end(), unknown_id_);
  text.is_empty = is_blank || tokens <= special_;
  text.is_cut = figures_.limit > 0 && tokens > figures_.limit;
  text.is_all_unknown = text.unknown > 0 && text.unknown == tokens - special_;
  ++figures_.texts;
  figures_.tokens += tokens;
  figures_.longest = std::max(figures_.longest, tokens);
  figures_.empty_texts += text.is_empty ? 1 : 0;
  figures_.read_tokens += text.is_cut ? figures_.limit : tokens;
  if (text.is_cut) {
    ++figures_.cut_texts;
    figures_.cut_tokens += tokens - figures_.limit;
  }
  figures_.unknown_tokens += text.unknown;
  figures_.texts_with_unknown += text.unknown > 0 ? 1 : 0;
  figures_.texts_all_unknown += text.is_all_unknown ? 1 : 0;
  const std::size_t place = static_cast<std::size_t>(std::min(tokens, kLongestCounted));
  if (figures_.counts.size() <= place) figures_.counts.resize(place + 1);
  ++figures_.counts[place];
  return text;
}

std::vector<SplitTexts> read_texts(const OpenedData& opened) {
  std::vector<SplitTexts> texts;
  for (std::size_t split = 0; split < opened.data().splits.size(); ++split) {
    for (int number = 0; number < kMaxTexts; ++number) {
      const bool is_unlabelled_target = number == 1 && opened.data().splits[split].manifest->is_unlabelled();
      if (!reads_text(opened.data().loader, number) || is_unlabelled_target) continue;
      const RunData& data = opened.data();
      for (const TextSettings& text :
           text_settings(data.loader, number, data.loader.streams[data.splits[split].stream])) {
        texts.push_back(texts_of(opened, split, number, text));
        keep_first(&texts.back().unknown, texts.back().most, has_more_unknown);
      }
    }
  }
  return texts;
}

std::string shown_text(const OpenedData& opened, const SplitTexts& texts, std::int64_t row) {
  const RecordedSplit& split = opened.data().splits[texts.split];
  if (split.corpus != nullptr) {
    const TokenStore& store = split.corpus->store();
    std::int64_t file = 0;
    while (file + 1 < store.files() && store.file_begin(file + 1) <= row) ++file;
    return shown_path(split.manifest->files().manifests[static_cast<std::size_t>(file)].path) + ":" +
           std::to_string(store.line(row));
  }
  const ManifestRow values = split.manifest->row(row);
  std::string text = opened.where(texts.split, row) + ": \"";
  std::string_view shown = split.manifest->text(row, static_cast<std::size_t>(std::max(0, texts.place)));
  if (!shown.empty() && shown.back() == '\0') shown.remove_suffix(1);  // behind the last of a row of words
  text += shortened(shown) + "\"";
  if (texts.place == kAllTexts && values.second_text) text += ", \"" + shortened(*values.second_text) + "\"";
  return text;
}

}  // namespace bascule
