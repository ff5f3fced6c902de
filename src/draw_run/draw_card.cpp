// SPDX-License-Identifier: Apache-2.0
#include "src/draw_run/draw_card.h"

#include <filesystem>

#include "src/settings/resume_rules.h"

namespace bascule {
namespace {

// Indented by four: a block of code, whatever the values hold. Values have no line breaks.
void add_keys(std::string* out, const KeyValues& keys) {
  for (const auto& [key, value] : keys) *out += "    " + key + " = " + value + "\n";
}

}  // namespace

std::string draw_card(const RecordedDrawRun& run) {
  const std::filesystem::path folder = run.settings.run.output_dir.resolved;
  const std::size_t pictures = run.list.pictures.size();
  std::string out = "# " + folder.filename().string() + "\n\n" + std::to_string(pictures) +
                    (pictures == 1 ? " picture of " : " pictures of ") + std::to_string(run.options.width) + " x " +
                    std::to_string(run.options.height) +
                    " pixels, drawn by Bascule " BASCULE_VERSION
                    " with the Stable Diffusion pipeline named below. [images.jsonl](images.jsonl) "
                    "has the prompt, the seed and the digest of each. The same settings draw the same pixels.\n";
  if (!run.notes.empty()) out += "\n## Notes\n\n";
  for (const std::string& note : run.notes) out += "- " + note + "\n";
  out += "\n## Settings\n\n";
  add_keys(&out, number_keys(run.settings));
  add_keys(&out, other_keys(run.settings));
  return out;
}

}  // namespace bascule
