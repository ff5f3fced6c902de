// SPDX-License-Identifier: Apache-2.0
#include "src/commands/report_error.h"

#include <cstdio>
#include <cstring>
#include <exception>
#include <optional>
#include <string>

#include "src/base/journal.h"
#include "src/base/open_files.h"
#include "src/json/error_json.h"
#include "src/json/json.h"
#include "src/text/name_forms.h"

namespace bascule {

constexpr char kWithoutMemory[] =
    "{\"error\": {\"exit_code\": 4, \"kind\": \"memory\", \"what\": \"out of memory\", \"what_to_do\": \"\", "
    "\"where\": \"\"}}\n";

bool asks_for_json(int argc, const char* const* argv) {
  for (int i = 1; i < argc && std::strcmp(argv[i], "--") != 0; ++i) {
    if (std::strncmp(argv[i], "--json", 6) == 0 && (argv[i][6] == '\0' || argv[i][6] == '=')) return true;
  }
  return false;
}

std::string error_document(const Error& error) { return json_text(Json{{"error", error_json(error)}}, 2) + "\n"; }

Error unreadable(const std::filesystem::filesystem_error& failure) {
  const std::string path = failure.path1().string();
  return Error(ErrorKind::kData, path.empty() ? "the current folder" : path,
               "cannot be read: " + failure.code().message(), advice_for_open(failure.code().value()));
}

void say(const std::string& line) { std::fprintf(stderr, "bascule: %s\n", line.c_str()); }

namespace {

void print_error(const Error& error, bool json) noexcept {
  std::fprintf(stderr, "%sbascule: %s\n", journal_error_mark(), error.what());
  try {
    if (json) std::fputs(error_document(error).c_str(), stdout);
  } catch (const std::exception&) {
    std::fputs(kWithoutMemory, stdout);
  }
}

}  // namespace

int report_error(const Error& error, bool json) noexcept {
  std::optional<Error> with_note;
  try {
    const bool may_be_read = error.kind() == ErrorKind::kData || error.kind() == ErrorKind::kSettings;
    const std::string note = may_be_read ? note_on_other_form(error.where()) : "";
    if (!note.empty()) with_note.emplace(error.kind(), error.where(), error.problem() + note, kOtherFormAdvice);
  } catch (const std::exception&) {
    // Out of memory: without the note.
  }
  print_error(with_note ? *with_note : error, json);
  return exit_code(error.kind());
}

}  // namespace bascule
