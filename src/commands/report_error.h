// SPDX-License-Identifier: Apache-2.0
// What a command says on standard error. One that failed says so in one line there and, with --json, in one JSON
// document on standard output.
#pragma once

#include <filesystem>
#include <string>

#include "src/base/error.h"

namespace bascule {

// Whether the command line asks for JSON, also one that is refused.
bool asks_for_json(int argc, const char* const* argv);

// {"error": {...}} (src/json/error_json.h) and a line break.
std::string error_document(const Error& error);

// For a path that std::filesystem could not look at.
Error unreadable(const std::filesystem::filesystem_error& failure);

// Prints "bascule: LINE" on standard error.
void say(const std::string& line);

// Prints the line and, where `json`, the document. Returns the exit code.
int report_error(const Error& error, bool json) noexcept;

}  // namespace bascule
