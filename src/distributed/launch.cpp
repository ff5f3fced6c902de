// SPDX-License-Identifier: Apache-2.0
#include "src/distributed/launch.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <system_error>
#include <utility>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/systemd.h"
#include "src/distributed/control.h"
#include "src/distributed/sockets.h"
#include "src/distributed/watch.h"

namespace bascule {
namespace {

constexpr int kLookMs = 100;
constexpr int kFailedExit = 5;
constexpr std::int64_t kLastWordsMs = 500;
constexpr std::int64_t kEndMs = 5000;  // that mpirun is given when a rank has failed; it needs one or two seconds
// Variables that a rank on another machine would not find in its environment.
constexpr const char* kOfThisMachine[] = {"LD_LIBRARY_PATH", "XDG_CACHE_HOME"};
constexpr char kOfARank[] = "bascule: ";  // so begins all that it says

std::vector<std::string> mpirun_line(const LaunchSettings& settings, const std::string& run,
                                     const std::string& launcher) {
  std::vector<std::string> line = {"mpirun", "-np", std::to_string(settings.ranks)};
  const auto add = [&](std::initializer_list<const char*> words) {
    line.insert(line.end(), words.begin(), words.end());
  };
  if (geteuid() == 0) add({"--allow-run-as-root"});
  // The ranks deal the cores themselves, and share memory themselves: nothing of MPI's in /dev/shm.
  add({"--oversubscribe", "--bind-to", "none", "--mca", "btl", "self,tcp"});
  add({"--mca", "orte_tmpdir_base", settings.session_folder.c_str()});
  // On one machine nothing is started from afar: mpirun need not find ssh.
  if (settings.hostfile.empty()) add({"--mca", "plm", "isolated"});
  if (!settings.hostfile.empty()) {
    const std::string mapping = "ppr:" + std::to_string(settings.ranks / settings.machines) + ":node:OVERSUBSCRIBE";
    add({"--hostfile", settings.hostfile.c_str(), "--map-by", mapping.c_str()});
    for (const char* name : kOfThisMachine) {
      if (std::getenv(name) != nullptr) add({"-x", name});
    }
  }
  add({"-x", ("BASCULE_RUN=" + run).c_str(), "-x", ("BASCULE_LAUNCHER=" + launcher).c_str()});
  line.insert(line.end(), settings.command.begin(), settings.command.end());
  return line;
}

// mpirun as a child whose standard output and standard error are the other ends of two pipes. Where it outlives this
// process it still writes its folder: it shares the lock, so that the next start waits.
pid_t start(std::vector<std::string> line, int output_end, int error_end, int folder_lock) {
  std::vector<char*> words;
  words.reserve(line.size() + 1);
  for (std::string& word : line) words.push_back(word.data());
  words.push_back(nullptr);
  // Blocked until the child has no handler of ours: that would note a signal, and nobody would look.
  sigset_t stops, before;
  sigemptyset(&stops);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&stops, signal);
  pthread_sigmask(SIG_BLOCK, &stops, &before);
  const pid_t parent = getpid(), child = fork();
  if (child != 0) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return child;
  }
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(kFailedExit);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) std::signal(signal, SIG_DFL);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  dup2(output_end, STDOUT_FILENO);
  dup2(error_end, STDERR_FILENO);
  if (folder_lock >= 0) fcntl(folder_lock, F_SETFD, 0);
  execvp(words[0], words.data());
  std::fprintf(stderr, "%sbascule: mpirun cannot be started: %s; install openmpi-bin\n", kErrorMark,
               std::strerror(errno));
  _exit(kFailedExit);  // which is what judge_start takes as said
}

// With fewer, mpirun waits silently for ranks that it could not start.
void check_open_files() {
  constexpr rlim_t kFewest = 64;
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= kFewest) return;
  throw Error(ErrorKind::kRank, "ulimit -n",
              "only " + std::to_string(files.rlim_cur) + " files may be open at once, too few for mpirun and its ranks",
              "allow " + std::to_string(kFewest) + " or more");
}

