// SPDX-License-Identifier: Apache-2.0
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/isa.h"
#include "src/base/error.h"
#include "src/bringup/bring_up.h"
#include "src/bringup/workbench.h"
#include "src/runtime/arena.h"
#include "tests/support/files.h"
#include "tests/support/sanitized.h"

namespace bascule {
namespace {

TEST(SlowItems, EachMeasuresFiguresWithKeysOfTheirOwn) {
  Workbench bench(best_isa(), testing::TempDir(), std::size_t{64} << 20);
  bench.set_seconds(0.0005);
  std::set<std::string> keys;
  for (const ItemKind& kind : item_kinds()) {
    std::vector<NamedItem> items;
    items.push_back({kind.name, kind.make(bench)});
    const std::vector<Figure> figures = measure_rounds(bench, items, 2, read_cores());
    EXPECT_FALSE(figures.empty()) << kind.name;
    for (const Figure& figure : figures) {
      EXPECT_EQ(figure.item, kind.name);
      ASSERT_EQ(figure.rounds.size(), 2u);
      EXPECT_GT(figure.median(), 0.0) << figure.key();
      EXPECT_LT(figure.median(), figure.unit == "GHz" ? 20.0 : 1e30) << figure.key();
      EXPECT_GE(figure.limit, 0.0);
      EXPECT_GE(figure.taken.share(), 0.0);
      EXPECT_LE(figure.taken.share(), 1.0);
      EXPECT_TRUE(keys.insert(figure.key()).second) << figure.key();
    }
  }
}

TEST(Items, TheTimeThatAnotherTakesIsNoticed) {
  Workbench bench(best_isa(), ".", std::size_t{8} << 20);
  class Waiting : public Item {
   public:
    explicit Waiting(int core) {
      probes.push_back({"waits",
                        "",
                        "s",
                        true,
                        core,
                        false,
                        [] {
                          usleep(20000);  // off the core, as behind another process
                          return 1.0;
                        },
                        {}});
    }
  };
  std::vector<NamedItem> items;
  items.push_back({"test", std::make_unique<Waiting>(bench.cores().front())});
  EXPECT_GT(measure_rounds(bench, items, 2, {}).front().taken.missing, 0.8);
}

// The cores of this machine as two nodes have them.
std::vector<CoreFacts> cores_of_two_nodes() {
  std::vector<CoreFacts> cores = read_cores();
  for (std::size_t i = 0; i < cores.size(); ++i) cores[i].node = static_cast<std::int64_t>(i % 2);
  return cores;
}

TEST(Items, OfSeveralNodesTheCoresOfEachReadTheMemoryOfEach) {
  Workbench bench(best_isa(), ".", std::size_t{8} << 20, cores_of_two_nodes());
  if (bench.core_count() < 2) GTEST_SKIP() << "one core";
  bench.set_seconds(0.0005);
  ASSERT_EQ(bench.node_arenas().size(), 2u);
  EXPECT_EQ(bench.node_arenas()[1].node, 1);
  std::set<std::string> of_nodes;
  const std::unique_ptr<Item> item = make_memory_item(bench);
  for (const Probe& probe : item->probes) {
    if (probe.place.find("node") == std::string::npos) continue;
    EXPECT_GT(probe.once(), 0.0);
    of_nodes.insert(probe.name + ", " + probe.place);
  }
  EXPECT_EQ(of_nodes, (std::set<std::string>{
                          "read of memory node 0, cores of node 0", "read of memory node 0, cores of node 1",
                          "read of memory node 1, cores of node 0", "read of memory node 1, cores of node 1"}));
}

TEST(Items, OfOneNodeThereIsNoOtherToReadFrom) {
  std::vector<CoreFacts> cores = cores_of_two_nodes();
  for (CoreFacts& core : cores) core.node = 0;
  const Workbench bench(best_isa(), ".", std::size_t{8} << 20, cores);
  EXPECT_TRUE(bench.node_arenas().empty());
  EXPECT_FALSE(bench.far_share());
}

// The limit is raised until there is room for all: it is met before and behind each mapping.
TEST(Items, AWorkbenchThatTheSystemRefusesLeavesNothingMapped) {
  if (test::kIsSanitized) GTEST_SKIP() << "a sanitizer maps more than any limit allows";
  const std::vector<CoreFacts> cores = cores_of_two_nodes();
  constexpr std::size_t kBytes = std::size_t{32} << 20;
  const auto try_it = [&] { const Workbench bench(best_isa(), ".", kBytes, cores); };
  // The system keeps stacks of threads. Arenas of nodes are made only where this process may use cores of several.
  const int mappings_met = Workbench(best_isa(), ".", kBytes, cores).node_arenas().empty() ? 3 : 7;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  std::size_t mapped_pages = 0;
  std::ifstream("/proc/self/statm") >> mapped_pages;
  const std::size_t resident = resident_bytes();
  int refused = 0;
  const auto page_bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  for (; refused < 100 && resident_bytes() < resident + kBytes; ++refused) {
    const rlimit lower{mapped_pages * page_bytes + static_cast<rlim_t>(refused) * kBytes / 4, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_AS, &lower), 0);
    bool is_refused = false;
    try {
      try_it();
    } catch (const std::exception&) {  // of the system's own too: for a thread
      is_refused = true;
    }
    ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
    if (!is_refused) break;
  }
  EXPECT_GT(refused, mappings_met);
  EXPECT_LT(refused, 100);
  EXPECT_LT(resident_bytes(), resident + kBytes);
}

// With one core, both measure the same.
TEST(Items, AllCoresCountTheBytesOfACopyAsOneCoreDoes) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  Workbench all(best_isa(), ".", std::size_t{8} << 20);
  all.move_to(all.cores().front());
  Workbench bench(best_isa(), ".", std::size_t{8} << 20);
  if (bench.core_count() != 1) GTEST_SKIP() << "threads may not be moved here";
  bench.set_seconds(0.0005);
  const std::unique_ptr<Item> item = make_memory_item(bench);
  double alone = 0.0, together = 0.0;
  // What disturbs the machine takes from either: the best of many tries counts.
  for (int tries = 0; tries < 60 && (tries < 12 || together < 0.8 * alone); ++tries) {
    for (const Probe& probe : item->probes) {
      if (probe.name == "copy")
        (probe.core < 0 ? together : alone) = std::max(probe.core < 0 ? together : alone, probe.once());
    }
  }
  sched_setaffinity(0, sizeof before, &before);
  EXPECT_GT(alone, 0.0);
  EXPECT_GT(together, 0.8 * alone);
}

