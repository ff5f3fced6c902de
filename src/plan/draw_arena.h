// SPDX-License-Identifier: Apache-2.0
// A picture of a workspace over one replay: from left to right the graph's nodes, upwards the places in the arena.
#pragma once

#include <string>

#include "src/graph/graph.h"
#include "src/plan/workspace.h"

namespace bascule {

// One <svg> element, to stand in a file of its own or in a page. Each tensor is a rectangle with its name and size as a
// title; those that are too low to be seen are left out.
std::string draw_arena(const Graph& graph, const WorkspacePlan& plan);

}  // namespace bascule
