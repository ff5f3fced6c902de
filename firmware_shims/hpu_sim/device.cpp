// SPDX-License-Identifier: Apache-2.0
// Power on and off. Device memory: device | units | small area and pixels of each unit | large area, which all units
// share and take in turn, as those of the host engine do, so that verdicts are the same.
#include "firmware_shims/hpu_sim/device.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <new>
#include <system_error>

namespace bascule::hpu_sim {
namespace {

constexpr std::size_t kSmallAreaBytes = std::size_t{4} << 20;
// The units' arithmetic is done on the host's cores; where the host wants one as well, it has it nine times of ten.
constexpr int kUnitNice = 10;

struct Layout {
  std::size_t units, areas, large_area, total;  // offsets
  std::size_t small_area_bytes, pixels_bytes;
};

Layout layout_of(const Board& board) {
  Layout layout;
  layout.units = codec::arena_rounded(sizeof(Device));
  layout.areas = layout.units + codec::arena_rounded(board.units * sizeof(Unit));
  layout.small_area_bytes =
      codec::arena_rounded(board.picture_bytes < kSmallAreaBytes ? board.picture_bytes : kSmallAreaBytes);
  layout.pixels_bytes = codec::arena_rounded(std::size_t{3} * board.max_side * board.max_side * sizeof(float));
  layout.large_area = layout.areas + board.units * (layout.small_area_bytes + layout.pixels_bytes);
  layout.total = layout.large_area + codec::arena_rounded(board.picture_bytes);
  return layout;
}

// Signals are for the threads of the program.
void become_hardware() {
  ::sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
  const long thread = ::syscall(SYS_gettid);
  (void)::setpriority(PRIO_PROCESS, static_cast<::id_t>(thread), kUnitNice);
}

}  // namespace

std::size_t Device::bytes(const Board& board) { return layout_of(board).total; }

Device::Device(std::uint8_t* memory, const Board& board, const Options& options) : board_(board), options_(options) {
  const Layout layout = layout_of(board);
  settings_.kernels = &resize_kernels_for(best_isa());
  large_area_ = {memory + layout.large_area, codec::arena_rounded(board.picture_bytes), 0};
  units_ = static_cast<Unit*>(static_cast<void*>(memory + layout.units));
  is_ready_ = true;
  for (; unit_count_ < board.units; ++unit_count_) {
    Unit* const unit = new (units_ + unit_count_) Unit;
    std::uint8_t* const own = memory + layout.areas + unit_count_ * (layout.small_area_bytes + layout.pixels_bytes);
    unit->small_area = {own, layout.small_area_bytes, 0};
    unit->pixels = static_cast<float*>(static_cast<void*>(own + layout.small_area_bytes));
    is_ready_ = is_ready_ && unit->reader.is_ready();
  }
  start_firmware();
  try {
    for (std::uint32_t u = 0; is_ready_ && u < unit_count_; ++u) {
      Unit& unit = units_[u];
      unit.thread = std::thread([this, &unit] {
        become_hardware();
        work(unit);
      });
    }
  } catch (const std::system_error&) {
    is_ready_ = false;
  }
}

Device::~Device() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_ending_ = true;
    stop_ = true;
    changed_.notify_all();
  }
  for (std::uint32_t u = 0; u < unit_count_; ++u) {
    if (units_[u].thread.joinable()) units_[u].thread.join();
    units_[u].~Unit();
  }
}

std::size_t device_bytes(const Board& board) { return Device::bytes(board); }

Device* plug_in(void* memory, const Board& board) {
  Options options;
  if (!parse_options(&options, board.options)) return nullptr;
  auto* const device = new (memory) Device(static_cast<std::uint8_t*>(memory), board, options);
  if (device->is_ready()) return device;
  device->~Device();
  return nullptr;
}

void unplug(Device* device) { device->~Device(); }

std::uint32_t read_register(Device* device, std::uint32_t offset) { return device->read(offset); }
void write_register(Device* device, std::uint32_t offset, std::uint32_t value) { device->write(offset, value); }

}  // namespace bascule::hpu_sim
