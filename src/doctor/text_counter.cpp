// SPDX-License-Identifier: Apache-2.0
#include "src/doctor/text_counter.h"

#include <algorithm>

namespace bascule {

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

}  // namespace bascule