// Passes on what the ranks say, and keeps what mpirun says itself, which stands between lines of dashes.
class ErrorStream {
 public:
  void take(const char* text, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) {
      line_ += text[i];
      if (text[i] == '\n') end_line();
    }
  }
  void end() {
    if (!line_.empty()) end_line();
    if (!has_rank_spoken_ && !missed_.empty()) pass_on(missed_);
  }
  const std::string& mpirun_words() const { return mpirun_words_; }
  // A failure as reported by a rank of another machine, "machine1: rank 0 ...".
  const std::string& hearsay() const { return hearsay_; }
  bool has_passed_on() const { return has_passed_on_; }
  bool has_rank_spoken() const { return has_rank_spoken_; }

 private:
  void end_line() {
    const std::string line = std::exchange(line_, "");
    const bool is_dashes = line.size() > 40 && line.find_first_not_of("-\n") == std::string::npos;
    if (is_dashes) {
      is_mpirun_ = !is_mpirun_;
    } else if (line.compare(0, sizeof kSeenFrom - 1, kSeenFrom) == 0) {
      hearsay_ = line.substr(sizeof kSeenFrom - 1, line.size() - sizeof kSeenFrom);
    } else if (is_mpirun_ || (line[0] == '[' && line.find("] ") != std::string::npos)) {
      mpirun_words_ += line;  // also "[host:pid] 1 more process has sent help message ..."
    } else if (line.find(kMissesFirstRank) != std::string::npos) {
      missed_ = line;
    } else {
      pass_on(line);
    }
  }

  // A rank writes to a pipe: whether that ends in the journal only its launcher knows.
  void pass_on(const std::string& line) {
    const bool is_marked = line.compare(0, sizeof kErrorMark - 1, kErrorMark) == 0;
    const std::size_t begin = is_marked ? sizeof kErrorMark - 1 : 0;
    has_passed_on_ = true;
    has_rank_spoken_ = has_rank_spoken_ || line.compare(begin, sizeof kOfARank - 1, kOfARank) == 0;
    std::fprintf(stderr, "%s%s", is_marked ? journal_error_mark() : "", line.c_str() + begin);
  }

  // missed_: of a rank that did not find the first one of its machine. That one has usually said more; a rank that was
  // stopped meanwhile finds itself alone when mpirun wakes it to end it.
  std::string line_, mpirun_words_, hearsay_, missed_;
  bool is_mpirun_ = false, has_passed_on_ = false, has_rank_spoken_ = false;
};

class Launched {
 public:
  Launched(const LaunchSettings& settings, std::string* output) : settings_(settings), kept_output_(output) {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    const std::string run = fresh_name();
    listening_ = listen_at("bascule-launch-" + run);
    const Descriptor output_end = pipe_to(&output_), error_end = pipe_to(&errors_);
    process_ = start(mpirun_line(settings, run, "bascule-launch-" + run), output_end.number(), error_end.number(),
                     settings.folder_lock);
    if (process_ < 0)
      throw Error(ErrorKind::kRank, "mpirun", std::string("cannot be started: ") + std::strerror(errno));
  }

  int see_through() {
    while ((output_.is_open() || errors_.is_open()) && *settings_.end_at_once == 0) look();
    if (*settings_.end_at_once != 0) return end_at_once();
    int status = 0;
    while (waitpid(process_, &status, 0) < 0 && errno == EINTR) continue;
    wait_for_orphans();
    stream_.end();
    return judge(status);
  }

