// SPDX-License-Identifier: Apache-2.0
#include "src/commands/rank_errors.h"

#include <unistd.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/base/journal.h"
#include "src/commands/report_error.h"

namespace bascule {
namespace {

// The watch ends this process, with the exit code of the rank that failed.
[[noreturn]] void wait_for_the_end() {
  for (;;) pause();
}

// Says what ended this rank, if it is the first to end, and ends the others.
int give_up(Group& group, bool json, const Error& error) {
  const std::string rank = group.is_first() ? "" : "rank " + std::to_string(group.rank()) + ": ";
  const int code = exit_code(error.kind());
  if (!group.give_up(code, journal_error_mark() + ("bascule: " + rank) + error.what() + "\n",
                     json ? error_document(error) : ""))
    wait_for_the_end();
  std::fflush(stdout);
  return code;
}

std::vector<double> told(Group& group, double own) {
  std::vector<double> all(static_cast<std::size_t>(group.size()));
  if (!group.exchange({&own, 1}, Span<double>(all))) throw PeerFailed{};
  return all;
}

}  // namespace

int in_group(Group& group, bool json, const std::function<int()>& body) {
  if (group.size() == 1) return body();
  int code = 0;
  try {
    code = body();
  } catch (const PeerFailed&) {
    wait_for_the_end();
  } catch (const Error& error) {
    return give_up(group, json, error);
  } catch (const std::bad_alloc&) {
    return give_up(group, json, Error(ErrorKind::kMemory, "", "out of memory", "see `bascule plan`"));
  } catch (const std::filesystem::filesystem_error& error) {
    return give_up(group, json, unreadable(error));
  } catch (const std::exception& error) {
    return give_up(group, json, Error(ErrorKind::kInternal, "", std::string("bug: ") + error.what()));
  }
  std::fflush(stdout);
  if (!group.leave()) wait_for_the_end();
  return code;
}

void agree_on(Group& group, const std::function<void()>& part) {
  std::exception_ptr error;
  try {
    part();
  } catch (...) {
    error = std::current_exception();
  }
  const std::vector<double> failed = told(group, error ? 1.0 : 0.0);
  for (int rank = 0; rank < group.size(); ++rank) {
    if (failed[static_cast<std::size_t>(rank)] == 0.0) continue;
    if (rank != group.rank()) throw PeerFailed{};
    std::rethrow_exception(error);
  }
}

bool any_of(Group& group, bool own) {
  bool any = false;
  for (const double one : told(group, own ? 1.0 : 0.0)) any = any || one != 0.0;
  return any;
}

}  // namespace bascule
