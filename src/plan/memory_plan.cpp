// SPDX-License-Identifier: Apache-2.0
#include "src/plan/memory_plan.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <utility>

#include "src/base/check.h"
#include "src/base/span.h"

namespace bascule {
namespace {

std::string line(const std::string& name, std::size_t bytes, std::size_t total) {
  char text[160];
  const double mib = static_cast<double>(bytes) / 1048576.0;
  const double share = total > 0 ? 100.0 * static_cast<double>(bytes) / static_cast<double>(total) : 0.0;
  std::snprintf(text, sizeof text, "  %-28.80s %12.2f MiB %5.1f %%\n", name.c_str(), mib, share);
  return text;
}

}  // namespace

std::size_t MemoryPlan::lower_bound_bytes() const {
  std::size_t bound = ranks * index_bytes + server_bytes + program_of_ranks();
  for (const PlannedRange& category : categories) {
    const std::size_t bytes = category.name == "workspace" ? workspace_lower_bound_bytes : category.bytes;
    bound += category.shared ? bytes : ranks * bytes;
  }
  return bound;
}

const PlannedRange& MemoryPlan::operator[](const std::string& name) const {
  for (const PlannedRange& category : categories) {
    if (category.name == name) return category;
  }
  BASCULE_CHECK(false);  // no such category
  return categories.front();
}

MemoryPlan make_memory_plan(std::vector<PlannedRange> categories, std::size_t outside_bytes, std::size_t index_bytes,
                            std::size_t ranks) {
  MemoryPlan plan;
  plan.categories = std::move(categories);
  plan.outside_bytes = outside_bytes;
  plan.index_bytes = index_bytes;
  plan.ranks = ranks;
  for (PlannedRange& category : plan.categories) {
    std::size_t& end = category.shared ? plan.shared_bytes : plan.arena_bytes;
    category.offset = end;
    end = align_up(end + category.bytes, kPage);
  }
  return plan;
}

std::string print_memory_plan(const MemoryPlan& plan) {
  const std::size_t total = plan.peak_bytes();
  std::string text = "memory plan\n";
  const std::string times_ranks = plan.ranks > 1 ? " x " + std::to_string(plan.ranks) : "";
  for (const PlannedRange& category : plan.categories) {
    text += category.shared ? line(category.name, category.bytes, total)
                            : line(category.name + times_ranks, plan.ranks * category.bytes, total);
  }
  if (plan.server_bytes > 0) text += line("connections and bodies", plan.server_bytes, total);
  text += line("index of the data" + times_ranks, plan.ranks * plan.index_bytes, total);
  text += line("program and libraries", plan.program_of_ranks(), total);
  text += line("total", total, total);
  text += line("lower bound", plan.lower_bound_bytes(), total);
  if (!plan.largest.empty()) text += "largest buffers of the workspace\n";
  for (const LargestBuffer& buffer : plan.largest) {
    char row[200];
    std::snprintf(row, sizeof row, "  %-72.120s %10.2f MiB\n", buffer.name.c_str(),
                  static_cast<double>(buffer.bytes) / 1048576.0);
    text += row;
  }
  return text;
}

namespace {

// In pixels: the picture of the arena, and the margins left and below.
constexpr double kWidth = 1120.0, kHeight = 560.0, kLeft = 70.0, kTop = 30.0, kBottom = 34.0;
constexpr double kLowest = 0.4;
constexpr char kGradientColour[] = "#9c755f", kStateColour[] = "#59a14f";

const char* colour_of(Held held) {
  switch (held) {
    case Held::kForward: return "#4e79a7";
    case Held::kAgain: return "#f28e2b";
    case Held::kBackward: return "#76b7b2";
  }
  return "";
}

template <typename... Values>
void append(std::string* text, const char* format, Values... values) {
  char line[320];
  std::snprintf(line, sizeof line, format, values...);
  *text += line;
}

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    result += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  }
  return result;
}

double mib(double bytes) { return bytes / 1048576.0; }

void draw_text(std::string* svg, double x, double y, const char* anchor, const std::string& text) {
  append(svg, "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"%s\">%s</text>\n", x, y, anchor, text.c_str());
}

}  // namespace