// Root may lock all memory, whatever its limit is.
double locked_within(const Item& item, rlim_t bytes) {
  const rlimit limit{bytes, bytes};
  if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0)) return -1.0;
  for (const Probe& probe : item.probes) {
    if (probe.name == "locked") return probe.once();
  }
  return -1.0;
}

TEST(ItemsDeathTest, AsMuchIsLockedAsTheLimitOfTheProcessAllows) {
  Workbench bench(best_isa(), ".", std::size_t{8} << 20);
  const std::unique_ptr<Item> item = make_page_item(bench);
  const auto has_locked = [&](rlim_t bytes, double mib) { std::exit(locked_within(*item, bytes) == mib ? 0 : 1); };
  for (const auto& [kib, mib] : {std::pair{0, 0.0}, {3, 0.0}, {4, 1.0 / 256}, {3 << 10, 2.0}})
    EXPECT_EXIT(has_locked(rlim_t{1024} * static_cast<rlim_t>(kib), mib), ::testing::ExitedWithCode(0), "")
        << kib << " KiB";
}

TEST(Items, AFolderThatCannotBeWrittenIsADiskError) {
  Workbench bench(best_isa(), "/no/such/folder", std::size_t{8} << 20);
  EXPECT_TRUE(test::fails([&] { make_disk_item(bench); }, "/no/such/folder", ErrorKind::kDisk));
}

TEST(Items, NothingIsLeftInTheFolder) {
  const std::string folder = testing::TempDir() + "bringup_" + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  Workbench bench(best_isa(), folder, std::size_t{32} << 20);
  const std::unique_ptr<Item> item = make_disk_item(bench);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  std::filesystem::remove(folder);
}

TEST(BringUp, AnUnknownItemIsRefusedBeforeAnythingIsMeasured) {
  BringUpOptions options;
  options.only = {"memry"};
  EXPECT_TRUE(test::fails([&] { bring_up(options, [](const std::string&) {}); }, "did you mean \"memory\"?",
                          ErrorKind::kSettings));
}

}  // namespace
}  // namespace bascule
