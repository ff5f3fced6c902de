// SPDX-License-Identifier: Apache-2.0
#include "src/update/gradient_ring.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/graph/graph_run.h"

namespace bascule::test::test_bucket_marks {
namespace {

// Three layers; the first and the last share a weight, whose gradient is therefore written twice.
void record(GraphRun& run) {
  Graph& g = run.graph();
  g.set_scope("layer");
  const Tensor shared = run.parameter("shared", 24, 24);
  Tensor x = linear(g, "a", run.source("x", text_rows(), 24), shared, run.parameter("a.bias", 1, 24));
  x = linear(g, "b", x, run.parameter("b.weight", 24, 24), run.parameter("b.bias", 1, 24));
  run.finish({linear(g, "c", x, shared, run.parameter("c.bias", 1, 24))});
}

// Operations of the tape up to and with the last one that writes a gradient below `end`.
std::int64_t last_write_below(GraphRun& run, std::int64_t end) {
  std::int64_t last = 0;
  const std::vector<Node>& nodes = run.graph().nodes();
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    for (const Operand& use : nodes[n].operands) {
      if (!use || use.access == Access::kRead) continue;
      const TensorInfo& info = run.graph()[use.tensor];
      if (info.storage != Storage::kGradient) continue;
      if (run.layout().places[static_cast<std::size_t>(info.parameter)].offset >= end) continue;
      last = std::max(last, static_cast<std::int64_t>(run.tape().steps_below(static_cast<int>(n) + 1)));
    }
  }
  return last;
}

TEST(BucketMarks, ABucketIsReleasedBehindTheLastWriteToItAndNoOperationLater) {
  GraphRun run(counts_of(6, 60, 30), 1);
  record(run);
  std::vector<std::int64_t> ends;
  for (std::int64_t end = 64; end < run.layout().trained_elements; end += 64) ends.push_back(end);
  ends.push_back(run.layout().trained_elements);
  const std::vector<std::int64_t> marks = bucket_marks(run.tape().steps_until_final(), run.layout(), ends);
  ASSERT_EQ(marks.size(), ends.size());
  ASSERT_GT(marks.back(), marks.front()) << "some buckets are final before others";
  for (std::size_t bucket = 0; bucket < ends.size(); ++bucket)
    EXPECT_EQ(marks[bucket], last_write_below(run, ends[bucket])) << "bucket " << bucket;
}

}  // namespace
}  // namespace bascule::test::test_bucket_marks
