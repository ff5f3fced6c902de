// SPDX-License-Identifier: Apache-2.0
#include "src/draw_run/draw_run.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/notify_socket.h"
#include "src/draw_run/draw_folder.h"
#include "src/draw_run/draw_results.h"
#include "src/draw_run/sealed_draw_run.h"
#include "src/files/durable_write.h"
#include "src/json/json.h"
#include "src/records/progress.h"
#include "src/records/readable.h"
#include "src/records/run_status.h"
#include "src/run_folder/run_folder.h"
#include "src/run_folder/run_marker.h"
#include "src/runtime/choose_isa.h"
#include "src/runtime/guard.h"

namespace bascule {
namespace {

constexpr char kResultsFile[] = "/all_results.json";

void say(const std::string& line) { std::fprintf(stderr, "bascule: %s\n", line.c_str()); }

// One batch after another, until all are there or a signal comes.
class DrawLoop final : public DrawingWatch {
 public:
  DrawLoop(RecordedDrawRun& run, SealedDrawRun& sealed, RunStatus* status, const volatile int* stop)
      : run_(run), sealed_(sealed), files_(*run.files), stop_(stop), missing_(run.files->missing()) {
    if (status != nullptr) progress_.tell_also(status);
  }

  // Sealed. signal: 0, or the one that came.
  Status run(DrawResults* results, int* signal) noexcept {
    progress_.begin("draw", static_cast<std::int64_t>(files_.done().size()),
                    static_cast<std::int64_t>(run_.list.pictures.size()), monotonic_seconds());
    const std::size_t batch = static_cast<std::size_t>(run_.options.batch);
    std::int64_t batches = 0;
    const double began = monotonic_seconds();
    Status status = ok_status();
    *signal = *stop_;
    for (std::size_t first = 0; first < missing_.size() && *signal == 0 && status.ok(); first += batch, ++batches) {
      const double since = monotonic_seconds();
      under_way_ = std::min(batch, missing_.size() - first);
      status = draw(first, results, signal);
      if (*signal == 0 && status.ok() && batches >= run_.settings.draw.throughput_warmup_batches) {
        results->timed_pictures += static_cast<std::int64_t>(under_way_);
        results->timed_seconds += monotonic_seconds() - since;
      }
      if (*signal == 0 && first + batch < missing_.size()) *signal = *stop_;
    }
    results->seconds = monotonic_seconds() - began;
    results->replays = replays_;
    progress_.end(monotonic_seconds());
    return status;
  }

  int called(std::int64_t call, std::int64_t calls) noexcept override {
    ++replays_;
    show(static_cast<std::int64_t>(under_way_), call, calls);
    return *stop_;
  }

 private:
  Status draw(std::size_t first, DrawResults* results, int* signal) noexcept {
    double since = monotonic_seconds();
    BASCULE_TRY(sealed_.draw({missing_.data() + first, under_way_}, this, signal));
    const double each = (monotonic_seconds() - since) / static_cast<double>(under_way_);
    for (std::size_t i = 0; i < under_way_ && *signal == 0; ++i) {
      const std::size_t number = static_cast<std::size_t>(missing_[first + i]);
      since = monotonic_seconds();
      const std::uint8_t* const pixels = sealed_.decode(static_cast<std::int64_t>(i));
      if (pixels == nullptr) return {StatusCode::kNotFinite, {missing_[first + i], 0}};
      const double decoded = monotonic_seconds();
      BASCULE_TRY(
          files_.add(number, pixels, each + decoded - since, sealed_.latent_digests(static_cast<std::int64_t>(i))));
      results->writing_seconds += monotonic_seconds() - decoded;
      ++results->pictures;
      show(0, 0, 0);
    }
    return ok_status();
  }

  void show(std::int64_t under_way, std::int64_t call, std::int64_t calls) noexcept {
    ProgressStep step;
    step.done = static_cast<std::int64_t>(files_.done().size());
    step.epoch = -1.0;
    step.loss = std::numeric_limits<double>::quiet_NaN();
    step.pictures_of_next = under_way;
    step.call = call;
    step.calls = calls;
    progress_.step(step, monotonic_seconds());
  }