 private:
  // Returns the end to write to.
  static Descriptor pipe_to(Descriptor* reader) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw Error(ErrorKind::kRank, "mpirun", std::strerror(errno));
    *reader = Descriptor(ends[0]);
    return Descriptor(ends[1]);
  }

  // Ranks of this machine die with mpirun (group.cpp); those of others when they miss this one.
  int end_at_once() {
    kill(-process_, SIGKILL);
    while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) continue;
    wait_for_orphans();
    return 128 + *settings_.stop;
  }

  // A process that outlives mpirun becomes a child of this one. Ranks die by themselves: see PR_SET_PDEATHSIG in
  // group.cpp. All others, such as the program that started an unreachable machine, are ended.
  static void wait_for_orphans() {
    const std::int64_t soon_ms = monotonic_ms() + kEndMs, end_ms = soon_ms + kEndMs;
    const timespec pause{0, 5'000'000};
    for (pid_t ended = 0; ended >= 0 && monotonic_ms() < end_ms;) {
      ended = waitpid(-1, nullptr, WNOHANG);
      if (ended == 0 && monotonic_ms() > soon_ms) kill_children();
      if (ended == 0) nanosleep(&pause, nullptr);
    }
  }

  static void kill_children() {
    std::ifstream children("/proc/thread-self/children");
    for (pid_t child = 0; children >> child;) kill(child, SIGKILL);
  }

  void look() {
    pollfd polled[] = {{errors_.number(), POLLIN, 0}, {output_.number(), POLLIN, 0}, {listening_.number(), POLLIN, 0}};
    if (poll(polled, 3, kLookMs) > 0) {
      if (polled[0].revents != 0) read_errors();
      if (polled[1].revents != 0) pass_output_on();
      if (polled[2].revents != 0) take_page();
    }
    pass_stop_on();
    if (memory_.data() != nullptr && page()->has_failed()) end_mpirun_soon();
  }

  // It ends by itself when the ranks do; unless a machine is out of reach, for which it waits very long.
  void end_mpirun_soon() {
    const std::int64_t now_ms = monotonic_ms();
    if (failed_ms_ == 0) failed_ms_ = now_ms;
    if (now_ms - failed_ms_ > kEndMs) kill(-process_, SIGKILL);
    if (now_ms - failed_ms_ <= kEndMs + kLastWordsMs) return;
    errors_.reset();  // what started a deaf machine may hold both open
    output_.reset();
  }

  void read_errors() {
    char text[4096];
    const ssize_t count = read(errors_.number(), text, sizeof text);
    if (count > 0) stream_.take(text, static_cast<std::size_t>(count));
    if (count == 0) errors_.reset();
  }

  // mpirun would lose what cannot be written (a full disk, a reader that went away) and say nothing: it is written
  // here, where main() notices, as with a run of one process.
  void pass_output_on() {
    char text[4096];
    const ssize_t count = read(output_.number(), text, sizeof text);
    if (count > 0 && kept_output_ != nullptr) kept_output_->append(text, static_cast<std::size_t>(count));
    if (count > 0 && kept_output_ == nullptr) std::fwrite(text, 1, static_cast<std::size_t>(count), stdout);
    if (count == 0) output_.reset();
  }

  void take_page() {
    const Descriptor leader = accept_from(listening_.number(), kLookMs);
    if (!leader.is_open()) return;
    Descriptor page = receive_descriptor(leader.number(), 1000);
    if (!page.is_open()) return;
    memory_ = SharedMemory(std::move(page));
    listening_.reset();
  }

  void pass_stop_on() {
    const int signal = *settings_.stop;
    if (signal == 0 || is_stopping_) return;
    is_stopping_ = true;
    if (memory_.data() != nullptr) {
      page()->stop_signal.store(signal);
    } else {
      kill(process_, SIGTERM);  // nothing has begun that could be saved
    }
  }

  ControlPage* page() const { return static_cast<ControlPage*>(static_cast<void*>(memory_.data())); }

  bool all_are_done() const {
    for (int rank = 0; rank < page()->local_size; ++rank) {
      if (static_cast<RankPhase>(page()->slots[rank].phase.load()) != RankPhase::kDone) return false;
    }
    return true;
  }

  // How the run ended, judged by the page of the ranks and the exit status of mpirun.
  int judge(int status) {
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (memory_.data() == nullptr) return judge_start(code);
    const FailureRecord& failure = page()->failure;
    const SignalledRank signalled = read_signalled_rank(stream_.mpirun_words());
    if (all_are_done()) {
      // A rank or a part of mpirun that was killed while it exited had nothing left to do.
      const int signal = page()->stop_signal.load();
      return code == 0 || signal == 0 ? 0 : 128 + signal;
    }
    // The ranks that waited report those that did not connect; the rest are only ended.
    if (failure.state.load() == 0 && page()->has_met.load() == 0 && stream_.has_rank_spoken())
      return code > 1 && code <= kFailedExit + 1 ? code : kFailedExit;
    if (failure.state.load() == 2 && failure.kind == FailureKind::kGaveUp) return failure.exit_code;
    if (failure.state.load() == 2) {
      const bool is_known = failure.kind == FailureKind::kEnded && signalled.rank == failure.rank;
      tell(failure, is_known ? signalled.how.c_str() : nullptr);
    } else if (WIFSIGNALED(status)) {
      tell_of(0, "lost its launcher (mpirun was killed by signal " + std::to_string(WTERMSIG(status)) + ")");
    } else if (signalled.rank < 0 && !stream_.hearsay().empty()) {
      fail("reported by " + stream_.hearsay());
    } else {
      tell_of(signalled.rank >= 0 ? signalled.rank : 0, signalled.how);
    }
  }

  int judge_start(int code) {
    if (is_stopping_) return 128 + *settings_.stop;
    if (!stream_.hearsay().empty()) fail("reported by " + stream_.hearsay());
    if (code == 0 || (stream_.has_passed_on() && code < kFailedExit + 2)) return code;
    std::string words = stream_.mpirun_words();
    for (char& c : words) c = c == '\n' ? ' ' : c;
    fail("starting " + std::to_string(settings_.ranks) + " ranks: mpirun ended with exit code " + std::to_string(code) +
         (words.empty() ? "" : ": " + words));
  }

  [[noreturn]] static void fail(const std::string& problem, const std::string& what_to_do = "") {
    throw Error(ErrorKind::kRank, "", problem, what_to_do);
  }

  // No rank lived to say which was the first.
  [[noreturn]] void tell_of(int rank, const std::string& how) {
    if (rank >= page()->local_size) fail("rank " + std::to_string(rank) + " " + how, settings_.go_on);
    record_failure(*page(), FailureKind::kEnded, rank, kFailedExit);
    if (const std::uint32_t state = page()->failure.state.load(); state % 2 == 1)
      complete_failure(*page(), state, rank);
    tell(page()->failure, how.empty() ? nullptr : how.c_str());
  }
  [[noreturn]] void tell(const FailureRecord& failure, const char* how) {
    fail(failure_text(failure, how).text, settings_.go_on);
  }

  const LaunchSettings& settings_;
  std::string* const kept_output_;
  Descriptor listening_, output_, errors_;
  SharedMemory memory_;
  ErrorStream stream_;
  pid_t process_ = -1;
  bool is_stopping_ = false;
  std::int64_t failed_ms_ = 0;  // when the page first had a failure
};

