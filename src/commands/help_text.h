// SPDX-License-Identifier: Apache-2.0
// How help and errors of the command line look: lines of at most 80 columns, one line an error, with the nearest name
// for a misspelt one.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <string>
#include <string_view>

#include "src/base/error.h"

namespace bascule {

constexpr std::size_t kHelpColumns = 80;

// Breaks long lines between words. Continuation lines are indented to the last column of the line: the one after two
// spaces or more.
std::string wrapped(std::string_view text);

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    return wrapped(CLI::Formatter::make_help(app, name, mode));
  }
};

// The error for a command line that `app` refused with `failure`.
Error command_line_error(const CLI::App& app, const CLI::ParseError& failure);

}  // namespace bascule
