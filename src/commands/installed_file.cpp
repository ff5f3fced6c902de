// SPDX-License-Identifier: Apache-2.0
// A program of the build: prints a file that is installed beside the program, from the program's own tables. The date
// of a manual page is that of $SOURCE_DATE_EPOCH.
//
//   installed_file bascule.1|bascule.toml.5|bascule|_bascule|bascule@.service|bascule-serve@.service|
//     bascule-serve@.socket|bascule.conf PROGRAM
//
// PROGRAM: where bascule will be installed.
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <string>

#include "src/base/error.h"
#include "src/commands/commands.h"
#include "src/commands/completion.h"
#include "src/commands/unit.h"

namespace bascule {
namespace {

std::string date_of_source() {
  const char* const seconds = std::getenv("SOURCE_DATE_EPOCH");
  if (seconds == nullptr) return "";
  const std::time_t time = std::strtoll(seconds, nullptr, 10);
  std::tm date{};
  char text[16] = "";
  if (gmtime_r(&time, &date) != nullptr) std::strftime(text, sizeof text, "%Y-%m-%d", &date);
  return text;
}

// Empty: no file has this name.
std::string text_of(const std::string& name, const std::string& program) {
  CLI::App app;
  Chosen chosen;
  describe_program(app, &chosen);
  const ProgramReference reference = program_reference(app);
  if (name == "bascule.1") return program_manual(reference, date_of_source());
  if (name == "bascule.toml.5") return settings_manual(date_of_source());
  if (name == "bascule") return bash_completion(reference);
  if (name == "_bascule") return zsh_completion(reference);
  if (name == "bascule@.service") return template_unit_text(program);
  if (name == "bascule-serve@.service") return template_service_text(program);
  if (name == "bascule-serve@.socket") return template_socket_text();
  if (name == "bascule.conf") return service_user_text();
  return "";
}

}  // namespace
}  // namespace bascule

int main(int argc, char** argv) {
  using namespace bascule;  // NOLINT
  try {
    const std::string text = argc == 3 ? text_of(argv[1], argv[2]) : "";
    if (text.empty()) {
      std::fprintf(stderr, "usage: installed_file FILE PROGRAM\n");
      return exit_code(ErrorKind::kSettings);
    }
    if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0) return exit_code(ErrorKind::kDisk);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bug: %s\n", error.what());
    return exit_code(ErrorKind::kInternal);
  }
}