std::string draw_arena(const Graph& graph, const WorkspacePlan& plan, bool with_namespace) {
  const StateLayout states = graph.states() != nullptr ? lay_out_states(*graph.states()) : StateLayout{};
  const double nodes = static_cast<double>(std::max<std::size_t>(graph.nodes().size(), 1)),
               bytes = static_cast<double>(std::max<std::size_t>(states.bytes + plan.gradients.bytes + plan.bytes, 1));
  const auto x_of = [&](int node) { return kLeft + kWidth * std::min(1.0, static_cast<double>(node) / nodes); };
  const auto y_of = [&](std::size_t offset) { return kTop + kHeight - kHeight * static_cast<double>(offset) / bytes; };
  const std::vector<TensorOrigin> origins = origins_of(graph);
  std::string svg;
  append(&svg,
         "<svg%s viewBox=\"0 0 %.0f %.0f\" font-family=\"sans-serif\" "
         "font-size=\"13\" ",
         with_namespace ? " xmlns=\"http://www.w3.org/2000/svg\"" : "", kLeft + kWidth + 10.0,
         kTop + kHeight + kBottom);
  svg += "fill=\"currentColor\">\n";
  append(&svg, "<rect x=\"%.0f\" y=\"%.0f\" width=\"%.0f\" height=\"%.0f\" fill=\"#8882\"/>\n", kLeft, kTop, kWidth,
         kHeight);
  for (std::size_t i = 0; i < states.places.size(); ++i) {
    const double height = kHeight * static_cast<double>(states.places[i].bytes) / bytes;
    append(&svg, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"><title>", kLeft,
           y_of(states.places[i].offset) - height, kWidth, height, kStateColour);
    svg += escaped((*graph.states())[static_cast<int>(i)].name);
    append(&svg, ", %.2f MiB</title></rect>\n", mib(static_cast<double>(states.places[i].bytes)));
  }
  for (const TakenPlace& place : plan.gradients.taken) {
    const double height = kHeight * static_cast<double>(place.request.bytes) / bytes;
    if (height < kLowest) continue;
    append(&svg,
           "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"><title>gradients, %.2f "
           "MiB</title></rect>\n",
           x_of(place.request.first), y_of(states.bytes + place.offset) - height,
           x_of(place.request.last) - x_of(place.request.first), height, kGradientColour,
           mib(static_cast<double>(place.request.bytes)));
  }
  for (const WorkspaceBuffer& buffer : plan.buffers) {
    const double height = kHeight * static_cast<double>(buffer.request.bytes) / bytes;
    if (height < kLowest) continue;
    const double y = y_of(states.bytes + (buffer.in_gradients ? 0 : plan.gradients.bytes) + buffer.offset) - height;
    for (std::size_t i = 0; i < buffer.tensors.size(); ++i) {
      const auto origin_of = [&](std::size_t t) { return origins[static_cast<std::size_t>(buffer.tensors[t].index)]; };
      const TensorOrigin origin = origin_of(i);
      const int first = i == 0 ? buffer.request.first : origin.first;
      const int end = i + 1 < buffer.tensors.size() ? origin_of(i + 1).first : buffer.request.last + 1;
      append(&svg, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"><title>", x_of(first), y,
             std::max(0.5, x_of(end) - x_of(first)), height, colour_of(origin.held));
      svg += escaped(graph[buffer.tensors[i]].name);
      append(&svg, ", %.2f MiB</title></rect>\n", mib(static_cast<double>(buffer.request.bytes)));
    }
  }
  const auto backward =
      std::find_if(graph.nodes().begin(), graph.nodes().end(), [](const Node& n) { return n.backward; });
  const int turn = static_cast<int>(backward - graph.nodes().begin());
  append(&svg,
         "<line x1=\"%.1f\" y1=\"%.0f\" x2=\"%.1f\" y2=\"%.0f\" stroke=\"currentColor\" stroke-dasharray=\"4 3\"/>\n",
         x_of(turn), kTop, x_of(turn), kTop + kHeight);
  const double below = kTop + kHeight + 22.0;
  draw_text(&svg, kLeft, below, "start", "forward");
  if (backward != graph.nodes().end()) draw_text(&svg, x_of(turn) + 4.0, below, "start", "backward");
  for (int i = 0; i <= 4; ++i) {
    char label[32];
    std::snprintf(label, sizeof label, "%.0f MiB", mib(bytes) * i / 4.0);
    draw_text(&svg, kLeft - 5.0, kTop + kHeight - kHeight * i / 4.0 + 4.0, "end", label);
  }
  double x = kLeft;
  const auto explain = [&](const char* colour, const char* label) {
    append(&svg, "<rect x=\"%.0f\" y=\"8\" width=\"14\" height=\"14\" fill=\"%s\"/>\n", x, colour);
    draw_text(&svg, x + 20.0, 20.0, "start", label);
    x += 170.0;
  };
  explain(colour_of(Held::kForward), "kept from forward");
  explain(colour_of(Held::kAgain), "repeated");
  explain(colour_of(Held::kBackward), "of backward");
  if (plan.gradients.bytes > 0) explain(kGradientColour, "gradients of weights");
  if (states.bytes > 0) explain(kStateColour, "state");
  return svg + "</svg>\n";
}

