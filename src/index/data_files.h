// SPDX-License-Identifier: Apache-2.0
// The files of a split, and the names of a run's files that are none.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/settings/settings.h"

namespace bascule {

// The names of what a run writes into output_dir, by which a pattern of data that would match one of them is refused.
// tests/faults/test_several_files.py compares them with the folder of a run.

// Their numbers stand for any number.
inline constexpr const char* kRunFolders[] = {"checkpoint-1", "checkpoint-10", "checkpoint-100",
                                              "ema",          "last_state",    "runs"};

// In output_dir alone.
inline constexpr const char* kResultFiles[] = {"README.md",
                                               "all_results.json",
                                               "bascule.json",
                                               "bascule.prom",
                                               "embeddings.safetensors",
                                               "generated_predictions.txt",
                                               "log.jsonl",
                                               "mlperf_log.txt",
                                               "pictures.xxh3",
                                               "predictions.jsonl",
                                               "report.html",
                                               "search.html",
                                               "status.json",
                                               "tensor_hashes.bin",
                                               "test_results.json",
                                               "trace.json",
                                               "train_results.json",
                                               "trainer_state.json",
                                               "validation_results.json"};

// In folders of output_dir; those of a model in output_dir too, and the files that src/files/input_file.h has.
inline constexpr const char* kModelAndStateFiles[] = {"averaged_evaluation_records.bin",
                                                      "bascule_state.json",
                                                      "config.json",
                                                      "evaluation_records.bin",
                                                      "events.out.tfevents.1700000000.host.1.0",
                                                      "model-00001-of-00002.safetensors",
                                                      "model.safetensors",
                                                      "model.safetensors.index.json",
                                                      "picture_digests.bin",
                                                      "step_records.bin",
                                                      "training_state.safetensors"};

// The files that a split is read from: what paths, patterns of shards ("shard-{000..127}.tar") and globs
// ("part-*.jsonl") stand for, in the order written. Before the seal.
//
// - A path that exists stands for itself, whatever signs are in it.
// - All files are manifests, or all are shards. None comes twice.
// - Pictures lie relative to the manifest that names them. Where manifests lie in several folders, paths of pictures
//   are written relative to the folder that all of those are in, so that one picture has one path.

// The names of files that list the pictures of their folder, as Hugging Face has them. The last one is not read.
inline constexpr const char* kMetadataFiles[] = {"metadata.jsonl", "metadata.csv", "metadata.parquet"};

struct DataFile {
  std::string path;
  bool is_folder = false;        // path is such a file of a folder that was named
  bool is_class_folder = false;  // path is a folder without one: its folders are classes
  std::string prefix;            // from DataFiles::folder to its pictures' folder: empty, or with a slash at the end
};

struct DataFiles {
  std::string name;  // for people: the one manifest, or what was written
  std::vector<DataFile> manifests;
  std::vector<std::string> shards;   // in place of manifests
  std::vector<std::string> written;  // each of them as the setting has it, patterns resolved
  std::string folder;                // where paths of pictures start; of no use in shards
};

// Throws Error: kSettings for a pattern of the wrong form, a file that is named twice, or shards beside manifests;
// kData for a glob without a match. Whether a file that is named exists is its reader's matter.
DataFiles find_data_files(const PathsSetting& paths);

// The first of the paths that has `folder` among its data, as written: a folder that it lies in, or a glob that matches
// such a folder or could match files in it, or a folder of classes with a link to such a folder. Empty: none has.
// `folder` need not exist.
std::string path_with_folder(const PathsSetting& paths, const std::string& folder);

// A picture's path behind a prefix: "b/" and "../images/x.jpg" give "images/x.jpg". Into *joined, unless the path stays
// as it is. Exact, as no folder of a prefix is a link.
std::string_view behind_prefix(const std::string& prefix, std::string_view path, std::string* joined);

}  // namespace bascule
