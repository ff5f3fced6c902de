// SPDX-License-Identifier: Apache-2.0
// The record of a finished run, its list of picture digests, and what differs from it. Not sealed; throws Error.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/answer/report.h"
#include "src/finish/draw_results.h"
#include "src/json/value.h"
#include "src/machine/machine.h"
#include "src/record/recorded_run.h"
#include "src/seal/sealed_run.h"
#include "src/settings/settings.h"

namespace bascule {

// pictures.xxh3 of a finished run: the digest of every picture that the run has read, as it was first read. A line for
// each: digest, split, and the picture's place as a JSON string. Not sealed; throws Error.

inline constexpr char kPictureListFile[] = "pictures.xxh3";

struct ReadPicture {
  std::string split, place;
  std::uint64_t digest = 0;
};

// How many pictures the run has, and how many it has read here or on this machine's other ranks.
struct PictureCount {
  std::int64_t listed = 0, pictures = 0;
};

PictureCount write_picture_list(const std::string& folder, const RunData& data, Loader& loader);
std::vector<ReadPicture> read_picture_list(const std::string& folder);
// A picture's place as the list has it: with replacement characters where its name is not UTF-8.
std::string listed_name(const std::string& location);

// The record of a finished run, member `record` of its bascule.json: what `bascule reproduce` needs to say whether the
// same program, files and settings are there again, and whether they gave the same result. Numbers of the result are
// written as their bits. Not sealed; throws Error.

inline constexpr std::int64_t kRecordFormat = 1;

struct SummedFile {
  std::string path;    // absolute; of a result, its name in the run's folder
  std::string sha256;  // empty: it could not be read
};

// A logged interval of updates: the bits of loss and gradient norm as 16 hexadecimal digits each.
struct LoggedBits {
  std::int64_t step = 0;
  std::string loss, norm;
};
struct EvaluatedBits {
  std::string split;
  std::int64_t step = 0;
  std::string loss;
};

// Samples or pictures a second: of the whole run, and of a training run's slowest and fastest logged interval after the
// warm-up.
struct RecordedPace {
  double whole = 0.0, least = 0.0, most = 0.0;
};

struct RunRecord {
  std::string settings;                    // canonical TOML, with absolute paths
  std::string model_folder;                // among these
  SummedFile settings_file;                // path empty: the settings are part of the program
  std::vector<std::string> settings_keys;  // of the command line, in place of the file's
  Machine machine;                         // its lasting facts alone
  SummedFile program;
  // model_files: of a run that draws also its prompts and latents. results: weights, texts that the model wrote,
  // pictures and their list.
  std::vector<SummedFile> libraries, model_files, results;
  std::vector<NamedText> data;      // split -> digest of its rows and of the sizes of its pictures
  std::string picture_list_sha256;  // empty: no pictures
  std::int64_t pictures_listed = 0, pictures = 0;
  std::vector<LoggedBits> steps;
  std::vector<EvaluatedBits> evaluations;
  // Where `bascule stop` ended training: the update, and the updates of the schedule; else 0.
  std::int64_t ended_at = 0, schedule_steps = 0;
  double train_loss = 0.0;
  RecordedPace pace;
};

// The program of this process, and this machine's lasting facts.
SummedFile running_program();
// The shared libraries that are loaded now, as the loader found them, sorted.
std::vector<std::string> loaded_libraries();
Machine lasting_facts();
// The settings that repeat the run: where it was ended early they say so, and keep its schedule.
Settings repeating_settings(Settings settings, const RunRecord& record);

// An interval with an update of the warm-up is in neither bound; both are 0 where there is no other.
RecordedPace pace_of(const Report& report, std::int64_t warmup_steps);

// After the run's folder was written, in which it puts the list of pictures.
RunRecord make_record(SealedRun& sealed, const Report& report);
// The same of a run that draws, once images.jsonl is in order. Throws Error kData for a picture that was changed since.
RunRecord make_record(const RecordedDrawRun& run, const DrawResults& results);

Json record_json(const RunRecord& record);
// where: the file, for messages. Throws Error{kData} where it is damaged or of another format.
RunRecord read_record(const Json& json, const std::string& where);

// Finds what differs from a record: program, libraries, settings, model, rows, pictures, results. Compares without
// running anything.

// How a run of now compares with the recorded one.
enum class Promise {
  kNothing,  // it has another input
  kFigures,  // it computes the same, not always to the same bits
  kBits,
};

struct Difference {
  std::string what;  // "library /usr/lib/libm.so.6: its content differs"
  Promise promise = Promise::kNothing;
};

struct RecordedFolder {
  std::string folder;
  Settings settings;  // of the recorded run, with absolute paths
  Settings written;   // the same as they were written, paths not resolved
  RunRecord record;
  bool draws() const { return settings.draw.is_given; }
  std::vector<std::string> changes;     // of settings while it ran: "after update 8: training.max_steps from 8 to 13"
  Promise of_changes = Promise::kBits;  // in spite of them: a repetition has the last settings from its first update on
};

// path: a finished run's folder, or its bascule.json. Throws Error{kData} where there is no record of a finished run.
RecordedFolder open_record(const std::string& path);

// By rank 0, before a finished run is evaluated again. Throws Error kData where its weights, or their average, are not
// those of its record, or a checkpoint that they come from does not have its checksums. Files that are missing, and
// records of before there were any, are left to others.
void check_finished_weights(const std::string& output_dir, const FinishedWeights& finished);

// In the order above.
std::vector<Difference> check_record(const RecordedFolder& recorded);

// Throws Error kData where the list of a run's pictures is not the recorded one any more, so that none can be compared
// with it.
void check_picture_log(const RecordedFolder& recorded);

}  // namespace bascule
