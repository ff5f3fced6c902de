// SPDX-License-Identifier: Apache-2.0
// The names of what a run writes into output_dir, by which a pattern of data that would match one of them is refused.
// tests/faults/test_several_files.py compares them with the folder of a run.
#pragma once

namespace bascule {

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

// In folders of output_dir; those of a model in output_dir too, and the files that src/files/model_file_names.h has.
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

}  // namespace bascule
