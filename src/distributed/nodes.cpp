// SPDX-License-Identifier: Apache-2.0
#include "src/distributed/nodes.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <string>

#include "src/base/check.h"
#include "src/base/elementary.h"
#include "src/base/error.h"
#include "src/distributed/group.h"

namespace bascule {
namespace {

constexpr long kLookNs = 50'000;
constexpr int kMostLooks = 100;  // some 100 us, 1 us each: the other end may be waiting for this very core
// Bytes per MPI call: small enough that MPI holds little memory, and a heart beats between two calls.
constexpr std::size_t kChunk = std::size_t{1} << 20;

void sleep_a_little() noexcept {
  const timespec pause{0, kLookNs};
  nanosleep(&pause, nullptr);
}

void require(int mpi_code) {
  if (mpi_code == MPI_SUCCESS) return;
  char words[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(mpi_code, words, &length);
  throw Error(ErrorKind::kRank, "MPI", std::string("cannot connect the machines: ") + words);
}

// Every node has equally many ranks, numbered one after another.
void check_spread(const RankPlace& place) {
  int mine[] = {place.local_size, place.local_rank, place.world_size}, size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  std::vector<int> all(3 * static_cast<std::size_t>(size));
  require(MPI_Allgather(mine, 3, MPI_INT, all.data(), 3, MPI_INT, MPI_COMM_WORLD));
  bool is_even = size == place.world_size;
  for (int rank = 0; rank < size; ++rank) {
    const int* const of_rank = all.data() + 3 * static_cast<std::size_t>(rank);
    is_even = is_even && of_rank[0] == place.local_size && of_rank[1] == rank % place.local_size;
  }
  if (!is_even) refuse_uneven_nodes();
}

}  // namespace

void refuse_uneven_nodes() {
  throw Error(ErrorKind::kSettings, "the ranks of this run",
              "are not spread evenly over the machines in consecutive order",
              "give every machine in the hostfile the same number of slots, world_size in total");
}

std::string mpi_version() {
  char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  if (MPI_Get_library_version(version, &length) != MPI_SUCCESS) return "";
  const std::string text(version, static_cast<std::size_t>(length));
  return text.substr(0, text.find(','));  // without the place where it was built
}

Nodes::Nodes(const RankPlace& place, ControlPage& page, bool has_own_core)
    : page_(page),
      local_rank_(place.local_rank),
      node_(place.node),
      count_(place.nodes),
      looks_(has_own_core ? kMostLooks : 0),
      ends_(static_cast<std::size_t>(place.nodes)),
      counts_(static_cast<std::size_t>(place.nodes)),
      offsets_(static_cast<std::size_t>(place.nodes)) {
  // Ranks of a node share memory of their own: nothing of MPI's in /dev/shm, unless somebody asked for it.
  setenv("OMPI_MCA_btl", "self,tcp", 0);
  int provided = MPI_THREAD_SINGLE;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS ||
      provided < MPI_THREAD_MULTIPLE)
    throw Error(ErrorKind::kRank, "MPI", "does not start with thread support");
  use_default_float_environment();
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  check_spread(place);
  require(MPI_Comm_split(MPI_COMM_WORLD, local_rank_, node_, &lane_));
  if (local_rank_ == 0) require(MPI_Comm_dup(lane_, &leaders_));
}

// Without finish() the run has failed: the process ends, and MPI with it.
Nodes::~Nodes() = default;

bool Nodes::succeed(int mpi_code) const noexcept {
  // The other end is gone: whoever watches over it says so soon.
  while (mpi_code != MPI_SUCCESS && !page_.has_failed()) sleep_a_little();
  return mpi_code == MPI_SUCCESS;
}

bool Nodes::wait(MPI_Request* request) const noexcept {
  Heartbeat& heart = page_.slots[local_rank_].heart;
  for (int looks = 0;; ++looks) {
    int done = 0;
    if (!succeed(MPI_Test(request, &done, MPI_STATUS_IGNORE))) return false;
    if (done != 0) return true;
    if (looks < looks_) continue;
    if (page_.has_failed()) return false;
    heart.beat();
    sleep_a_little();
  }
}

bool Nodes::tell_all(void* data, std::size_t bytes) const noexcept {
  MPI_Request request = MPI_REQUEST_NULL;
  return succeed(MPI_Ibcast(data, static_cast<int>(bytes), MPI_BYTE, 0, leaders_, &request)) && wait(&request);
}

bool Nodes::gather_in_place(void* all, std::size_t bytes) const noexcept {
  MPI_Request request = MPI_REQUEST_NULL;
  const int count = static_cast<int>(bytes);
  return succeed(MPI_Iallgather(MPI_IN_PLACE, 0, MPI_BYTE, all, count, MPI_BYTE, leaders_, &request)) && wait(&request);
}

bool Nodes::barrier() const noexcept {
  MPI_Request request = MPI_REQUEST_NULL;
  return succeed(MPI_Ibarrier(leaders_, &request)) && wait(&request);
}

bool Nodes::combine(Span<std::byte> memory) const noexcept {
  for (std::size_t begin = 0; begin < memory.size(); begin += kChunk) {
    std::byte* const at = memory.data() + begin;
    const int count = static_cast<int>(std::min(kChunk, memory.size() - begin));
    MPI_Request request = MPI_REQUEST_NULL;
    const int code = node_ == 0 ? MPI_Ireduce(MPI_IN_PLACE, at, count, MPI_BYTE, MPI_BOR, 0, leaders_, &request)
                                : MPI_Ireduce(at, nullptr, count, MPI_BYTE, MPI_BOR, 0, leaders_, &request);
    if (!succeed(code) || !wait(&request)) return false;
  }
  return true;
}

bool Nodes::send(const void* data, std::size_t bytes, int node) const noexcept {
  MPI_Request request = MPI_REQUEST_NULL;
  return succeed(MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, node, 0, leaders_, &request)) && wait(&request);
}

