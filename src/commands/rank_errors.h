// SPDX-License-Identifier: Apache-2.0
// Errors of one rank among several: said once, by the rank that met them, with its number, and ending all ranks with
// the same exit code. In a run of one process they pass through to main().
#pragma once

#include <functional>

#include "src/distributed/group.h"

namespace bascule {

// Thrown where another rank has failed and says so: this one only leaves.
struct PeerFailed {};

// Calls body() and returns its exit code, once all ranks are at their end. json: an error is a document too.
int in_group(Group& group, bool json, const std::function<int()>& body);

// Calls part() on every rank, before the seal. Where it throws on any, the first of those ranks throws the error on,
// and all others PeerFailed: what fails alike on all is said once.
void agree_on(Group& group, const std::function<void()>& part);

// By all ranks together: whether it is true on any.
bool any_of(Group& group, bool own);

}  // namespace bascule
