// SPDX-License-Identifier: Apache-2.0
#include "src/record/held_out.h"

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <utility>

#include "src/base/error.h"
#include "src/index/manifest_part.h"
#include "src/logs/readable.h"

namespace bascule {

void HeldOut::say(std::int64_t held_out, std::int64_t all, const char* unit, const std::string& name) {
  const double share = settings_.data.validation_share;
  char text[64];
  std::snprintf(text, sizeof text, "data.validation_share = %.12g", share);
  const bool is_one_document = all == 1 && std::string_view(unit) == "documents";
  if (held_out == 0 || held_out == all) {
    throw Error(ErrorKind::kSettings, where_written(settings_, "data.validation_share"),
                is_one_document ? name + " is one document, of which " + text + " can hold out no part"
                                : std::string(text) + " holds out " + (held_out == 0 ? "none" : "all") + " of the " +
                                      std::to_string(all) + " " + unit + " of " + name,
                is_one_document ? "separate documents with empty lines, or name a data.validation_file"
                                : "set another share, or name a data.validation_file");
  }
  if (!note_.empty()) return;
  note_ = std::string("data: ") + text + ": " + readable_count(held_out).c_str() + " of " +
          readable_count(all).c_str() + " " + unit + " of " + name + " are held out (" +
          readable_percent(static_cast<double>(held_out) / static_cast<double>(all)).c_str() + ")";
}

Manifest HeldOut::rows_of(const Manifest& whole, Split split, std::int64_t most) {
  if (held_out_.empty()) held_out_ = held_out_rows(whole, settings_.data.validation_share, cache_);
  say(std::count(held_out_.begin(), held_out_.end(), true), whole.rows(), "rows", whole.name());
  std::vector<std::int64_t> rows;
  for (std::int64_t row = 0; row < whole.rows(); ++row) {
    if (held_out_[static_cast<std::size_t>(row)] == (split == Split::kValidation)) rows.push_back(row);
  }
  if (most > 0 && rows.size() > static_cast<std::size_t>(most)) rows.resize(static_cast<std::size_t>(most));
  return part_of(whole, rows);
}

OpenedTokens HeldOut::tokens_of(const DataFiles& files, const Tokenizer& tokenizer, Split split, bool keeps) {
  const bool by_line = settings_.data.text_layout == TextLayout::kLines;
  OpenedTokens part = open_tokens(files, tokenizer, settings_.run.output_dir.resolved, keeps,
                                  TextPart{settings_.data.validation_share, split == Split::kValidation, by_line});
  const std::int64_t own = by_line ? part.store->sentences() : part.store->documents();
  const std::int64_t others = part.store->others();
  say(split == Split::kValidation ? own : others, own + others, by_line ? "lines" : "documents", files.name);
  return part;
}

}  // namespace bascule
