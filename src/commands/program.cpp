// SPDX-License-Identifier: Apache-2.0
#include "src/commands/commands.h"

#include <algorithm>
#include <cstdio>
#include <memory>

#include <CLI/CLI.hpp>

#include "firmware_shims/media_engine.h"
#include "kernels/gemm/gemm.h"
#include "kernels/isa.h"
#include "src/commands/command_line.h"
#include "src/distributed/group.h"
#include "src/settings/command_line_keys.h"

namespace bascule {
namespace {

// Where the last column of a line begins; with one column, where the line does.
std::size_t last_column(std::string_view line) {
  const std::size_t first = std::min(line.find_first_not_of(' '), line.size());
  const std::size_t gap = line.find("  ", first);
  const std::size_t second = gap == std::string_view::npos ? gap : line.find_first_not_of(' ', gap);
  return second == std::string_view::npos || second > kHelpColumns / 2 ? first : second;
}

std::string wrapped_line(std::string_view line) {
  const std::size_t indent = last_column(line);
  std::string text;
  while (line.size() > kHelpColumns - (text.empty() ? 0 : indent)) {
    const std::size_t room = kHelpColumns - (text.empty() ? 0 : indent);
    const std::size_t space = line.rfind(' ', room);
    // A word that is longer than the line stays whole.
    const std::size_t end = space == std::string_view::npos || (text.empty() && space < indent)
                                ? std::min(line.find(' ', room), line.size())
                                : space;
    text += (text.empty() ? "" : "\n" + std::string(indent, ' ')) + std::string(line.substr(0, end));
    line.remove_prefix(std::min(line.size(), end + 1));
  }
  if (text.empty()) return std::string(line);
  return line.empty() ? text : text + "\n" + std::string(indent, ' ') + std::string(line);
}

}  // namespace

std::string wrapped(std::string_view text) {
  std::string lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines += wrapped_line(text.substr(0, end));
    if (end < text.size()) lines += "\n";
    text.remove_prefix(std::min(text.size(), end + 1));
  }
  return lines;
}

namespace {

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    return wrapped(CLI::Formatter::make_help(app, name, mode));
  }
};

std::string sealed_text() {
  const SealedSettings* const sealed = sealed_settings();
  if (sealed == nullptr) return "";
  return std::string("\nsettings: ") + sealed->file + ", digest " + sealed->digest +
         "\nSHA-256 of these settings: " + sealed->sha256;
}

std::string version_text() {
  const std::string mpi = mpi_version();
  return std::string("bascule ") + BASCULE_VERSION +
         "\nmedia engine: " + media_engine_query(media_engine_builtin()).name + "\nmatrix products: ours" +
         (onednn_version() == "none" ? "" : ", " + onednn_version()) +
         "\nMPI: " + (mpi.empty() ? "none; a run has one machine" : mpi) + sealed_text() +
         "\nthis machine: " + (machine_runs_bascule() ? isa_name(best_isa()) : "no AVX2 with FMA, cannot run Bascule");
}

void add_help(CLI::App& app, Chosen* chosen) {
  CLI::App* command = app.add_subcommand("help", "Print this help, or that of a command");
  auto name = std::make_shared<std::string>();
  command->add_option("command", *name, "name of a command");
  command->callback([=, &app] {
    *chosen = [=, &app] {
      const CLI::App* asked = &app;
      if (!name->empty()) {
        const auto named = app.get_subcommands([&](const CLI::App* one) { return one->get_name() == *name; });
        if (named.empty()) throw unknown_command(app, *name);
        asked = named.front();
      }
      const std::string before = name->empty() ? app.get_name() : app.get_name() + " " + *name;
      std::fputs(app.get_formatter()->make_help(asked, before, CLI::AppFormatMode::Normal).c_str(), stdout);
      return 0;
    };
  });
}

}  // namespace

void describe_program(CLI::App& app, Chosen* chosen) {
  app.description("Bascule trains vision and language models from one TOML file.");
  app.require_subcommand(1);
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_version_flag("--version", version_text);
  add_commands(app, chosen);
  add_help(app, chosen);
}

int run_chosen(int argc, char** argv) {
  CLI::App app;
  Chosen chosen;
  describe_program(app, &chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success))
      return app.exit(error);  // --help, --version
    throw command_line_error(app, error);
  }
  return chosen();
}

}  // namespace bascule
