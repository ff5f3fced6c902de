// SPDX-License-Identifier: Apache-2.0
// MPI between the nodes of a run: the only place that starts and ends it, and only where there are several nodes.
// Waiting never holds a core for long: a request is asked for, and between two looks the thread sleeps, beats the heart
// of its rank, and sees when the run has failed.
//
//   Nodes nodes(place, page, has_own_core);   // by all ranks together, before the seal
//   MPI_Comm lane = nodes.lane();             // one rank of every node; rank in it = node
//   if (!nodes.barrier()) ...                 // by the leaders, the first ranks of the nodes
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/base/span.h"
#include "src/distributed/control.h"

namespace bascule {

struct RankPlace;

class Nodes : NonCopyable {
 public:
  // By all ranks of the run together. has_own_core: some looks are worth while before it sleeps. Throws Error:
  // kSettings where the ranks are not spread evenly and in order over the nodes, kRank where MPI does not start.
  Nodes(const RankPlace& place, ControlPage& page, bool has_own_core);
  ~Nodes();

  int node() const noexcept { return node_; }
  int count() const noexcept { return count_; }
  // The ranks with this local rank, one of every node: the rank in it is the node. It may be used by several threads.
  MPI_Comm lane() const noexcept { return lane_; }

  // The rest is for after the seal too. False: the run has failed, or is about to. A request waited for is done or,
  // when the run has failed, abandoned.
  [[nodiscard]] bool wait(MPI_Request* request) const noexcept;

  // Called by all leaders together, and by nobody else. Copies node 0's data to all.
  [[nodiscard]] bool tell_all(void* data, std::size_t bytes) const noexcept;
  // all: `bytes` of every node, by node, of which this one has filled its own.
  [[nodiscard]] bool gather_in_place(void* all, std::size_t bytes) const noexcept;
  [[nodiscard]] bool barrier() const noexcept;
  // Every byte was written on at most one node and is zero on the others: whole on node 0.
  [[nodiscard]] bool combine(Span<std::byte> memory) const noexcept;
  // This node wrote [begin, end) of the memory, the nodes' parts lie one after another from its first byte: whole on
  // all.
  [[nodiscard]] bool gather_parts(Span<std::byte> memory, std::size_t begin, std::size_t end) noexcept;

  // By the leaders of this node and of another, one each.
  [[nodiscard]] bool send(const void* data, std::size_t bytes, int node) const noexcept;
  [[nodiscard]] bool receive(void* data, std::size_t bytes, int node) const noexcept;
  // By all ranks of a lane together, of all lanes at once if need be. Every number was written on at most one node and
  // is zero on the others: whole on all.
  [[nodiscard]] bool merge(Span<double> numbers) const noexcept;

  // By all ranks together, at the end: MPI ends. Where it does not within so many seconds the process ends itself.
  void finish(unsigned seconds) noexcept;

 private:
  bool succeed(int mpi_code) const noexcept;

  ControlPage& page_;
  const int local_rank_, node_, count_, looks_;
  MPI_Comm lane_ = MPI_COMM_NULL, leaders_ = MPI_COMM_NULL;
  std::vector<std::int64_t> ends_;     // of parts, by node
  std::vector<int> counts_, offsets_;  // the same for MPI
};

}  // namespace bascule