  RecordedDrawRun& run_;
  SealedDrawRun& sealed_;
  PictureFiles& files_;
  const volatile int* stop_;
  const std::vector<std::int64_t> missing_;
  std::size_t under_way_ = 0;
  std::int64_t replays_ = 0;
  Progress progress_ = Progress::on_stderr();
};

void say_run(const RecordedDrawRun& run) {
  const std::size_t pictures = run.list.pictures.size();
  for (const std::string& note : run.notes) say(note);
  say("plan: " + std::string(readable_bytes(run.plan.peak_bytes()).c_str()) + " in total, " + std::to_string(pictures) +
      (pictures == 1 ? " picture of " : " pictures of ") + std::to_string(run.options.width) + " x " +
      std::to_string(run.options.height));
}

// Once everything is there that the run needs. What is drawn anew is removed before the folder says that it is of these
// settings.
void begin_folder(const RecordedDrawRun& run) {
  const std::string& folder = run.settings.run.output_dir.resolved;
  if (run.settings.draw.resume == ResumeDrawing::kNever) {
    std::vector<std::string> names;
    const std::size_t pictures = run.list.pictures.size();
    for (std::size_t n = 0; n < pictures; ++n) names.emplace_back(PictureName(n, pictures).text());
    remove_pictures(folder, names);
  }
  write_run_marker(run.settings, {}, {}, {});
  remove_leftovers(folder);
}

[[noreturn]] void throw_status(const Status& status, const RecordedDrawRun& run) {
  const std::string folder = run.settings.run.output_dir.shown();
  switch (status.code) {
    case StatusCode::kNotFinite:
      throw Error(
          ErrorKind::kData, PictureName(static_cast<std::size_t>(status.detail[0]), run.list.pictures.size()).text(),
          "its numbers are not finite", "the weights of the model may be damaged, or draw.guidance_scale too large");
    case StatusCode::kReadFailed:
      throw Error(ErrorKind::kData, run.settings.draw.latents_file.shown(),
                  status.detail[0] < 0 ? "cannot be read any more"
                                       : "\"latents\" of picture " + std::to_string(status.detail[0]) +
                                             " have numbers that are not finite");
    default:
      throw Error(ErrorKind::kDisk, folder,
                  std::string("cannot be written: ") + std::strerror(static_cast<int>(status.detail[0])),
                  std::string(advice_for_disk(static_cast<int>(status.detail[0]))) +
                      "; pictures that are there are whole, and the same command draws the others");
  }
}

void measure(const RecordedDrawRun& run, const SealedDrawRun& sealed, DrawResults* results) {
  results->stages = sealed.seconds();
  results->planned_bytes = run.plan.peak_bytes();
  results->resident_bytes = resident_bytes();
  results->guarded = guard_is_active();
  ForeignAllocations foreign[64];
  const std::size_t count = foreign_allocations(foreign, std::size(foreign));
  for (std::size_t i = 0; i < count; ++i) {
    results->foreign_calls += foreign[i].calls;
    results->foreign_bytes += foreign[i].bytes;
  }
}

int finish(const RecordedDrawRun& run, const SealedDrawRun& sealed, const DrawResults& results, RunStatus* status,
           bool json) {
  const std::string& folder = run.settings.run.output_dir.resolved;
  const std::string text = draw_results_json(run, results);
  write_output_file(folder + kResultsFile, text);
  if (run.settings.report.html)
    write_output_file(folder + "/report.html", draw_html(draw_page_of(run, results, sealed.tape(run.recorded.noise))));
  write_run_marker(run.settings, {true, 0, 0}, {}, {});
  status->end("finished");
  std::fputs((json ? text : draw_summary(run, results)).c_str(), stdout);
  say("run: finished; see " + run.settings.run.output_dir.shown() + (run.settings.report.html ? "/report.html" : ""));
  return 0;
}

}  // namespace

int run_drawing(const Settings& settings, bool json, const volatile int* stop) {
  check_draw_folder(settings);
  const FolderLock lock(settings.run, settings.origin, FolderUser::kProcess);
  if (lock.has_waited()) check_draw_folder(settings);
  const std::unique_ptr<RecordedDrawRun> run = record_draw_run(settings);
  PictureFiles& files = *run->files;
  if (settings.draw.resume == ResumeDrawing::kAuto) files.read_done();
  DrawResults results;
  results.found = static_cast<std::int64_t>(files.done().size());
  const std::string& folder = settings.run.output_dir.resolved;
  if (files.missing().empty() && read_run_marker(folder).finished) {
    say("run: already finished; see " + settings.run.output_dir.shown());
    if (json) std::puts(json_text(read_json_file(folder + kResultsFile), 4).c_str());
    return 0;
  }
  check_drawing_fits(*run, read_process_limits());
  say_run(*run);
  const Isa isa = choose_isa(isa_word(settings.machine.isa));
  SealedDrawRun sealed(*run, isa, &say);
  say("seal: " + std::string(isa_name(isa)) + ", " + std::to_string(run->threads) + " threads");
  begin_folder(*run);
  RunStatus status;
  status.open(folder, settings.report.status_seconds, NotifySocket::from_environment());
  files.open();
  DrawLoop loop(*run, sealed, &status, stop);
  int signal = 0;
  seal_memory();
  const Status ended = loop.run(&results, &signal);
  measure(*run, sealed, &results);
  open_memory();
  if (!ended.ok()) throw_status(ended, *run);
  if (signal != 0) {
    status.end("stopped");
    say("run: stopped; " + std::to_string(files.done().size()) + " of " + std::to_string(run->list.pictures.size()) +
        " pictures are there; run the same command again to draw the others");
    return 128 + signal;
  }
  return finish(*run, sealed, results, &status, json);
}

}  // namespace bascule
