// SPDX-License-Identifier: Apache-2.0
// The program: reads the command line, runs one command, turns an Error into one line and its exit code.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "src/base/error.h"
#include "src/commands/tokenize.h"
#include "src/commands/verify.h"

namespace bascule {
namespace {

int run_command_line(int argc, char** argv) {
  CLI::App app{"Bascule trains the vision-language model BridgeTower from one TOML file."};
  app.require_subcommand(1);
  int code = 0;

  VerifyArguments verify;
  CLI::App* command = app.add_subcommand("verify", "Run reference cases and judge every tensor");
  command->add_option("folders", verify.folders, "cases, or folders of cases")->required();
  command->add_option("--isa", verify.isa, "auto, avx2 or avx512");
  command->add_option("--threads", verify.threads, "0: every core")->check(CLI::Range(0, 1024));
  command->add_flag("--json", verify.json, "one JSON document on standard output");
  command->callback([&] { code = verify_command(verify); });

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int result = app.exit(error);
    return result == 0 ? 0 : exit_code(ErrorKind::kSettings);
  }
  return code;
}

}  // namespace
}  // namespace bascule

int main(int argc, char** argv) {
  try {
    return bascule::run_command_line(argc, argv);
  } catch (const bascule::Error& error) {
    std::fprintf(stderr, "bascule: %s\n", error.what());
    return bascule::exit_code(error.kind());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bascule: bug: %s\n", error.what());
    return 1;
  }
}
