// SPDX-License-Identifier: Apache-2.0
// The JSON document of a command that answers texts one after the other, and the command's end: answers that were made
// before an error are printed with it.
#pragma once

#include <functional>

#include "src/base/error.h"
#include "src/json/value.h"

namespace bascule {

class AnswerDocument {
 public:
  void add(Json answer);
  bool is_empty() const { return answers_.size() == 0; }
  // Prints {"texts": [...]}, with a member "error" where `error` is not null.
  void print(const Error* error) const;

 private:
  Json answers_ = Json::array();
};

// Calls `answer`, which fills the document, and prints the document where `is_json`. Returns the exit code: 0, or that
// of an Error behind the first answer, which is printed on standard error too. Throws an Error that no answer precedes.
int end_with_document(const std::function<void()>& answer, const AnswerDocument& document, bool is_json);

}  // namespace bascule
