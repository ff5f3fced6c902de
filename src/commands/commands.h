// SPDX-License-Identifier: Apache-2.0
// The commands and their options, as the command line reads them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/isa.h"
#include "src/seal/start_times.h"
#include "src/settings/command_line_keys.h"
#include "src/settings/settings.h"

namespace CLI {
class App;
}

namespace bascule {

struct RecordedRun;
struct RecordedService;

// The command that was chosen; called after the whole command line was read. Returns the exit code.
using Chosen = std::function<int()>;

// In the order in which the help lists them. A command that is read sets *chosen; both outlive the reading.
void add_commands(CLI::App& app, Chosen* chosen);

// `bascule bench`: steady-state speed of a settings file's training step, of a batch of its evaluation, or of the
// stages of a run that draws, beside the ceiling that this machine allows. Real data, no files written; a run that
// draws has its own weights, all others fresh ones.

// The columns differ in this.
enum class BenchAxis {
  kWorkers,         // loader workers, with the host engine, then the program's own engine where that is another
  kBatch,           // samples of a micro-batch, or of a batch of the evaluation; pictures drawn at a time
  kImageSize,       // side of the pictures
  kSequenceLength,  // tokens of a text at most
  kSourceLength,    // tokens of a source at most
  kTargetLength,    // tokens of a target at most
  kBeams,           // of a search for texts
  kThreads,         // compute threads; simulated above the number of cores, or with `simulates`
  kSide,            // of pictures that are drawn
};

struct BenchArguments {
  SettingsSource settings;
  std::int64_t steps = 20;  // measured, after the warm-up
  std::int64_t warmup = 3;
  BenchAxis axis = BenchAxis::kWorkers;
  std::vector<std::int64_t> values;  // one column for each; empty: one column, the file's own
  std::string use;                   // "train", "evaluate", "generate" or "draw"; empty: draw or train, as the run does
  std::int64_t new_tokens = 0;       // every text has so many; 0: as the settings say
  bool simulates = false;            // of kThreads: also where there are cores enough
  bool json = false;
};

// "--batch" of kBatch.
const char* option_of(BenchAxis axis);

// Returns 0. Throws Error as `bascule run` would.
int bench_command(const BenchArguments& arguments);

// `bascule bringup`: what this machine can do, and why it does less than a saved profile says.

struct BringUpArguments {
  bool quick = false;
  double long_minutes = 0.0;      // 0: no long comparison of bits
  std::vector<std::string> only;  // items; empty: all
  std::string folder = ".";
  std::string save, against, html;  // files; "" for none
  bool json = false;
};

// Returns 0; 7 where a core computes wrong bits, or a figure is slower than in the profile. Throws Error.
int bringup_command(const BringUpArguments& arguments);

// The commands that look at the folders of runs: list, stop, reproduce, diff.

// As add_commands().
void add_commands_on_runs(CLI::App& app, Chosen* chosen);

// `bascule decode`: JPEG, PNG and WebP files to the pixels that the model would see, in a safetensors file; one JSON
// line a file on standard output.

struct DecodeArguments {
  std::int64_t size = 288;
  // training | processor; empty: as the model's run prepared pictures, or as its processor does where no run left the
  // folder; training where there is no model.
  std::string preprocessing;
  std::string model;  // a folder whose processor file counts; empty: mean and std
  // Mean and deviation of R, G and B in 0..1; CLIP's by default.
  std::vector<double> mean = {0.48145466, 0.4578275, 0.40821073};
  std::vector<double> std = {0.26862954, 0.26130258, 0.27577711};
  bool raw = false;    // 0..255 before normalising
  std::string output;  // a safetensors file: float32 (3, size, size) under each file's base name
  std::vector<std::string> files;
};

// The side of a model's pictures. Throws Error kData for a folder without a config.json that can be read.
std::int64_t image_size_of(const std::string& model);

// One line a file: {"file", "ok", "width", "height", "error"}; width and height are upright, null where unknown; error
// is null where ok. Goes on after a file that is refused or cannot be read. Returns the exit code: 0, or 3 if any was.
// Throws Error: kSettings for the arguments, kData for a broken media engine, kMemory, kDisk. The pixels of all files
// are held in memory until the end.
int decode_command(const DecodeArguments& arguments);

// `bascule diff RUN_A RUN_B`: the first update, and in it the first tensor, where two runs part.

struct DiffArguments {
  std::string a, b;  // folders of runs with report.hash_steps
  bool json = false;
};

// Prints to standard output. Returns 0 where all hashes that both runs have are equal, else 7. Throws Error.
int diff_command(const DiffArguments& arguments);

// `bascule doctor FILE`: looks at the data of a run before it is trained on.

struct DoctorArguments {
  SettingsSource settings;
  std::string profile;  // of the machine, which `bringup --save` wrote; empty: no time is said
  std::string html;     // a file for the page; empty: none
  std::string list;     // a file for all rows of the findings; empty: none
  bool json = false;
};

// Prints to standard output. Returns 0 where the run would train, else the exit code that it would end with. Throws
// Error.
int doctor_command(const DoctorArguments& arguments);

// `bascule list DIR`: a table of the runs below folders.

struct ListArguments {
  std::vector<std::string> folders;
  std::string html;  // a page to write; empty: none
  bool json = false;
};

// Returns the exit code. Throws Error.
int list_command(const ListArguments& arguments);

// `bascule plan FILE`: the memory plan of a run, without loading weights, and what it answers: the largest batch that
// fits, what is alive at the peak, what memory costs in operations; with `threads` alone also what is measured: the
// speed on other machines.

struct PlanArguments {
  SettingsSource settings;
  bool json = false;
  bool inputs = false;  // with json: the files that the run reads
  bool frontier = false;
  // Of the machine that is planned for, and of each rank there, in place of machine.memory_limit_gib and
  // machine.threads; how fast one rank is with so many threads is simulated.
  std::optional<double> memory_gib;
  std::optional<std::int64_t> threads;
  std::string unit;  // a file for a systemd unit of the run; empty: none
  std::string svg;   // a file for the picture of the arena; empty: none
};

// Prints to standard output. Returns 0 if the plan fits the machine (or the memory that is given), 4 if not. Throws
// Error.
int plan_command(const PlanArguments& arguments);

// `bascule reproduce RECORD`: whether a finished run can be repeated here, and whether its repetition gives the same.

struct ReproduceArguments {
  std::string record;             // a finished run's folder, or its bascule.json
  std::vector<std::string> keys;  // with answer: in place of the file's
  std::optional<std::pair<std::string, std::string>>
      answer;           // an access log and the number of a line: record is the service's
  std::string request;  // a file with that answer's request; "-": standard input
  std::string output;   // of the repetition; empty: beside the recorded folder
  bool check = false;   // compare what is there; run nothing
  bool json = false;
};

// Prints to standard output; with json what the repeated run prints goes to standard error. Returns 0, or 7 where
// something is not as recorded. Throws Error.
int reproduce_command(const ReproduceArguments& arguments);
// The same with arguments.answer.
int reproduce_answer(const ReproduceArguments& arguments);

// `bascule run FILE`: trains, evaluates, predicts and reports what one TOML file says. Run again, it goes on where it
// was.

// Of a program with sealed settings: compares the files that SHA256SUMS lists, before any of them is read; by the first
// rank. Throws Error.
void check_own_tree();

// json: prints all_results.json in place of the summary. Returns the exit code: 0 done, 130 or 143 stopped by a signal
// after saving. Throws Error.
int run_command(const SettingsSource& source, bool json);
// The same with settings that were read from the file, or that differ from those that are sealed in the program.
int run_settings(Settings settings, const std::string& settings_file, bool json, StartTimes times = {});
// Whether nothing is left to do of a run that trains. Throws Error where its settings were changed since.
bool is_trained(Settings settings);
// The line that ends the seal of a run or a service. threads: of each rank.
std::string seal_line(Isa isa, const Settings& settings, int ranks, int threads);

// `bascule serve FOLDER` or `FILE`: a finished model answers requests over HTTP until a signal stops it.

// source.file: a model's folder, or a settings file with [serve]. With [training] beside it the run is trained first,
// or goes on, and its finished folder is served.

// Its settings. Throws Error kSettings.
Settings settings_to_serve(const SettingsSource& source);
// Returns the exit code: 0 once a signal has come and what was admitted has been answered, or that of a training that
// was stopped. Throws Error.
int serve_command(const SettingsSource& source);
// The service of the folder that the run will leave, before there is one. Throws Error.
std::unique_ptr<RecordedService> record_service_after(const RecordedRun& run);

// Throws Error kSettings for settings with [serve]: of the commands for runs.
void refuse_serving(const Settings& settings);

// `bascule settings`: the keys, a settings file with every default filled in, and what may change before a run goes on.

// source: may be empty; without a file, sealed settings and `resume` every key is printed with meaning, range and
// default, for `markdown` as the tables of README.md. Returns the exit code; throws Error.
int settings_command(const SettingsSource& source, bool resume, bool json, bool markdown);

// `bascule stop RUN`: asks a running run to end training after the update under way, and to finish.

// run: its output_dir. Returns the exit code at once; the run evaluates, saves and finishes by itself. Throws Error
// where nothing trains there.
int stop_command(const std::string& run);

// `bascule tokenize`: a JSON array of strings on standard input, a JSON array of arrays of ids on standard output. An
// array of two strings in the place of a string is a pair of texts. With --decode the way back: an array of arrays of
// ids on standard input, an array of strings on standard output.

// Rows that are shorter are filled with <pad> on the right.
enum class TokenPadding {
  kNone,
  kLongest,    // to the longest row
  kMaxLength,  // to max_length
};

struct TokenizeArguments {
  std::string model;            // a Hugging Face folder
  std::int64_t max_length = 0;  // cut to this many ids, special ones among them; 0: do not cut
  // --padding: not given, given alone (empty: to max_length where that is given, else to the longest row), or given
  // with a value, "longest" or "max_length".
  std::optional<std::string> padding;
  bool decodes = false;  // from ids to texts; neither max_length nor padding is given
};

// Throws Error (kSettings for the arguments, kData for the model and the input). Returns the exit code, 0.
int tokenize_command(const TokenizeArguments& arguments);

// The same between streams of the caller.
void tokenize_streams(const TokenizeArguments& arguments, std::istream& input, std::ostream& output);

// How help looks: lines of at most 80 columns.

constexpr std::size_t kHelpColumns = 80;

// Breaks long lines between words. Continuation lines are indented to the last column of the line: the one after two
// spaces or more.
std::string wrapped(std::string_view text);

// The whole command line of the program: every command, `help`, --version, and how help looks. main() runs what it
// names; the manual page and the completions are written from it.

// Both outlive the parsing.
void describe_program(CLI::App& app, Chosen* chosen);

// Runs the command that the command line names, and returns its exit code. Help and the version are printed here.
// Throws Error.
int run_chosen(int argc, char** argv);

}  // namespace bascule
