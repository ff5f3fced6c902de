// SPDX-License-Identifier: Apache-2.0
// Any text is settings or one Error; settings read back from their own printed form print the same.
#include <cstdint>
#include <string>

#include "src/base/error.h"
#include "src/settings/settings.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/settings/read_text.h"

namespace bascule {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Settings settings;
  try {
    settings = read_settings_text(fuzz::as_text(data, size), "fuzz.toml", "/", test_words);
  } catch (const Error& error) {
    fuzz::require(error.kind() == ErrorKind::kSettings);
    return 0;
  }
  const std::string printed = print_settings(settings);
  fuzz::require(print_settings(read_settings_text(printed, "fuzz.toml", "/", test_words)) == printed);
  return 0;
}

}  // namespace bascule
