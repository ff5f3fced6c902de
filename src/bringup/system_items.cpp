// SPDX-License-Identifier: Apache-2.0
// Items of the clock and of the disk.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "src/base/clock.h"
#include "src/base/descriptor.h"
#include "src/base/error.h"
#include "src/bringup/memory_loops.h"
#include "src/bringup/workbench.h"
#include "src/files/durable_write.h"
#include "src/machine/machine.h"

namespace bascule {
namespace {

class ClockItem : public Item {
 public:
  explicit ClockItem(Workbench& bench) {
    const MemoryLoops* const loops = &memory_loops_for(bench.isa());
    for (const int core : bench.cores()) {
      probe("operations in a row", "GHz", core, [loops] {
        constexpr std::int64_t kSteps = 4'000'000;
        const double began = monotonic_seconds();
        loops->mix_in_a_row(kSteps);
        return static_cast<double>(kSteps) * 1e-9 / (monotonic_seconds() - began);
      });
    }
  }
};

// A file without a name: nothing is left of it, whatever ends the program.
class DiskItem : public Item {
 public:
  explicit DiskItem(Workbench& bench) : bench_(bench) {
    const Fact free = read_disk(bench.folder()).free_bytes;
    if (free && *free < static_cast<std::int64_t>(4 * kBytes)) {
      throw Error(ErrorKind::kDisk, bench.folder(),
                  std::to_string(*free >> 20) + " MiB of disk space are free, measuring needs " +
                      std::to_string(4 * kBytes >> 20),
                  "free space, or choose another folder with --folder");
    }
    const std::string path = bench.folder() + "/" + kTemporaryPrefix + "bringup-" + std::to_string(getpid());
    file_ = Descriptor(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!file_.is_open()) refuse("creating a file failed");
    unlink(path.c_str());
    probe("write and fsync", "MB/s", bench.cores().front(), [this] { return write_all(); });
    probe("fsync of 4 KiB", "ms", bench.cores().front(), [this] { return sync_page(); });
    for (Probe& one : probes) {
      one.place = "";
      one.waits = true;
    }
  }

 private:
  static constexpr std::size_t kBytes = std::size_t{16} << 20;

  [[noreturn]] void refuse(const char* problem) const {
    throw Error(ErrorKind::kDisk, bench_.folder(), std::string(problem) + ": " + std::strerror(errno),
                advice_for_disk(errno));
  }

  void write_at(std::size_t bytes, off_t at) const {
    for (std::size_t done = 0; done < bytes;) {
      const ssize_t written =
          pwrite(file_.number(), bench_.memory() + done, bytes - done, at + static_cast<off_t>(done));
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) refuse("writing failed");
      done += static_cast<std::size_t>(written);
    }
  }

  void sync() const {
    if (fsync(file_.number()) != 0) refuse("fsync failed");
  }

  double write_all() {
    if (ftruncate(file_.number(), 0) != 0) refuse("emptying a file failed");
    const double began = monotonic_seconds();
    write_at(kBytes, 0);
    sync();
    return static_cast<double>(kBytes) * 1e-6 / (monotonic_seconds() - began);
  }

  double sync_page() {
    constexpr int kCalls = 4;
    const double began = monotonic_seconds();
    for (int i = 0; i < kCalls; ++i) {
      write_at(4096, static_cast<off_t>(kBytes) + 4096 * next_++);
      sync();
    }
    return (monotonic_seconds() - began) / kCalls * 1e3;
  }

  Workbench& bench_;
  Descriptor file_;
  off_t next_ = 0;
};

}  // namespace

std::unique_ptr<Item> make_clock_item(Workbench& bench) { return std::make_unique<ClockItem>(bench); }
std::unique_ptr<Item> make_disk_item(Workbench& bench) { return std::make_unique<DiskItem>(bench); }

}  // namespace bascule
