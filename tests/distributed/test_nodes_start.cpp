// SPDX-License-Identifier: Apache-2.0
// How nodes meet, with every process one of them. Run by mpirun, once a test, as MPI starts once in a process; see
// meson.build. Two functions of MPI are the tests' own: through them they come between.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/distributed/group.h"
#include "src/distributed/sockets.h"

namespace bascule::test {
namespace {

int code_of_split = MPI_SUCCESS;
std::function<void(const MeetingPoint& point)> on_told = [](const MeetingPoint&) {};  // on node 0, before others hear

RankPlace node_of_this_process() {
  RankPlace place = place_from_environment();
  place.nodes = place.world_size;
  place.node = place.rank;
  place.local_size = 1;
  place.local_rank = 0;
  place.run += "-" + std::to_string(place.node);
  return place;
}

struct Hello {
  std::uint64_t token[2];
  std::int64_t node;
};

TEST(NodesStart, MeetWhateverStrangersSay) {
  std::vector<Descriptor> strangers;
  on_told = [&](const MeetingPoint& point) {
    const auto call = [&](const Hello& hello, std::size_t bytes) {
      strangers.push_back(connect_to_address(point, point.addresses - 1, 1000));
      ASSERT_TRUE(strangers.back().is_open());
      ASSERT_TRUE(bytes == 0 || send_all(strangers.back().number(), &hello, bytes));
    };
    const Hello sound{{point.token[0], point.token[1]}, 1};
    for (int i = 0; i < 10; ++i) call(sound, 0);
    call(sound, sizeof sound / 2);
    call(sound, sizeof sound);  // and then nothing
    call({{point.token[0], ~point.token[1]}, 1}, sizeof sound);
    for (const std::int64_t node : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{2}, std::int64_t{1} << 40})
      call({{point.token[0], point.token[1]}, node}, sizeof sound);
    call(sound, sizeof sound - 1);
    strangers.back().reset();
  };
  Group group(node_of_this_process(), {5, nullptr});
  EXPECT_EQ(strangers.size(), group.is_first() ? 18u : 0u);
  EXPECT_TRUE(group.barrier());
  EXPECT_TRUE(group.leave());
}

TEST(NodesStart, SaysWhatMpiSaysThatItCannotDo) {
  code_of_split = MPI_ERR_INTERN;
  EXPECT_THROW(Group(node_of_this_process(), {20, nullptr}), Error);
  MPI_Finalize();
}

}  // namespace
}  // namespace bascule::test

extern "C" int MPI_Comm_split(MPI_Comm from, int color, int key, MPI_Comm* to) {
  const int code = PMPI_Comm_split(from, color, key, to);
  return code == MPI_SUCCESS ? bascule::test::code_of_split : code;
}

extern "C" int MPI_Ibcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request* request) {
  int rank = -1;
  MPI_Comm_rank(comm, &rank);
  if (rank == root && count == static_cast<int>(sizeof(bascule::MeetingPoint))) {
    bascule::MeetingPoint point;
    std::memcpy(&point, data, sizeof point);
    bascule::test::on_told(point);
  }
  return PMPI_Ibcast(data, count, type, root, comm, request);
}