bool Nodes::receive(void* data, std::size_t bytes, int node) const noexcept {
  MPI_Request request = MPI_REQUEST_NULL;
  return succeed(MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, node, 0, leaders_, &request)) && wait(&request);
}

bool Nodes::merge(Span<double> numbers) const noexcept {
  static_assert(sizeof(double) == sizeof(std::uint64_t));
  MPI_Request request = MPI_REQUEST_NULL;
  return succeed(MPI_Iallreduce(MPI_IN_PLACE, numbers.data(), static_cast<int>(numbers.size()), MPI_UINT64_T, MPI_BOR,
                                lane_, &request)) &&
         wait(&request);
}

bool Nodes::gather_parts(Span<std::byte> memory, std::size_t begin, std::size_t end) noexcept {
  ends_[static_cast<std::size_t>(node_)] = static_cast<std::int64_t>(end);
  if (!gather_in_place(ends_.data(), sizeof ends_[0])) return false;
  for (std::size_t node = 0; node < ends_.size(); ++node) {
    const std::int64_t first = node == 0 ? 0 : ends_[node - 1];
    offsets_[node] = static_cast<int>(first);
    counts_[node] = static_cast<int>(ends_[node] - first);
  }
  const std::int64_t bytes = ends_.back();
  BASCULE_CHECK(bytes <= INT_MAX && bytes <= static_cast<std::int64_t>(memory.size()) &&
                offsets_[static_cast<std::size_t>(node_)] == static_cast<std::int64_t>(begin));
  MPI_Request request = MPI_REQUEST_NULL;
  return succeed(MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_BYTE, memory.data(), counts_.data(), offsets_.data(), MPI_BYTE,
                                 leaders_, &request)) &&
         wait(&request);
}

void Nodes::finish(unsigned seconds) noexcept {
  alarm(seconds);
  MPI_Finalize();
  alarm(0);
}

}  // namespace bascule
