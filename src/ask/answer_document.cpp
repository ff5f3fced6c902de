// SPDX-License-Identifier: Apache-2.0
#include "src/ask/answer_document.h"

#include <cstdio>
#include <utility>

#include "src/base/journal.h"
#include "src/json/error_json.h"
#include "src/json/json.h"

namespace bascule {

void AnswerDocument::add(Json answer) { answers_.push_back(std::move(answer)); }

void AnswerDocument::print(const Error* error) const {
  Json document = {{"texts", answers_}};
  if (error != nullptr) document["error"] = error_json(*error);
  std::printf("%s\n", json_text(document).c_str());
}

int end_with_document(const std::function<void()>& answer, const AnswerDocument& document, bool is_json) {
  try {
    answer();
  } catch (const Error& error) {
    if (document.is_empty()) throw;
    std::fprintf(stderr, "%sbascule: %s\n", journal_error_mark(), error.what());
    if (is_json) document.print(&error);
    return exit_code(error.kind());
  }
  if (is_json) document.print(nullptr);
  return 0;
}

}  // namespace bascule