// mpirun's own folder, for as long as it lives.
class SessionFolder : NonCopyable {
 public:
  explicit SessionFolder(const std::string& path) : path_(path) {
    if (mkdir(path.c_str(), 0700) != 0)
      throw Error(ErrorKind::kDisk, path, std::string("cannot be created: ") + std::strerror(errno));
  }
  ~SessionFolder() {
    std::error_code ignored;  // what cannot be removed now is tried again at the next start
    std::filesystem::remove_all(path_, ignored);
  }

 private:
  const std::string& path_;
};

}  // namespace

SignalledRank read_signalled_rank(const std::string& text) {
  SignalledRank found;
  const std::size_t rank = text.find("process rank "), signal = text.find("exited on signal ");
  if (rank == std::string::npos || signal == std::string::npos) return found;
  found.rank = std::atoi(text.c_str() + rank + std::strlen("process rank "));
  const std::size_t begin = signal + std::strlen("exited on "), end = text.find_first_of(".\n", begin);
  found.how = "was killed by " + text.substr(begin, end == std::string::npos ? end : end - begin);
  return found;
}

int machines_in(const std::string& hostfile, const std::string& where) {
  std::ifstream file(hostfile);
  if (!file) throw Error(ErrorKind::kSettings, where, hostfile + " cannot be read: " + std::strerror(errno));
  std::set<std::string> machines;
  for (std::string line; std::getline(file, line);) {
    std::string name;
    if (std::istringstream(line.substr(0, line.find('#'))) >> name) machines.insert(name);
  }
  if (machines.empty()) throw Error(ErrorKind::kSettings, where, hostfile + " lists no machine");
  return static_cast<int>(machines.size());
}

int launch_ranks(const LaunchSettings& settings, std::string* output) {
  check_open_files();
  const SessionFolder folder(settings.session_folder);
  return Launched(settings, output).see_through();
}

}  // namespace bascule
