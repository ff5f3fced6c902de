// SPDX-License-Identifier: Apache-2.0
// The watch between nodes: a TCP connection from the first rank of every node to that of node 0. Both ends say now and
// then that they are alive and what they are doing; a connection that breaks, or is silent for too long, is the failure
// of the other node's first rank. A failure recorded on one node is told to all.
//
//   NodeLinks links(page, nodes, timeout_ms);   // by the leaders together, before the seal
//   links.look(passed_ms);                      // by the watch's thread, now and then, after the seal
//   links.tell();                               // a failure is recorded: once
//   links.end();                                // all is done
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/base/span.h"
#include "src/distributed/control.h"
#include "src/distributed/shared_memory.h"

namespace bascule {

class Nodes;

class NodeLinks : NonCopyable {
 public:
  // Waits for the other nodes until the watch ends the process; see Watch::expect_nodes(). timeout_ms: of silence.
  // Throws Error kRank where this one cannot listen.
  NodeLinks(ControlPage& page, Nodes& nodes, std::int64_t timeout_ms);

  // After the seal. Says what is due, hears what has come, and records what has failed.
  void look(std::int64_t passed_ms) noexcept;
  // Returns when all have heard it, at the latest after a second.
  void tell() noexcept;
  // Nobody misses this node from now on.
  void end() noexcept;

 private:
  enum class Word : std::uint32_t { kAlive = 1, kFailed, kDone };
  struct Message {
    std::uint64_t magic;
    Word word;
    std::int32_t stop_signal;  // that a launcher was sent, as far as this node knows; else 0
    FailureFacts facts;        // of the failure; else what the node's first rank is doing
  };
  struct Link {
    Descriptor socket;
    FailureFacts last;  // what the first rank of the other node was doing
    bool is_done = false;
    std::int64_t silence_ms = 0;
    std::size_t come = 0;  // bytes of the message under way
    Message message;
  };
  void meet_others(Nodes& nodes);
  void find_first(Nodes& nodes);
  void add(Descriptor socket, int node);
  void say(Link* link, Word word, const FailureFacts& facts) noexcept;
  void hear(Link* link) noexcept;
  void take(Link* link) noexcept;
  void lose(Link* link) noexcept;

  ControlPage& page_;
  const std::int64_t timeout_ms_, interval_ms_;
  std::int64_t unsaid_ms_ = 0;
  std::vector<Link> links_;  // node 0: to 1, 2, ...; others: to node 0
};

}  // namespace bascule
