// SPDX-License-Identifier: Apache-2.0
#include "src/base/paths.h"
#include "src/commands/completion.h"

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <string_view>
#include <vector>

#include "src/base/error.h"
#include "src/bringup/profile.h"
#include "src/commands/command_line.h"
#include "src/commands/unit.h"
#include "src/models/families.h"
#include "src/record/opened_model.h"
#include "src/settings/resume_rules.h"
#include "src/settings/settings.h"

namespace bascule {
namespace {

ExitCode of(ErrorKind kind, const char* meaning) { return {std::to_string(exit_code(kind)), meaning}; }

std::string of_signal(int number) { return std::to_string(128 + number); }

constexpr std::size_t kLineBytes = 80;

// Text as roff reads it: '\\' and '-' are marks of its own, and so are '.' and '\'' where a line begins. What stands in
// backticks becomes bold.
std::string escaped(std::string_view text) {
  std::string out = !text.empty() && (text.front() == '.' || text.front() == '\'') ? "\\&" : "";
  bool is_bold = false;
  for (const char c : text) {
    if (c == '`') {
      is_bold = !is_bold;
      out += is_bold ? "\\fB" : "\\fR";
    } else if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

// Lines of roff: short ones, and each sentence on its own, after which roff leaves more space.
std::string lines_of(const std::string& roff) {
  std::string out;
  std::size_t begin_of_line = 0;
  for (std::size_t at = 0; at < roff.size();) {
    const std::size_t end = std::min(roff.find(' ', at), roff.size());
    const bool is_sentence = at > begin_of_line && out.back() == '.';
    const bool is_long = end - begin_of_line > kLineBytes && at > begin_of_line;
    if (at > 0) out += is_sentence || is_long ? "\n" : " ";
    if (is_sentence || is_long) {
      begin_of_line = at;
      if (roff[at] == '.' || roff[at] == '\'') out += "\\&";
    }
    out += roff.substr(at, end - at);
    at = end + 1;
  }
  return out;
}

std::string bold(std::string_view text) { return "\\fB" + escaped(text) + "\\fR"; }
std::string italic(std::string_view text) { return "\\fI" + escaped(text) + "\\fR"; }

class Page {
 public:
  Page(const char* name, const char* part, const std::string& date, const char* title) {
    line(std::string(".TH ") + name + " " + part + " \"" + date + "\" \"bascule " + BASCULE_VERSION + "\" \"" + title +
         "\"");
  }
  void section(std::string_view name) { line(".SH " + escaped(name)); }
  void part(const std::string& name) { line(".SS " + name); }
  void paragraph(std::string_view text) {
    line(".PP");
    say(text);
  }
  void say(std::string_view text) { line(lines_of(escaped(text))); }
  // An entry of a list: its head as it is in roff, and what it means.
  void entry(const std::string& head, std::string_view text) {
    line(".TP");
    line(head);
    say(text);
  }
  void line(const std::string& roff) { text_ += roff + "\n"; }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string head_of(const OptionReference& option) {
  std::string head;
  for (const std::string& name : option.names) head += (head.empty() ? "" : ", ") + bold(name);
  if (option.value.empty()) return head;
  const std::string value = italic(option.value);
  return head + (option.value_is_optional ? " [" + value + "]" : " " + value);
}

// "bascule draw [OPTIONS] folder prompt"
std::string usage_of(const CommandReference& command) {
  std::string usage = bold("bascule " + command.name) + " [" + italic("OPTIONS") + "]";
  for (const OptionReference& argument : command.arguments) {
    const std::string name = italic(argument.names.front()) + (argument.takes_many ? "..." : "");
    usage += argument.is_required ? " " + name : " [" + name + "]";
  }
  return usage;
}

std::string meaning_of(const OptionReference& option) {
  std::string words;
  for (const std::string& word : option.words) words += (words.empty() ? "; one of " : ", ") + word;
  return option.meaning + words;
}

void add_command(Page* page, const CommandReference& command) {
  page->part(usage_of(command));
  page->say(command.purpose + ".");
  for (const OptionReference& argument : command.arguments)
    page->entry(italic(argument.names.front()), meaning_of(argument));
  for (const OptionReference& option : command.options) page->entry(head_of(option), meaning_of(option));
  if (!command.footer.empty()) page->paragraph(command.footer);
}

void add_service(Page* page) {
  const std::string settings = std::string(kSettingsFolder) + "/NAME.toml",
                    results = std::string(kResultsFolder) + "/NAME";
  page->section("SERVICE");
  page->say("bascule@NAME.service runs " + settings + " as the user " + kServiceUser +
            ". output_dir in that file must be " + results +
            ", the only folder where the service may write: with report.tracking, report.tracking_dir names a folder "
            "in it. The user must be able to read model and data.");
  page->paragraph(
      "The service is started again after a failure and resumes the run, unless settings, data or memory are wrong. "
      "`bascule plan --unit` writes a unit for one run that also limits memory and cores to those of its plan.");
  page->paragraph(
      "WatchdogSec and TimeoutStopSec of the service fit the default of distributed.timeout_seconds: who raises it in "
      "the settings raises both (`systemctl edit bascule@NAME.service`). The service has no network, so "
      "distributed.hostfile cannot be used in it.");
  page->paragraph(
      "`systemctl stop bascule@NAME.service` interrupts a run, which resumes at the next start; `bascule stop " +
      results + "` ends its training, and the run evaluates, saves and finishes.");
  page->line(".PP");
  page->line(".EX");
  page->line("systemctl enable \\-\\-now bascule@NAME.service");
  page->line("journalctl \\-u bascule@NAME.service");
  page->line(".EE");
  page->paragraph("bascule-serve@NAME.service serves what " + settings +
                  " says in a table [serve], at the socket /run/bascule/NAME.sock of bascule-serve@NAME.socket, which "
                  "the group www-data (nginx's) may open; serve.listen does not count. serve.access_log lies in " +
                  results + ".");
  page->section("FILES");
  page->entry(italic(settings), "settings of bascule@NAME.service");
  page->entry(italic(results), "its results: checkpoints, report.html, the finished model");
}

// Tables of keys are named "training.groups[]" where a file may have many of them.
std::string table_of(const std::string& key) {
  const std::string table = key.substr(0, key.rfind('.'));
  const std::size_t many = table.find("[]");
  return many == std::string::npos ? "[" + table + "]" : "[[" + table.substr(0, many) + "]]";
}

// The values of two keys, which depend on the family.
void add_models(Page* page) {
  page->section("MODELS");
  page->say(
      "The values of head and freeze, by the model_type in config.json of the model's folder. The first head is the "
      "default.");
  for (const Family* family : families()) {
    if (family->heads.empty()) continue;
    std::vector<std::string> heads;
    for (const FamilyHead& head : family->heads) heads.push_back(head.words.name);
    page->entry(bold(family->model_type), "head: " + joined(heads) + "; freeze: " + joined(family->parts) + ".");
  }
}

}  // namespace

std::vector<ExitCode> exit_codes() {
  return {{"0", "done"},
          of(ErrorKind::kInternal, "bug in Bascule"),
          of(ErrorKind::kSettings, "settings or command line"),
          of(ErrorKind::kData, "data, model or device"),
          of(ErrorKind::kMemory, "not enough memory"),
          of(ErrorKind::kRank, "a rank failed"),
          of(ErrorKind::kDisk, "disk"),
          of(ErrorKind::kNotAsRecorded, "machine or result is not what was recorded"),
          {of_signal(SIGHUP) + ", " + of_signal(SIGINT) + ", " + of_signal(SIGTERM),
           "stopped by a signal (SIGHUP, SIGINT, SIGTERM) after saving"}};
}

std::string program_manual(const ProgramReference& program, const std::string& date) {
  Page page("BASCULE", "1", date, "User Commands");
  page.section("NAME");
  page.line("bascule \\- train vision and language models from one TOML file");
  page.section("SYNOPSIS");
  page.line(bold("bascule") + " " + italic("COMMAND") + " [" + italic("OPTIONS") + "]");
  page.section("DESCRIPTION");
  page.say(program.purpose);
  page.say(
      "The file, bascule.toml(5), fixes everything before the first step: settings, shapes, memory, kernels and "
      "threads.");
  page.say("A run that is repeated, or killed and started again by the same command, ends with the same bits.");
  page.paragraph(
      "Standard output has the answer: text, or one JSON document with --json. Standard error has progress, notes and "
      "errors. An error is one line: where, what, what to do.");
  for (const OptionReference& option : program.options) page.entry(head_of(option), meaning_of(option));
  page.section("COMMANDS");
  for (const CommandReference& command : program.commands) add_command(&page, command);
  page.section("EXIT STATUS");
  for (const ExitCode& one : exit_codes()) page.entry(bold(one.codes), one.meaning);
  page.section("CAUSES OF SLOW FIGURES");
  page.say("bascule bringup names these causes where it has measured evidence of them:");
  for (const Cause& cause : known_causes()) page.entry(bold(cause.name), cause.remedy);
  add_service(&page);
  page.section("SEE ALSO");
  page.line(".BR bascule.toml (5),");
  page.line(".BR systemd.service (5)");
  return page.text();
}

std::string settings_manual(const std::string& date) {
  Page page("BASCULE.TOML", "5", date, "File Formats");
  page.section("NAME");
  page.line("bascule.toml \\- settings of a run of bascule");
  page.section("DESCRIPTION");
  page.say("A TOML file describes one run. Keys that it does not name have their default; an unknown key is an error.");
  page.say("A relative path is relative to the file. ~ and $NAME are not expanded.");
  page.say(
      "A key that follows the file on the command line, as in `bascule run demo.toml training.seed=7`, takes the place "
      "of the file's; a relative path there starts from the current folder.");
  page.paragraph("`bascule settings FILE` prints a file with every default, `bascule settings` this reference.");
  page.paragraph(std::string("The values of head and freeze below are those of the model_type ") +
                 usual_family().model_type + "; MODELS has those of the others.");
  page.section("KEYS");
  std::string table;
  for (const KeyReference& key : key_reference(words_of_usual_family())) {
    if (table_of(key.key) != table) {
      table = table_of(key.key);
      page.part(escaped(table));
    }
    const std::string value =
        key.default_value == "required" ? std::string("Required.") : "Default: " + key.default_value + ".";
    page.entry(bold(key.key.substr(key.key.rfind('.') + 1)), key.meaning + ".");
    page.line(".br");
    page.say("Allowed: " + key.allowed + ". " + value + " May change: " + key.may_change + ".");
  }
  add_models(&page);
  page.section("RESUMING");
  page.say("Whether a key may change when a run resumes from a checkpoint:");
  for (const auto& [word, meaning] : resume_words()) page.entry(bold(word), meaning);
  page.section("SEE ALSO");
  page.line(".BR bascule (1)");
  return page.text();
}

}  // namespace bascule
