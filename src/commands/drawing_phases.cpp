// SPDX-License-Identifier: Apache-2.0
// The kind of run that draws. The includes by phase, with the function that begins each:
//   folder    run_folder/run_folder.h (check_draw_folder), run_folder/run_marker.h
//   record    record/recorded_draw_run.h (record_draw_run)
//   seal      seal/sealed_draw_run.h (SealedDrawRun)
//   replay    replay/draw_loop.h (DrawLoop::run), commands/report_error.h (stop_signal)
//   finish    finish/draw_results.h (write_drawing), finish/run_record.h
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "src/answer/report.h"
#include "src/base/error.h"
#include "src/base/systemd.h"
#include "src/commands/report_error.h"
#include "src/commands/run_phases.h"
#include "src/finish/draw_results.h"
#include "src/finish/run_record.h"
#include "src/json/json.h"
#include "src/run_folder/run_folder.h"
#include "src/run_folder/run_marker.h"
#include "src/seal/sealed_draw_run.h"

namespace bascule {
namespace {

constexpr char kResultsFile[] = "/all_results.json";

class DrawingPhases final : public RunPhases {
 public:
  using RunPhases::RunPhases;

  bool is_done(bool records) override {
    if (records) check_draw_folder(settings_);
    if (records) return false;
    record_as(planned_place(settings_.distributed, settings_.origin));
    const bool is_done = is_finished();
    run_.reset();  // the launcher keeps none while the ranks draw
    if (is_done) clear_finished(settings_.run, settings_.origin);
    return is_done;
  }

  bool record(Group& group, StartTimes*) override {
    bool done = false;
    agree_on(group, [&] {
      record_as(place_);
      done = group.is_first() && is_finished();
      if (!done) check_fits(*run_, limits_of_plan(settings_.machine, read_process_limits()));
    });
    return any_of(group, done);
  }

  void introduce() override {
    const std::size_t pictures = run_->list.pictures.size();
    for (const std::string& note : run_->notes) say(note);
    constexpr std::size_t kSaid = 10;
    const std::vector<std::string> again = run_->files->drawn_again();
    for (std::size_t i = 0; i < std::min(again.size(), kSaid); ++i) say("run: " + again[i] + "; it is drawn again");
    if (again.size() > kSaid)
      say("run: and " + std::to_string(again.size() - kSaid) + " more pictures are drawn again");
    say("plan: " + std::string(readable_bytes(run_->plan.peak_bytes()).c_str()) + " in total, " +
        count_of(pictures, "picture") + " of " + std::to_string(run_->options.width) + " x " +
        std::to_string(run_->options.height));
    results_.limits = limits_for_report(*run_, static_cast<std::int64_t>(run_->files->missing().size()), isa_);
  }

  void seal(Group& group, StartTimes*) override { sealed_.emplace(*run_, isa_, &say, &group); }

  // What is drawn anew is removed before the folder says that it is of these settings.
  std::string open_files(Group& group, StartTimes*) override {
    agree_on(group, [&] {
      if (!group.is_first()) return;
      const std::string& folder = settings_.run.output_dir.resolved;
      from_ = sealed_->drawn_from();
      if (!run_->files->done().empty()) sealed_->check_drawn_from(read_run_marker(folder).drawn_from, from_);
      if (settings_.draw.resume == ResumeDrawing::kNever) {
        std::vector<std::string> names;
        const std::size_t pictures = run_->list.pictures.size();
        for (std::size_t n = 0; n < pictures; ++n) names.emplace_back(PictureName(n, pictures).text());
        remove_pictures(folder, names);
      }
      write_run_marker(settings_, {}, {}, {}, Json(), from_);
      status_.open(folder, settings_.report.status_seconds, NotifySocket::from_environment());
      run_->files->open();
    });
    results_.found = static_cast<std::int64_t>(run_->files->done().size());
    loop_.emplace(*run_, sealed_->drawer(), sealed_->queue(), group, group.is_first() ? &status_ : nullptr,
                  stop_signal());
    return "";
  }

  Status replay() noexcept override { return loop_->run(); }

  void check(const Status& status) override {
    if (status.ok() || status.code == StatusCode::kStopped) return;
    if (status.code == StatusCode::kRankFailed) throw PeerFailed{};
    throw drawing_error(status, *run_);
  }

  void finish(Group& group, SealedFigures figures) override {
    if (!add_figures(loop_->times(), std::move(figures), group, &results_)) throw PeerFailed{};
    if (!group.is_first()) return;
    run_->files->put_in_order();
    write_drawing(*run_, results_, sealed_->tape(run_->recorded.noise));
    write_run_marker(settings_, {true, 0, 0}, {}, {}, record_json(make_record(*run_, results_)), from_);
    status_.end("finished");
    const std::string table = contract_table(contracts_of(*run_, results_));
    std::fputs((json_ ? draw_results_json(*run_, results_) : draw_summary(*run_, results_) + "\n" + table).c_str(),
               stdout);
  }

  std::string stopped(int) override {
    return "run: stopped; " + std::to_string(run_->files->done().size()) + " of " +
           std::to_string(run_->list.pictures.size()) +
           " pictures are there; run the same command again to draw the others";
  }

  RunStatus& status() override { return status_; }
  const char* go_on() const override { return "finished pictures are complete; the same command draws the rest"; }

 private:
  // With the pictures that are there.
  void record_as(const RankPlace& place) {
    check_draw_folder(settings_);
    run_ = record_draw_run(settings_, place);
    check_picture_places(settings_, run_->list.pictures.size());
    if (settings_.draw.resume == ResumeDrawing::kAuto) run_->files->read_done();
  }

  // Whether nothing is left to do; says so then.
  bool is_finished() {
    const std::string& folder = settings_.run.output_dir.resolved;
    if (!run_->files->missing().empty() || !read_run_marker(folder).finished) return false;
    if (!std::filesystem::exists(folder + kResultsFile)) return false;  // written again from images.jsonl
    say_ready();
    say("run: already finished; see " + settings_.run.output_dir.shown());
    if (json_) std::puts(json_text(read_json_file(folder + kResultsFile), 4).c_str());
    return true;
  }

  std::unique_ptr<RecordedDrawRun> run_;
  std::optional<SealedDrawRun> sealed_;
  std::vector<NamedText> from_;  // as SealedDrawRun::drawn_from() says
  RunStatus status_;
  std::optional<DrawLoop> loop_;
  DrawResults results_;
};

}  // namespace

std::unique_ptr<RunPhases> drawing_phases(const Settings& settings, const RankPlace& place, Isa isa, bool json) {
  if (place.nodes > 1)
    throw Error(ErrorKind::kSettings, "the launcher's environment", "the ranks of a run that draws are on one machine",
                "start a run on each machine, with a part of the prompts");
  return std::make_unique<DrawingPhases>(settings, place, isa, json);
}

}  // namespace bascule
