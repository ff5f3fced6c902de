// SPDX-License-Identifier: Apache-2.0
#include "src/distributed/group.h"

#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <utility>

#include "src/base/check.h"
#include "src/distributed/node_links.h"
#include "src/distributed/nodes.h"
#include "src/distributed/sockets.h"
#include "src/distributed/watch.h"

namespace bascule {
namespace {

constexpr int kLauncherMs = 1000;  // it listens before it starts any rank
constexpr int kLooksForParent = 60;
constexpr long kLookNs = 50'000'000;
constexpr int kLooksForLeaving = 2000;  // 2 s: the others have only to say that they leave
constexpr timespec kLeavePause{0, 1'000'000};
constexpr int kSpins = 20000;  // about 200 us, where every rank has a core to itself

int number_of(const char* name, int otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr || *text == '\0' ? otherwise : std::atoi(text);
}

std::string text_of(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? "" : text;
}

[[noreturn]] void refuse(const std::string& where, const std::string& what, const std::string& what_to_do) {
  throw Error(ErrorKind::kRank, where, what, what_to_do);
}

std::string meeting_point(const RankPlace& place) { return "bascule-" + place.run; }

// A rank that exits with a signal's code, because the run was stopped, makes mpirun end all others at once. One that
// has not said by then that it leaves would look as if it had been killed.
void wait_until_all_leave(const ControlPage& page) noexcept {
  for (int rank = 0, looks = 0; rank < page.local_size && looks < kLooksForLeaving;) {
    if (static_cast<RankPhase>(page.slots[rank].phase.load()) == RankPhase::kDone) {
      ++rank;
    } else {
      nanosleep(&kLeavePause, nullptr);
      ++looks;
    }
  }
}

}  // namespace

RankPlace place_from_environment() {
  RankPlace place;
  if (std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr) {
    place.world_size = number_of("OMPI_COMM_WORLD_SIZE", 1);
    place.rank = number_of("OMPI_COMM_WORLD_RANK", 0);
    place.local_size = number_of("OMPI_COMM_WORLD_LOCAL_SIZE", place.world_size);
    place.local_rank = number_of("OMPI_COMM_WORLD_LOCAL_RANK", place.rank);
    place.run = text_of("PMIX_NAMESPACE");
  } else if (std::getenv("SLURM_PROCID") != nullptr && std::getenv("SLURM_STEP_ID") != nullptr) {
    place.world_size = number_of("SLURM_STEP_NUM_TASKS", number_of("SLURM_NTASKS", 1));
    place.rank = number_of("SLURM_PROCID", 0);
    place.local_size = number_of("SLURM_STEP_NUM_NODES", 1) > 1
                           ? number_of("SLURM_STEP_TASKS_PER_NODE", place.world_size)
                           : place.world_size;
    place.local_rank = number_of("SLURM_LOCALID", place.rank);
    place.run = text_of("SLURM_JOB_ID") + "." + text_of("SLURM_STEP_ID");
    place.lacks_pmix = std::getenv("PMIX_RANK") == nullptr;
  }
  if (const std::string run = text_of("BASCULE_RUN"); !run.empty()) place.run = run;
  place.launcher = text_of("BASCULE_LAUNCHER");
  const bool sound = place.world_size >= 1 && place.rank >= 0 && place.rank < place.world_size &&
                     place.local_size >= 1 && place.local_size <= place.world_size && place.local_rank >= 0 &&
                     place.local_rank < place.local_size && (place.is_alone() || !place.run.empty());
  if (!sound)
    throw Error(ErrorKind::kSettings, "the launcher's environment", "does not define a valid rank of a run",
                "start the program with `bascule run FILE`, mpirun or srun");
  if (place.world_size % place.local_size != 0 || place.rank % place.local_size != place.local_rank)
    refuse_uneven_nodes();
  place.node = place.rank / place.local_size;
  place.nodes = place.world_size / place.local_size;
  return place;
}

Group::Group(const RankPlace& place, const GroupOptions& options)
    : place_(place), timeout_ms_(static_cast<int>(std::min<std::int64_t>(options.timeout_seconds, 86400) * 1000)) {
  if (place_.is_alone()) {
    page_ = SharedMemory(ControlPage::bytes(1));
    control().local_size = 1;
    control().first_rank = place_.rank;
    slot().pid.store(getpid());
    notify_ = NotifySocket::from_environment();
    // Before systemd gives up on it, so that a line tells why.
    const std::int64_t timeout_ms = std::min<std::int64_t>(timeout_ms_, notify_.watchdog_ms() * 3 / 4);
    if (timeout_ms == 0) return;
    watch_ = std::make_unique<Watch>(control(), 0, std::vector<Watch::Member>(), timeout_ms, options.on_failure);
    watch_->keep_alive(&notify_);
    return;
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // a rank does not outlive its launcher
  if (place_.local_rank == 0) {
    wait_for_members(options);
  } else {
    go_to_leader(options);
  }
  meet(options);
  if (place_.nodes > 1) meet_nodes();
  if (is_leader()) control().has_met.store(1);
  if (!is_first()) return;
  notify_ = NotifySocket::from_environment();
  watch_->keep_alive(&notify_);
}

Group::~Group() = default;

void Group::meet_nodes() {
  watch_->expect_nodes();
  nodes_ = std::make_unique<Nodes>(place_, control(), spins_ > 0);
  if (is_leader()) links_ = std::make_unique<NodeLinks>(control(), *nodes_, timeout_ms_);
  watch_->watch_nodes(links_.get());
}

ControlPage& Group::control() const noexcept { return *static_cast<ControlPage*>(static_cast<void*>(page_.data())); }

// The leader of a node makes the page and hands it to whoever comes and says which rank it is.
void Group::wait_for_members(const GroupOptions&) {
  page_ = SharedMemory(ControlPage::bytes(place_.local_size, place_.nodes > 1 ? place_.world_size : 0));
  control().local_size = place_.local_size;
  control().first_rank = place_.rank;
  control().has_launcher = place_.launcher.empty() ? 0 : 1;
  control().node = place_.node;
  control().nodes = place_.nodes;
  control().parent = getppid();
  control().awaited_rank.store(place_.nodes == 2 ? (1 - place_.node) * place_.local_size : -1);
  if (place_.nodes > 1) gethostname(control().host, sizeof control().host - 1);
  members_.resize(static_cast<std::size_t>(place_.local_size - 1));
  const Descriptor listening = listen_at(meeting_point(place_));
  if (!place_.launcher.empty() && place_.node == 0) {
    const Descriptor launcher = connect_to(place_.launcher, kLauncherMs);
    if (!launcher.is_open() || !send_descriptor(launcher.number(), page_.descriptor())) {
      // Stopped while the others ended, and continued by mpirun, which is about to end it, or by the system as an
      // orphan: all has been said already.
      for (int looks = 0; looks < kLooksForParent; ++looks) {
        if (getppid() == 1) std::_Exit(static_cast<int>(ErrorKind::kRank));
        const timespec pause{0, kLookNs};
        nanosleep(&pause, nullptr);
      }
      refuse("rank " + std::to_string(place_.rank), "the `bascule run` that started it is not on this machine",
             "start `bascule run` on a machine listed in distributed.hostfile");
    }
  }
  for (int come = 1; come < place_.local_size; ++come) {
    Descriptor member = accept_from(listening.number(), timeout_ms_);
    std::int32_t local_rank = -1;
    const bool sound = member.is_open() && read_number(member.number(), &local_rank, timeout_ms_) && local_rank > 0 &&
                       local_rank < place_.local_size && !members_[static_cast<std::size_t>(local_rank - 1)].is_open();
    if (!sound || !send_descriptor(member.number(), page_.descriptor())) {
      refuse("starting " + std::to_string(place_.world_size) + " ranks",
             std::to_string(place_.local_size - come) + " of this machine did not connect in time",
             "see their own messages, or raise distributed.timeout_seconds");
    }
    members_[static_cast<std::size_t>(local_rank - 1)] = std::move(member);
  }
}

void Group::go_to_leader(const GroupOptions&) {
  Descriptor leader = connect_to(meeting_point(place_), timeout_ms_);
  const std::int32_t local_rank = place_.local_rank;
  Descriptor page;
  if (leader.is_open() && write_number(leader.number(), local_rank))
    page = receive_descriptor(leader.number(), timeout_ms_);
  if (!page.is_open()) {
    refuse("rank " + std::to_string(place_.rank), kMissesFirstRank,
           "see its own message, or raise distributed.timeout_seconds");
  }
  page_ = SharedMemory(std::move(page));
  members_.push_back(std::move(leader));
}

void Group::meet(const GroupOptions& options) {
  slot().pid.store(getpid());
  cpu_set_t cores;
  const int usable = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
  spins_ = usable >= place_.local_size ? kSpins : 0;
  std::vector<Watch::Member> members;
  for (std::size_t i = 0; i < members_.size(); ++i)
    members.push_back({members_[i].number(), place_.local_rank == 0 ? static_cast<int>(i) + 1 : 0});
  watch_ = std::make_unique<Watch>(control(), place_.local_rank, std::move(members), timeout_ms_, options.on_failure);
}

// The watch waits as long as who comes here, and ends this process with a line that names the rank.
void Group::refuse_if_watch_does_not(const char* what) {
  constexpr timespec kPause{0, 5'000'000};
  for (int i = 0; i < 400; ++i) nanosleep(&kPause, nullptr);
  refuse("shared memory", what, "");
}

// The descriptors travel over the connections that the watch listens to: it sees them readable, so the hand-over
// happens over connections of its own.
SharedMemory Group::share(std::size_t bytes, HugePages pages) {
  if (place_.local_size == 1) return SharedMemory(bytes, pages);
  const std::string point = meeting_point(place_) + "-memory";
  SharedMemory memory;
  if (place_.local_rank == 0) {
    memory = SharedMemory(bytes, pages);
    const Descriptor listening = listen_at(point);
    for (int come = 1; come < place_.local_size; ++come) {
      const Descriptor member = accept_from(listening.number(), timeout_ms_);
      if (!member.is_open() || !send_descriptor(member.number(), memory.descriptor()))
        refuse_if_watch_does_not("a rank of this machine did not connect in time");
    }
  } else {
    const Descriptor leader = connect_to(point, timeout_ms_);
    Descriptor file;
    if (leader.is_open()) file = receive_descriptor(leader.number(), timeout_ms_);
    if (!file.is_open()) refuse_if_watch_does_not("the first rank of this machine did not share it");
    memory = SharedMemory(std::move(file), pages);
  }
  // Nobody asks for the next memory at the same place while others still wait for this one.
  if (!local_barrier()) refuse("shared memory", "another rank failed", "");
  return memory;
}

void Group::take_cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (place_.local_size == 1) return;
  sched_getaffinity(0, sizeof allowed, &allowed);
  // A launcher that has bound the ranks has dealt the cores already.
  std::uint64_t hash = 1469598103934665603u;
  for (int core = 0; core < CPU_SETSIZE; ++core) hash = (hash ^ (CPU_ISSET(core, &allowed) ? 1u : 0u)) * 1099511628211u;
  const double mine[] = {static_cast<double>(hash >> 12)};
  std::vector<double> all(static_cast<std::size_t>(place_.world_size));
  if (!exchange({mine, 1}, Span<double>(all))) return;
  const auto first = all.begin() + place_.node * place_.local_size;
  if (std::any_of(first, first + place_.local_size, [&](double one) { return one != mine[0]; })) return;
  const cpu_set_t part =
      part_of_processors(processors_by_neighbourhood(), allowed, place_.local_rank, place_.local_size);
  sched_setaffinity(0, sizeof part, &part);
}

void Group::count_progress(std::uint64_t (*progress)(void*), std::int64_t (*row)(void*), void* context) {
  if (watch_) watch_->count_progress(progress, row, context);
}

bool Group::local_barrier() noexcept { return bascule::barrier(control(), place_.local_rank, spins_); }

// The leaders exchange data between nodes between two barriers of the node: everything that its ranks wrote is there,
// and all see the data that came from other nodes.
template <typename Body>
bool Group::by_leaders(const Body& body) noexcept {
  if (!local_barrier()) return false;
  if (place_.nodes == 1) return true;
  if (is_leader() && !body()) return false;
  return local_barrier();
}

bool Group::barrier() noexcept {
  return by_leaders([&] { return nodes_->barrier(); });
}

// Two rows in turn: whoever writes the next exchange's has passed this one's barrier, but others may still read.
bool Group::exchange(Span<const double> mine, Span<double> all) noexcept {
  BASCULE_CHECK(mine.size() <= kExchanged && all.size() == mine.size() * static_cast<std::size_t>(place_.world_size));
  const std::uint32_t turn = exchanges_++ & 1u;
  const std::size_t of_node = mine.size() * static_cast<std::size_t>(place_.local_size);
  double* const table = control().numbers_of_all(turn, place_.world_size);
  double* const own = table + static_cast<std::size_t>(place_.node) * of_node;
  std::copy(mine.begin(), mine.end(), slot().numbers[turn]);
  const auto take_local = [&](double* to) {
    for (int rank = 0; rank < place_.local_size; ++rank, to += mine.size())
      std::copy_n(control().slots[rank].numbers[turn], mine.size(), to);
  };
  const bool passed = by_leaders([&] {
    take_local(own);
    return nodes_->gather_in_place(table, of_node * sizeof(double));
  });
  if (!passed) return false;
  if (place_.nodes == 1) {
    take_local(all.begin());
  } else {
    std::copy_n(table, all.size(), all.begin());
  }
  return true;
}

bool Group::combine(Span<std::byte> memory) noexcept {
  return by_leaders([&] { return nodes_->combine(memory); });
}

bool Group::gather_parts(Span<std::byte> memory, std::size_t begin, std::size_t end) noexcept {
  return by_leaders([&] { return nodes_->gather_parts(memory, begin, end); });
}

void Group::set_phase(RankPhase phase, std::int64_t step) noexcept {
  slot().step.store(step, std::memory_order_relaxed);
  set_phase(phase);
}

void Group::set_phase(RankPhase phase) noexcept {
  slot().phase.store(static_cast<std::uint32_t>(phase), std::memory_order_relaxed);
  slot().heart.beat();
}

bool Group::give_up(int exit_code, const std::string& line, const std::string& document) noexcept {
  if (!claim_failure(control())) return false;
  // Said before any other rank ends: mpirun, which sees that one ending, ends all others at once, this one too.
  (void)!write(STDERR_FILENO, line.data(), line.size());
  (void)!write(STDOUT_FILENO, document.data(), document.size());
  FailureFacts facts = facts_of(control(), place_.local_rank);
  facts.kind = FailureKind::kGaveUp;
  facts.exit_code = exit_code;
  publish_failure(control(), facts);
  if (links_) watch_->wait_until_told();
  return true;
}

bool Group::leave() noexcept {
  if (!barrier()) return false;
  set_phase(RankPhase::kDone);
  wait_until_all_leave(control());
  watch_.reset();
  if (links_) links_->end();
  if (nodes_) nodes_->finish(static_cast<unsigned>(timeout_ms_ / 1000));
  return true;
}

}  // namespace bascule
