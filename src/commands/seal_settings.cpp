// SPDX-License-Identifier: Apache-2.0
// A program of the build: checks a settings file and writes it as the C++ source of a program that reads none. It names
// the file as NAME.
//
//   seal_settings config/demo.toml NAME sealed_settings.cpp
#include <cstdio>
#include <exception>

#include "src/base/error.h"
#include "src/files/durable_write.h"
#include "src/record/opened_model.h"
#include "src/settings/command_line_keys.h"

int main(int argc, char** argv) {
  using namespace bascule;  // NOLINT
  if (argc != 4) {
    std::fprintf(stderr, "usage: seal_settings FILE NAME OUTPUT\n");
    return exit_code(ErrorKind::kSettings);
  }
  try {
    const Settings settings = read_settings(argv[1], model_words);
    refuse_unsupported(settings);
    write_output_file(argv[3], sealed_source(settings, argv[2]));
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return exit_code(error.kind());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bug: %s\n", error.what());
    return 1;
  }
}
