// SPDX-License-Identifier: Apache-2.0
#include "src/text/name_forms.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <system_error>
#include <vector>

#include "src/base/utf8.h"
#include "src/text/nfc.h"

namespace bascule {
namespace {

using Characters = std::vector<std::uint64_t>;

// Of a name that is not UTF-8: none.
Characters composed(const std::string& name) {
  if (first_invalid_utf8(name) < name.size()) return {};
  Characters characters(nfc_code_points(name.size()));
  characters.resize(nfc(name, characters.data()));
  return characters;
}

// The entry of the folder whose name is `name` in another form; "": none.
std::string entry_like(const std::filesystem::path& folder, const std::string& name) {
  const Characters wanted = composed(name);
  std::error_code failure;
  std::filesystem::directory_iterator entries(folder.empty() ? "." : folder, failure);
  for (; !failure && entries != std::filesystem::directory_iterator(); entries.increment(failure)) {
    std::string found = entries->path().filename().string();
    if (!wanted.empty() && composed(found) == wanted) return found;
  }
  return "";
}

}  // namespace

std::string note_on_other_form(const std::string& path) {
  const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  if (std::all_of(path.begin(), path.end(), is_ascii)) return "";
  std::error_code failure;
  std::filesystem::path found;
  bool differs = false;
  for (const std::filesystem::path& part : std::filesystem::path(path)) {
    std::filesystem::path next = found / part;
    if (!std::filesystem::exists(next, failure)) {
      const std::string other = entry_like(found, part.string());
      if (other.empty()) return "";
      next = found / other;
      differs = true;
    }
    found = next;
  }
  return differs ? ", but the same name exists in another Unicode form" : "";
}

}  // namespace bascule
