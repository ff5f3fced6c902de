// SPDX-License-Identifier: Apache-2.0
#include "src/commands/commands.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <vector>

#include "src/answer/report.h"
#include "src/base/error.h"
#include "src/base/messages.h"
#include "src/base/systemd.h"
#include "src/commands/launch_run.h"
#include "src/commands/report_error.h"
#include "src/commands/stop_signal.h"
#include "src/finish/contracts.h"
#include "src/finish/draw_results.h"
#include "src/json/json.h"
#include "src/logs/progress.h"
#include "src/logs/readable.h"
#include "src/record/recorded_run.h"
#include "src/replay/draw_loop.h"
#include "src/reproduce/run_record.h"
#include "src/run_folder/draw_folder.h"
#include "src/run_folder/run_folder.h"
#include "src/run_folder/run_marker.h"
#include "src/runtime/choose_isa.h"
#include "src/runtime/guard.h"
#include "src/seal/drawn_from.h"

namespace bascule {
namespace {

constexpr char kResultsFile[] = "/all_results.json";

// Recorded, with the pictures that are there. Throws Error where the folder cannot be this run's.
std::unique_ptr<RecordedDrawRun> open_run(const Settings& settings, const RankPlace& place) {
  check_draw_folder(settings);
  std::unique_ptr<RecordedDrawRun> run = record_draw_run(settings, place);
  check_picture_places(settings, run->list.pictures.size());
  if (settings.draw.resume == ResumeDrawing::kAuto) run->files->read_done();
  return run;
}

// Whether nothing is left to do; says so then.
bool is_done(const RecordedDrawRun& run, bool json) {
  const std::string& folder = run.settings.run.output_dir.resolved;
  if (!run.files->missing().empty() || !read_run_marker(folder).finished) return false;
  if (!std::filesystem::exists(folder + kResultsFile)) return false;  // written again from images.jsonl
  say_ready();
  say("run: already finished; see " + run.settings.run.output_dir.shown());
  if (json) std::puts(json_text(read_json_file(folder + kResultsFile), 4).c_str());
  return true;
}

void say_run(const RecordedDrawRun& run) {
  const std::size_t pictures = run.list.pictures.size();
  for (const std::string& note : run.notes) say(note);
  constexpr std::size_t kSaid = 10;
  const std::vector<std::string> again = run.files->drawn_again();
  for (std::size_t i = 0; i < std::min(again.size(), kSaid); ++i) say("run: " + again[i] + "; it is drawn again");
  if (again.size() > kSaid) say("run: and " + std::to_string(again.size() - kSaid) + " more pictures are drawn again");
  say("plan: " + std::string(readable_bytes(run.plan.peak_bytes()).c_str()) + " in total, " +
      count_of(pictures, "picture") + " of " + std::to_string(run.options.width) + " x " +
      std::to_string(run.options.height));
}

// Once everything is there that the run needs. What is drawn anew is removed before the folder says that it is of these
// settings. from: as drawn_from() says.
void begin_folder(RecordedDrawRun* run, const std::vector<NamedText>& from, RunStatus* status) {
  const std::string& folder = run->settings.run.output_dir.resolved;
  if (!run->files->done().empty()) check_drawn_from(run->settings, read_run_marker(folder).drawn_from, from);
  if (run->settings.draw.resume == ResumeDrawing::kNever) {
    std::vector<std::string> names;
    const std::size_t pictures = run->list.pictures.size();
    for (std::size_t n = 0; n < pictures; ++n) names.emplace_back(PictureName(n, pictures).text());
    remove_pictures(folder, names);
  }
  write_run_marker(run->settings, {}, {}, {}, Json(), from);
  status->open(folder, run->settings.report.status_seconds, NotifySocket::from_environment());
  run->files->open();
}

// Measures all ranks together: the time of a stage is the mean of theirs, as they work side by side.
void measure(const RecordedDrawRun& run, const SealedDrawRun& sealed, Group& group, DrawResults* results) {
  results->planned_bytes = run.plan.peak_bytes();
  results->guarded = guard_is_active();
  ForeignAllocations foreign[64];
  const std::size_t count = foreign_allocations(foreign, std::size(foreign));
  for (std::size_t i = 0; i < count; ++i) {
    results->foreign_calls += foreign[i].calls;
    results->foreign_bytes += foreign[i].bytes;
  }
  const DrawingSeconds& stages = sealed.seconds();
  const double own[] = {static_cast<double>(resident_bytes(group.local_size())),
                        stages.prompts,
                        stages.calls,
                        stages.decoding,
                        results->writing_seconds,
                        static_cast<double>(results->foreign_calls),
                        static_cast<double>(results->foreign_bytes),
                        static_cast<double>(sealed.encoded_texts())};
  open_memory();
  constexpr std::size_t kNumbers = std::size(own);
  std::vector<double> all(kNumbers * static_cast<std::size_t>(group.size()));
  if (!group.exchange({own, kNumbers}, Span<double>(all))) throw PeerFailed{};
  double sums[kNumbers] = {};
  for (std::size_t i = 0; i < all.size(); ++i) sums[i % kNumbers] += all[i];
  const double ranks = group.size();
  results->resident_bytes = static_cast<std::size_t>(sums[0]);
  results->stages = {sums[1] / ranks, sums[2] / ranks, sums[3] / ranks};
  results->writing_seconds = sums[4] / ranks;
  results->foreign_calls = static_cast<std::uint64_t>(sums[5]);
  results->foreign_bytes = static_cast<std::uint64_t>(sums[6]);
  results->encoded_texts = static_cast<std::int64_t>(sums[7]);
}

std::vector<ContractResult> contracts_of(const RecordedDrawRun& run, const DrawResults& results) {
  ContractFigures figures;
  figures.planned_bytes = results.planned_bytes;
  figures.resident_bytes = results.resident_bytes;
  figures.guarded = results.guarded;
  figures.foreign_calls = results.foreign_calls;
  figures.foreign_bytes = results.foreign_bytes;
  figures.products = run.settings.machine.products;
  return judge_contracts(figures, {static_cast<std::int64_t>(run.list.pictures.size()), results.found, results.pictures,
                                   static_cast<std::int64_t>(run.files->missing().size()), results.timed_pictures});
}

int finish(RecordedDrawRun& run, const SealedDrawRun& sealed, const DrawResults& results,
           const std::vector<NamedText>& from, RunStatus* status, bool json) {
  const std::string& folder = run.settings.run.output_dir.resolved;
  run.files->put_in_order();
  const std::string text = draw_results_json(run, results);
  write_output_file(folder + kResultsFile, text);
  write_output_file(folder + "/README.md", draw_card(run));
  if (run.settings.report.html)
    write_output_file(folder + "/report.html", draw_html(draw_page_of(run, results, sealed.tape(run.recorded.noise))));
  write_run_marker(run.settings, {true, 0, 0}, {}, {}, record_json(make_record(run, results)), from);
  status->end("finished");
  const std::string table = contract_table(contracts_of(run, results));
  std::fputs((json ? text : draw_summary(run, results) + "\n" + table).c_str(), stdout);
  say("run: finished; see " + run.settings.run.output_dir.shown() + (run.settings.report.html ? "/report.html" : ""));
  return 0;
}

// The first rank's signal, which all end with.
int agreed(Group& group, int signal) {
  const double own = signal;
  std::vector<double> all(static_cast<std::size_t>(group.size()));
  if (!group.exchange({&own, 1}, Span<double>(all))) throw PeerFailed{};
  return static_cast<int>(all[0]);
}

int draw_and_finish(RecordedDrawRun& run, SealedDrawRun& sealed, Group& group, const std::vector<NamedText>& from,
                    DrawResults results, RunStatus* status, bool json) {
  DrawLoop loop(run, sealed, group, group.is_first() ? status : nullptr, stop_signal());
  int signal = 0;
  seal_memory();
  const Status ended = loop.run(&results, &signal);
  if (!ended.ok()) {
    open_memory();
    if (ended.code == StatusCode::kRankFailed) throw PeerFailed{};
    throw drawing_error(ended, run);
  }
  measure(run, sealed, group, &results);
  group.set_phase(RankPhase::kFinishing);
  signal = agreed(group, signal);
  if (!group.is_first()) return signal == 0 ? 0 : 128 + signal;
  if (signal == 0) return finish(run, sealed, results, from, status, json);
  status->end("stopped");
  const std::string text = "run: stopped; " + std::to_string(run.files->done().size()) + " of " +
                           std::to_string(run.list.pictures.size()) +
                           " pictures are there; run the same command again to draw the others";
  say(text);
  if (json) std::fputs(document_of_stop(signal, text).c_str(), stdout);
  return 128 + signal;
}

int draw_recorded(RecordedDrawRun& run, Group& group, bool json) {
  const Isa isa = choose_isa(run.settings);
  if (group.is_first()) say_run(run);
  DrawResults results;
  results.found = static_cast<std::int64_t>(run.files->done().size());
  if (group.is_first())
    results.limits = limits_for_report(run, static_cast<std::int64_t>(run.files->missing().size()), isa);
  group.set_phase(RankPhase::kSealing);
  SealedDrawRun sealed(run, isa, &say, &group);
  if (group.is_first())
    say("seal: " + isa_text(isa, run.settings) + ", " +
        (group.size() > 1 ? std::to_string(group.size()) + " ranks of " : std::string()) +
        count_of(run.threads, "thread"));
  RunStatus status;
  std::vector<NamedText> from;
  agree_on(group, [&] {
    if (!group.is_first()) return;
    from = drawn_from(run, sealed);
    begin_folder(&run, from, &status);
  });
  try {
    return draw_and_finish(run, sealed, group, from, results, &status, json);
  } catch (...) {
    if (group.is_first()) status.end("failed");
    throw;
  }
}

// One process of a run: the only one, or one of several ranks.
int run_rank(const Settings& settings, const RankPlace& place, bool json) {
  Group group(place, {settings.distributed.timeout_seconds});
  return in_group(group, json, [&] {
    group.take_cores();
    std::optional<FolderLock> lock;
    agree_on(group, [&] {
      if (!group.is_first()) return;
      check_draw_folder(settings);
      lock.emplace(settings.run, settings.origin, place.launcher.empty() ? FolderUser::kProcess : FolderUser::kRank);
    });
    std::unique_ptr<RecordedDrawRun> run;
    bool done = false;
    agree_on(group, [&] {
      run = open_run(settings, place);
      done = group.is_first() && is_done(*run, json);
      if (!done) check_drawing_fits(*run, read_process_limits());
    });
    if (any_of(group, done)) return 0;
    catch_stop_signals(false);
    return draw_recorded(*run, group, json);
  });
}

}  // namespace

int run_drawing(const Settings& settings, const RankPlace& place, const std::string& settings_file, bool json) {
  if (place.nodes > 1)
    throw Error(ErrorKind::kSettings, "the launcher's environment", "the ranks of a run that draws are on one machine",
                "start a run on each machine, with a part of the prompts");
  (void)choose_isa(settings);  // on any machine but the right one, before anything is read
  if (!is_launcher(settings, place)) return run_rank(settings, place, json);
  return launch_run(
      settings, settings_file, json,
      [&] {
        if (!is_done(*open_run(settings, planned_place(settings.distributed, settings.origin)), json)) return false;
        clear_finished(settings);
        return true;
      },
      "finished pictures are complete; the same command draws the rest");
}

}  // namespace bascule
