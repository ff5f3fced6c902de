// SPDX-License-Identifier: Apache-2.0
// Starting the ranks of a run through Open MPI's mpirun, seeing them through, and telling how it ended. mpirun runs in
// a process group of its own, so that what the terminal sends reaches this process alone; it and the ranks die with it.
// Its files lie in a folder that is removed at the end, however that comes about.
#pragma once

#include <string>
#include <vector>

namespace bascule {

struct LaunchSettings {
  int ranks = 1;
  std::vector<std::string> command;  // of every rank
  std::string session_folder;        // mpirun's own: is not there yet, its parent is
  int folder_lock = -1;              // a descriptor that mpirun keeps open until it ends; -1: none
  std::string hostfile;              // "": this machine; else it is one of those there
  int machines = 1;                  // that the hostfile names; each is given equally many ranks
  std::string go_on;                 // what to do where a rank has failed
  // A signal's number when one has come: the ranks are then asked to save and leave.
  const volatile int* stop = nullptr;
  // Not 0: they are killed.
  const volatile int* end_at_once = nullptr;
};

// Returns the run's exit code. Passes on the stdout and stderr of the ranks, and of mpirun's own messages only
// those that explain why nothing was started. Throws Error kRank where mpirun cannot be started, and for a rank that
// failed without saying so itself. output: null, or where the stdout of the ranks is kept instead.
int launch_ranks(const LaunchSettings& settings, std::string* output = nullptr);

// How many machines a hostfile of mpirun names. Throws Error kSettings, about `where`, if it cannot be read or names
// none.
int machines_in(const std::string& hostfile, const std::string& where);

// mpirun's message about a process that a signal ended: "mpirun noticed that process rank 1 with PID 0 on node vm
// exited on signal 9 (Killed)."
struct SignalledRank {
  int rank = -1;    // -1: the text is about something else
  std::string how;  // "was killed by signal 9 (Killed)"
};
SignalledRank read_signalled_rank(const std::string& text);

}  // namespace bascule
