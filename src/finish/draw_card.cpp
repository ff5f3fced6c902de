// SPDX-License-Identifier: Apache-2.0
#include "src/finish/draw_card.h"

#include <filesystem>

#include "src/base/count_of.h"
#include "src/base/utf8.h"
#include "src/settings/resume_rules.h"

namespace bascule {
namespace {

constexpr std::size_t kNotes = 20;
constexpr std::size_t kNoteBytes = 400;

// Indented by four: a block of code, whatever the values hold. Values have no line breaks.
void add_keys(std::string* out, const KeyValues& keys) {
  for (const auto& [key, value] : keys) *out += "    " + key + " = " + value + "\n";
}

std::string short_line(const std::string& note) {
  if (note.size() <= kNoteBytes) return printable_line(note);
  return printable_line(note.substr(0, utf8_cut(note, kNoteBytes))) + "…";
}

}  // namespace

std::vector<std::string> short_notes(const std::vector<std::string>& notes) {
  std::vector<std::string> lines;
  for (const std::string& note : notes) {
    if (lines.size() == kNotes) break;
    lines.push_back(short_line(note));
  }
  const std::size_t more = notes.size() - lines.size();
  if (more > 0) lines.push_back("and " + std::to_string(more) + " more, which the run printed");
  return lines;
}

std::string draw_card(const RecordedDrawRun& run) {
  const std::filesystem::path folder = run.settings.run.output_dir.resolved;
  const std::size_t pictures = run.list.pictures.size();
  std::string out = "# " + folder.filename().string() + "\n\n" + count_of(pictures, "picture") + " of " +
                    std::to_string(run.options.width) + " x " + std::to_string(run.options.height) +
                    " pixels, drawn by Bascule " BASCULE_VERSION
                    " with the Stable Diffusion pipeline named below. [images.jsonl](images.jsonl) "
                    "has the prompt, the seed and the digest of each. The same settings draw the same pixels.\n";
  if (!run.notes.empty()) out += "\n## Notes\n\n";
  for (const std::string& note : short_notes(run.notes)) out += "    " + note + "\n";
  out += "\n## Settings\n\n";
  add_keys(&out, number_keys(run.settings));
  add_keys(&out, other_keys(run.settings));
  return out;
}

}  // namespace bascule
