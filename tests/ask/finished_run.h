// SPDX-License-Identifier: Apache-2.0
// The folder that a run of the demo's model leaves, made from fresh weights in a moment: to search in.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/table.h"
#include "src/models/families.h"
#include "src/models/towers.h"
#include "src/runtime/threads.h"
#include "src/session/packed_batch.h"
#include "src/session/session.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test {

constexpr int kThreads = 2;
constexpr std::int64_t kRows = 24;  // of the finished run

// A session of its own memory, which seal() makes; parameters are zero then.
struct SealedSession {
  Session session;
  Threads threads{kThreads, false};

  void seal() { session.seal_alone(kernels_for(best_isa()), kThreads); }
};

// Embeddings as the whole model (cross-modal layers, loss and all) computes them, all rows in one batch.
class FinishedRun {
 public:
  FinishedRun();

  static std::string demo();  // folder of the data set
  const std::string& path() const { return folder_.path(); }
  const BridgeTowerConfig& config() const { return config_; }
  const Model& model() const { return *model_; }
  const std::vector<std::string>& paths() const { return paths_; }
  const std::vector<std::string>& captions() const { return captions_; }
  std::vector<float> text_embed(std::size_t row) const { return row_of(text_embeds_, row); }
  std::vector<float> image_embed(std::size_t row) const { return row_of(image_embeds_, row); }

  // The metadata of embeddings.safetensors; and such a file with other contents, in another folder.
  std::map<std::string, std::string> metadata() const;
  void write_embeddings(const std::string& folder, const std::map<std::string, std::string>& metadata,
                        std::int64_t columns) const;
  // All files but those named, into a folder that exists.
  void copy_to(const std::string& folder, const std::vector<std::string>& without) const;

 private:
  std::vector<float> row_of(const std::vector<float>& embeds, std::size_t row) const;
  void read_rows();
  PaddedBatch batch() const;
  void run_model();

  TemporaryFolder folder_;
  BridgeTowerConfig config_;
  std::unique_ptr<Model> model_;
  std::vector<std::string> paths_, captions_;
  std::vector<float> text_embeds_, image_embeds_;
};

}  // namespace bascule::test
