// SPDX-License-Identifier: Apache-2.0
// A picture of a workspace over one replay: from left to right the graph's nodes, upwards the places in the arena.
// Where activations lie in the range of gradients too, that is below the workspace; states lie below both.
#pragma once

#include <string>

#include "src/graph/graph.h"
#include "src/plan/workspace.h"

namespace bascule {

// One <svg> element, for a page; a file of its own needs the namespace. Each tensor is a rectangle with its name and
// size as a title; those that are too low to be seen are left out.
std::string draw_arena(const Graph& graph, const WorkspacePlan& plan, bool with_namespace);

}  // namespace bascule
