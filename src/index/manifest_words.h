// SPDX-License-Identifier: Apache-2.0
// The words of a row and their tags, from its JSON.
#pragma once

#include <string>
#include <vector>

#include "src/base/span.h"
#include "src/index/manifest_builder.h"
#include "src/json/json.h"

namespace bascule {

class WordReader {
 public:
  // words: a list of strings; tags: a list of as many strings or class numbers; null, or none of them a tag where that
  // may be: the row has none. Both outlive what is read. Throws Error (kData) at `where`.
  void read(const Json& words, const Json* tags, const ManifestColumns& columns, const std::string& where);

  // Those of the row that was read last: all words, each followed by a zero byte, and a tag of each or none.
  const std::string& text() const { return text_; }
  Span<const ManifestLabel> tags() const { return tags_; }

 private:
  std::string text_;
  std::vector<ManifestLabel> tags_;
};

}  // namespace bascule
