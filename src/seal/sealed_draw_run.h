// SPDX-License-Identifier: Apache-2.0
// The seal of a run that draws: memory is mapped and touched, weights are read, tapes made. Everything that drawing
// needs exists when the constructor returns.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/isa.h"
#include "src/base/readable.h"
#include "src/distributed/group.h"
#include "src/replay/draw_loop.h"
#include "src/runtime/threads.h"
#include "src/session/sealed_memory.h"

namespace bascule {

class SealedDrawRun {
 public:
  // `say` is told one line of facts at a time. group: of the ranks that the run was recorded for, all together; null:
  // there is one. Throws Error: kMemory, kData for weights that are missing or not finite, kRank where another rank
  // failed. simulates: the threads are simulated (runtime/simulation.h).
  SealedDrawRun(RecordedDrawRun& run, Isa isa, void (*say)(const std::string& line), Group* group = nullptr,
                bool simulates = false);
  SealedDrawRun(const SealedDrawRun&) = delete;
  SealedDrawRun& operator=(const SealedDrawRun&) = delete;

  BatchDrawer& drawer() { return drawer_; }
  // The queue of several ranks.
  DrawnQueue queue() const;
  // The sources of pictures, told by their content: digests of the pipeline's configurations, of its tokenizer, of
  // every weight as it lies in memory, which the precision alone changes, and of draw.latents_file. bascule.json keeps
  // them, so that a run that goes on draws the missing pictures from what the others were drawn from. By the first
  // rank. Reads the latents' file.
  std::vector<NamedText> drawn_from() const;
  // then: drawn_from() of the pictures that are there; what it does not name is not compared. Throws Error kData that
  // names the setting whose files are others now.
  void check_drawn_from(const std::vector<NamedText>& then, const std::vector<NamedText>& now) const;

  const Tape& tape(std::size_t graph) const { return run_.session.tape(graph); }
  Threads& threads() { return threads_; }

 private:
  void load(void (*say)(const std::string& line));
  void check_weights();

  RecordedDrawRun& run_;
  const std::unique_ptr<Group> alone_;  // where no group was given
  Group& group_;
  SealedMemory memory_;  // mapped while this thread may still run on all cores of the rank: memory_nodes.h
  Threads threads_;
  BatchDrawer drawer_;
  std::uint64_t weights_digest_ = 0;  // the first rank's
};

}  // namespace bascule
