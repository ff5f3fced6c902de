// SPDX-License-Identifier: Apache-2.0
// JPEG pictures decoded as a loader's workers do, by the host engine. The picture is made here: a baseline JPEG in
// 4:2:0 of random coefficients, which costs the decoder what a photograph of that size and number of bytes does.
#include <cstdint>
#include <utility>

#include "firmware_shims/media_engine.h"
#include "src/base/check.h"
#include "src/base/error.h"
#include "src/bringup/product_data.h"
#include "src/bringup/workbench.h"

namespace bascule {
namespace {

constexpr int kWidth = 640, kHeight = 480;

class BitWriter {
 public:
  explicit BitWriter(std::vector<std::uint8_t>* bytes) : bytes_(bytes) {}
  void put(unsigned value, int count) {
    for (int i = count - 1; i >= 0; --i) {
      byte_ = byte_ << 1 | (value >> i & 1u);
      if (++bits_ == 8) put_byte();
    }
  }
  void finish() {
    while (bits_ != 0) put(1, 1);
  }

 private:
  void put_byte() {
    bytes_->push_back(static_cast<std::uint8_t>(byte_));
    if (byte_ == 0xff) bytes_->push_back(0);  // or it would begin a marker
    byte_ = 0;
    bits_ = 0;
  }
  std::vector<std::uint8_t>* bytes_;
  unsigned byte_ = 0;
  int bits_ = 0;
};

// Both code tables have codes of 4 bits alone: the code of a symbol is its place in the list.
constexpr std::uint8_t kDcSizes[] = {0, 1, 2, 3, 4};
constexpr std::uint8_t kAcSymbols[] = {0x00, 0x01, 0x02, 0x03,
                                       0x11, 0x12, 0x21, 0x31};  // run, size; 0x00: end of block

template <std::size_t Count>
void add_codes(std::vector<std::uint8_t>* bytes, std::uint8_t table, const std::uint8_t (&symbols)[Count]) {
  bytes->insert(bytes->end(), {0xff, 0xc4, 0, 19 + Count, table, 0, 0, 0, Count, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  bytes->insert(bytes->end(), symbols, symbols + Count);
}

std::vector<std::uint8_t> make_jpeg() {
  std::vector<std::uint8_t> bytes = {0xff, 0xd8, 0xff, 0xdb, 0, 67, 0};
  bytes.insert(bytes.end(), 64, 12);  // one quantisation table, of equal steps
  bytes.insert(bytes.end(), {0xff, 0xc0, 0, 17, 8, kHeight >> 8, kHeight & 255, kWidth >> 8, kWidth & 255, 3,  //
                             1, 0x22, 0, 2, 0x11, 0, 3, 0x11, 0});
  add_codes(&bytes, 0x00, kDcSizes);
  add_codes(&bytes, 0x10, kAcSymbols);
  bytes.insert(bytes.end(), {0xff, 0xda, 0, 12, 3, 1, 0, 2, 0, 3, 0, 0, 63, 0});
  BitWriter writer(&bytes);
  std::uint32_t state = 1;
  const auto random = [&](unsigned below) {
    state = state * 1664525u + 1013904223u;
    return (state >> 16) % below;
  };
  constexpr int kBlocks = kWidth / 16 * (kHeight / 16) * 6;  // four of brightness and two of colour in each 16 x 16
  constexpr int kCoefficients = 9;
  for (int block = 0; block < kBlocks; ++block) {
    const unsigned dc = random(sizeof kDcSizes);
    writer.put(dc, 4);
    writer.put(random(1u << kDcSizes[dc]), kDcSizes[dc]);
    for (int i = 0; i < kCoefficients; ++i) {
      const unsigned symbol = 1 + random(sizeof kAcSymbols - 1);
      const int size = kAcSymbols[symbol] & 15;
      writer.put(symbol, 4);
      writer.put(random(1u << size), size);
    }
    writer.put(0, 4);
  }
  writer.finish();
  bytes.insert(bytes.end(), {0xff, 0xd9});
  return bytes;
}

media_engine_config config_of(const Workbench& bench) {
  media_engine_config config = media_engine_default_config(media_engine_host());
  config.units = static_cast<std::uint32_t>(bench.core_count());
  config.queue_depth = config.units;
  config.picture_bytes = std::size_t{8} << 20;
  return config;
}

class JpegItem : public Item {
 public:
  explicit JpegItem(Workbench& bench)
      : bench_(bench),
        picture_(make_jpeg()),
        memory_(memory_bytes(config_of(bench))),
        pixels_(static_cast<std::size_t>(bench.core_count()) * kPixels * sizeof(float)) {
    media_engine_config config = config_of(bench);
    config.memory = memory_.data();
    config.memory_bytes = media_engine_memory_needed(&config);
    const media_engine_status status = media_engine_open(&engine_, &config);
    if (status != MEDIA_ENGINE_OK) throw Error(ErrorKind::kData, "media engine", media_engine_status_text(status));
    const std::string name = std::to_string(kWidth) + " x " + std::to_string(kHeight) + " to " + std::to_string(kSide);
    for (const int core : bench.cores())
      probes.push_back({name, core_place(core), "pictures/s", true, core, false, [this] { return alone(); }, {}});
    probes.push_back({name, core_place(-1), "pictures/s", true, -1, false, [this] { return together(); }, {}});
  }
  ~JpegItem() override { media_engine_close(engine_); }

 private:
  static constexpr std::uint32_t kSide = 288;
  static constexpr std::size_t kPixels = std::size_t{3} * kSide * kSide;

  static std::size_t memory_bytes(const media_engine_config& config) { return media_engine_memory_needed(&config); }

  void decode(int thread) {
    media_engine_job job = {};
    job.sequence = static_cast<std::uint64_t>(thread);
    job.encoded = picture_.data();
    job.encoded_bytes = picture_.size();
    job.pixels = pixels_.floats() + static_cast<std::size_t>(thread) * kPixels;
    job.side = kSide;
    job.preparation = MEDIA_ENGINE_TRAINING;
    job.element = MEDIA_ENGINE_FLOAT32;
    for (double& value : job.std) value = 0.5;
    media_engine_completion completion = {};
    if (media_engine_submit(engine_, &job) != MEDIA_ENGINE_OK ||
        media_engine_wait(engine_, &completion, kWaitNs) != MEDIA_ENGINE_OK || completion.status != MEDIA_ENGINE_OK)
      BASCULE_CHECK(false);  // a picture and an engine of our own
  }

  double alone() {
    return 1.0 / seconds_of(bench_, [&] { decode(0); });
  }
  double together() {
    const std::int64_t pictures = std::int64_t{2} * bench_.core_count();
    const double seconds =
        seconds_of(bench_, [&] { bench_.share(pictures, [&](std::int64_t, int thread) { decode(thread); }); });
    return static_cast<double>(pictures) / seconds;
  }

  static constexpr std::uint64_t kWaitNs = 60'000'000'000;
  Workbench& bench_;
  std::vector<std::uint8_t> picture_;
  AlignedMemory memory_, pixels_;
  media_engine* engine_ = nullptr;
};

}  // namespace

std::unique_ptr<Item> make_jpeg_item(Workbench& bench) { return std::make_unique<JpegItem>(bench); }

}  // namespace bascule
