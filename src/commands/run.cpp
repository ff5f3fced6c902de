// SPDX-License-Identifier: Apache-2.0
#include "src/commands/run.h"

#include <csignal>
#include <cstdio>
#include <cstring>

#include "src/base/error.h"
#include "src/checkpoint/durable_write.h"
#include "src/commands/choose_isa.h"
#include "src/commands/run_marker.h"
#include "src/commands/stop_signal.h"
#include "src/report/readable.h"
#include "src/report/summary.h"
#include "src/runtime/guard.h"
#include "src/train/finish.h"
#include "src/train/retrieval_examples.h"
#include "src/train/sealed_run.h"

namespace bascule {
namespace {

void say(const std::string& line) { std::fprintf(stderr, "bascule: %s\n", line.c_str()); }

const char* isa_word(IsaSetting isa) {
  switch (isa) {
    case IsaSetting::kAuto: return "auto";
    case IsaSetting::kAvx2: return "avx2";
    case IsaSetting::kAvx512: return "avx512";
    case IsaSetting::kAvx512Bf16: return "avx512";  // float32 kernels are the same on both
  }
  return "auto";
}

// The folder is made ours, or refused. True if the run in it is finished already.
bool claim_output_dir(const Settings& settings) {
  const std::string& folder = settings.training.output_dir.resolved;
  const std::string where = where_written(settings, "training.output_dir");
  if (classify_output_dir(folder) == OutputDir::kOther) {
    throw Error(ErrorKind::kSettings, where, settings.training.output_dir.written + " holds something else", "name an empty folder, or one of an earlier run");
  }
  const RunMarker marker = read_run_marker(folder);
  if (marker.finished && settings.training.resume == Resume::kAuto) {
    if (marker.settings_digest != settings_digest(settings)) {
      throw Error(ErrorKind::kSettings, where, settings.training.output_dir.written + " holds a finished run with other settings", "name another folder, or set training.resume = \"never\"");
    }
    say("run: finished already after " + std::to_string(marker.global_step) + " updates; see " + settings.training.output_dir.written);
    return true;
  }
  make_folders(folder);
  return false;
}

[[noreturn]] void throw_status(const Status& status, SealedRun& sealed, Split split) {
  const RecordedSplit* recorded = sealed.run().find(split);
  switch (status.code) {
    case StatusCode::kDiskFailed:
      throw Error(ErrorKind::kDisk, sealed.writer() != nullptr ? sealed.writer()->failed_path() : "output_dir",
                  std::string("cannot be written: ") + std::strerror(static_cast<int>(status.detail[0])), "older checkpoints are whole; make room and run the same command again");
    case StatusCode::kNotFinite:
      throw Error(ErrorKind::kData, "update " + std::to_string(status.detail[0]), "loss or gradient is not finite", "try a lower training.learning_rate, or go back to an older checkpoint");
    default:
      throw Error(ErrorKind::kData, "", recorded != nullptr ? describe(status, *recorded->manifest) : "the loader failed");
  }
}

int stopped(int signal, const TrainingLoop& loop) {
  say(std::string("run: stopped by ") + (signal == SIGINT ? "SIGINT" : "SIGTERM") + " after update " + std::to_string(loop.position().global_step) +
      ", which is saved; run the same command again to go on");
  return 128 + signal;
}

SealedFigures measure_sealed() {
  SealedFigures figures;
  figures.resident_bytes = resident_bytes();
  figures.guarded = guard_is_active();
  ForeignAllocations foreign[64];
  const std::size_t count = foreign_allocations(foreign, 64);
  open_memory();
  for (std::size_t i = 0; i < count; ++i) {
    figures.foreign_allocations.push_back({foreign[i].library, std::to_string(foreign[i].calls) + " calls, " + readable_bytes(foreign[i].bytes).c_str()});
  }
  return figures;
}

// Replay: training and evaluations. Returns the split that failed through `split`.
Status replay(SealedRun& sealed, Split* split) {
  seal_memory();
  *split = Split::kTrain;
  if (sealed.run().train_graph) BASCULE_TRY(sealed.loop().run());
  *split = Split::kValidation;
  return sealed.loop().evaluate(*split);
}

int finish(SealedRun& sealed, const SealedFigures& figures) {
  const RecordedRun& run = sealed.run();
  const Settings& settings = run.settings;
  Split shown = Split::kValidation;
  if (run.find(Split::kTest) != nullptr) {
    shown = Split::kTest;
    const Status status = sealed.loop().evaluate(shown);
    if (status.code == StatusCode::kStopped) return stopped(static_cast<int>(status.detail[0]), sealed.loop());
    if (!status.ok()) throw_status(status, sealed, shown);
  }
  Report report = make_report(sealed, figures);
  const RecordedSplit* split = run.find(shown);
  if (split != nullptr && run.head == ModelHead::kContrastive) {
    write_embeddings(sealed, shown);
    add_retrieval_examples(&report, *sealed.evaluation(), *split->manifest, run.evaluation_shape.width);
  }
  write_run_folder(sealed, report);
  write_run_marker(settings, true, report.global_step, report.provenance);
  std::printf("%s", summary_text(report).c_str());
  say("run: finished; see " + settings.training.output_dir.written + (settings.report.html ? "/report.html" : ""));
  return 0;
}

}  // namespace

int run_command(const std::string& settings_file) {
  const Settings settings = read_settings(settings_file);
  refuse_unsupported(settings);
  if (claim_output_dir(settings)) return 0;
  const Isa isa = choose_isa(isa_word(settings.machine.isa));
  const std::unique_ptr<RecordedRun> run = record_run(settings);
  check_fits(*run, memory_limit(settings));
  say("plan: " + std::string(readable_bytes(run->plan.peak_bytes()).c_str()) + " in all, " + std::to_string(run->session.parameters().size()) + " parameters, " +
      std::to_string(run->length.total_updates) + " updates");
  catch_stop_signals();
  write_run_marker(settings, false, 0, provenance_of(*run, isa));
  SealedRun sealed(*run, isa, stop_signal(), &say);
  say("seal: " + std::string(isa_name(isa)) + ", " + std::to_string(run->threads) + " threads; nothing is allocated from here on");
  Split split = Split::kTrain;
  const Status status = replay(sealed, &split);
  const SealedFigures figures = measure_sealed();
  if (status.code == StatusCode::kStopped) return stopped(static_cast<int>(status.detail[0]), sealed.loop());
  if (!status.ok()) throw_status(status, sealed, split);
  return finish(sealed, figures);
}

}  // namespace bascule
