// SPDX-License-Identifier: Apache-2.0
// The kinds of a run: one that trains or evaluates, and one that draws. run.cpp walks both through the same phases:
// folder, record, seal, replay, finish. Here is what a kind does in each of them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/isa.h"
#include "src/base/status.h"
#include "src/distributed/group.h"
#include "src/finish/contracts.h"
#include "src/logs/progress.h"
#include "src/seal/start_times.h"
#include "src/settings/settings.h"

namespace bascule {

// One start of a run, in one process: the only one, or one of several ranks. (The launcher of ranks calls is_done()
// alone.) Functions stand in the order of the calls; all but replay() may throw Error.
class RunPhases {
 public:
  RunPhases(const Settings& settings, const RankPlace& place, Isa isa, bool json)
      : settings_(settings), place_(place), isa_(isa), json_(json) {}
  virtual ~RunPhases() = default;

  // Folder. Whether the run in it is finished; if so, prints its results. Throws where the folder is another run's.
  // records: record() is called next and may find out itself that the run is finished.
  virtual bool is_done(bool records) = 0;
  // Record, by all ranks together. True: the run turned out to be finished. False: it fits this machine.
  virtual bool record(Group& group, StartTimes* times) = 0;
  // By the first rank, to which the folder belongs now: prepares it, and tells people what the run will do.
  virtual void introduce() = 0;
  // Seal, by all ranks together. seal() reads all files and changes none, so that a fault in one leaves the folder as
  // it was; open_files() opens the run's own. It returns a line for people, how to watch the run, or "".
  virtual void seal(Group& group, StartTimes* times) = 0;
  virtual std::string open_files(Group& group, StartTimes* times) = 0;
  // Replay. Returns kStopped in all ranks if a signal stopped the run.
  virtual Status replay() noexcept = 0;
  // After replay. Throws the Error of a status that is neither ok nor kStopped.
  virtual void check(const Status& status) = 0;
  // Finish, by all ranks together: the first one writes the results, and prints them.
  virtual void finish(Group& group, SealedFigures figures) = 0;
  // In place of finish(), by the first rank: a line for people that says what the signal ended.
  virtual std::string stopped(int signal) = 0;

  virtual RunStatus& status() = 0;
  // Advice for people where a rank has failed.
  virtual const char* go_on() const = 0;

 protected:
  const Settings& settings_;
  const RankPlace place_;
  const Isa isa_;
  const bool json_;
};

// With several ranks, the Group must outlive the phases.
std::unique_ptr<RunPhases> training_phases(const Settings& settings, const RankPlace& place, Isa isa, bool json);
std::unique_ptr<RunPhases> drawing_phases(const Settings& settings, const RankPlace& place, Isa isa, bool json);

// The launcher: the process of `bascule run` that starts the ranks of a run and waits for them.

// Whether this process is the launcher, not a rank. place: from the environment. Throws Error kSettings where ranks
// were started that the settings do not ask for, or where sealed settings ask for more cores than there are.
bool is_launcher(const Settings& settings, const RankPlace& place);

// file_and_keys: the settings file, if any, and the keys of the command line, for the ranks. is_done: says whether
// the run is finished, and prints its results then; throws Error where the folder cannot be this run's. go_on: what to
// do where a rank has failed. Returns the run's exit code.
int launch_run(const Settings& settings, const std::vector<std::string>& file_and_keys, bool json,
               const std::function<bool()>& is_done, const std::string& go_on);

}  // namespace bascule