std::vector<TensorOrigin> origins_of(const Graph& graph) {
  std::vector<TensorOrigin> origins(graph.tensors().size());
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    for (const Operand& operand : node.operands) {
      if (!operand) continue;
      TensorOrigin& origin = origins[static_cast<std::size_t>(operand.tensor.index)];
      if (origin.first >= 0) continue;
      origin = {node.scope,
                node.again      ? Held::kAgain
                : node.backward ? Held::kBackward
                                : Held::kForward,
                static_cast<int>(n)};
    }
  }
  return origins;
}

int peak_node(const WorkspacePlan& plan) {
  std::vector<std::pair<int, long long>> changes;
  const auto add = [&](const BufferRequest& request) {
    changes.emplace_back(request.first, static_cast<long long>(request.bytes));
    changes.emplace_back(request.last + 1, -static_cast<long long>(request.bytes));
  };
  for (const WorkspaceBuffer& buffer : plan.buffers) add(buffer.request);
  for (const TakenPlace& place : plan.gradients.taken) add(place.request);
  std::sort(changes.begin(), changes.end());
  long long alive = 0, most = -1;
  int peak = 0;
  for (const auto& [node, bytes] : changes) {
    alive += bytes;
    if (alive > most) {
      most = alive;
      peak = node;
    }
  }
  return peak;
}

std::vector<AliveLayers> alive_at_peak(const Graph& graph, const WorkspacePlan& plan) {
  const std::vector<TensorOrigin> origins = origins_of(graph);
  const int peak = peak_node(plan);
  std::vector<std::pair<int, AliveLayers>> found;  // with the first node of the first
  std::vector<std::set<std::string>> scopes;
  for (const WorkspaceBuffer& buffer : plan.buffers) {
    if (buffer.request.first > peak || buffer.request.last < peak) continue;
    const TensorOrigin* origin = nullptr;  // of the tensor that has the buffer then
    for (const Tensor tensor : buffer.tensors) {
      const TensorOrigin& next = origins[static_cast<std::size_t>(tensor.index)];
      if (origin == nullptr || next.first <= peak) origin = &next;
    }
    const std::string name = layer_kind(origin->scope);
    auto entry = std::find_if(found.begin(), found.end(), [&](const auto& f) { return f.second.name == name; });
    if (entry == found.end()) {
      found.push_back({origin->first, {name, 0, 0, 0, 0}});
      scopes.emplace_back();
      entry = found.end() - 1;
    }
    entry->first = std::min(entry->first, origin->first);
    AliveLayers& layers = entry->second;
    (origin->held == Held::kForward ? layers.forward_bytes
     : origin->held == Held::kAgain ? layers.again_bytes
                                    : layers.backward_bytes) += buffer.request.bytes;
    std::set<std::string>& own = scopes[static_cast<std::size_t>(entry - found.begin())];
    own.insert(origin->scope);
    layers.layers = own.size();
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<AliveLayers> alive;
  alive.reserve(found.size());
  for (auto& [first, layers] : found) alive.push_back(std::move(layers));
  if (plan.gradients.bytes > 0) {
    AliveLayers gradients{"gradients that are written by then", 0, 0, 0, 0};
    for (const TakenPlace& place : plan.gradients.taken) {
      if (place.request.first <= peak) gradients.backward_bytes += place.request.bytes;
    }
    alive.push_back(std::move(gradients));
  }
  return alive;
}

}  // namespace bascule
