/* SPDX-License-Identifier: Apache-2.0 */
/* registers.h: all that the simulated media engine and its driver know of each other. C11 and C++17.
 *
 * The device decodes pictures in `UNITS` units. The driver puts descriptors into the submission ring, in host memory,
 * and rings a doorbell; units take descriptors in order, copy them by DMA, decode into the device's own memory, write
 * the pixels to the host by DMA, and put a completion into the completion ring. Completions come in any order.
 *
 * Rings. Both are arrays in host memory with a power of two of entries. Heads and tails count entries since the device
 * was enabled, modulo 2^32; entry n lies at index n % size. A ring is empty where head and tail are equal.
 *   submission ring:  the driver writes entries, then SQ_TAIL (the doorbell); the device reads them, then moves SQ_HEAD
 *   completion ring:  the device writes entries, then moves CQ_TAIL; the driver reads them, then writes CQ_HEAD
 *
 * Start:  ID and FIRMWARE are read; rings, limits and INT_ENABLE are written; CONTROL = ENABLE. While it is enabled, a
 *         write to any of those but INT_ENABLE does nothing.
 * Reset:  CONTROL = RESET. READY falls, and rises again when no unit works and no DMA is under way: from then on the
 *         device touches no host memory. Every register is as after power-up, but BOOT_COUNT, which has grown.
 * Gone:   every register of a device that is not there reads as all ones.
 *
 * Order.  What the driver wrote to memory before a register is seen by the device after it reads that register, and the
 *         other way round. A unit's UNIT register lets go of a descriptor no earlier than CQ_TAIL counts its
 * completion: a descriptor below SQ_HEAD that no unit holds, and of which no completion is in the ring, is lost. */
#ifndef BASCULE_FIRMWARE_SHIMS_HPU_SIM_REGISTERS_H
#define BASCULE_FIRMWARE_SHIMS_HPU_SIM_REGISTERS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Byte offsets of 32-bit registers. r: read only; rw: reads back what was written; others as said. */
enum hpu_sim_register {
  HPU_SIM_ID = 0x000,         /* r: HPU_SIM_ID_VALUE */
  HPU_SIM_FIRMWARE = 0x004,   /* r: major << 16 | minor; a driver knows a major version, minors only add */
  HPU_SIM_BOOT_COUNT = 0x008, /* r: starts of the firmware since power-up, 1 at first; a change is a reset */
  HPU_SIM_STATUS = 0x00C,     /* r: HPU_SIM_STATUS_ bits */
  HPU_SIM_CONTROL = 0x010,    /* w: HPU_SIM_CONTROL_ bits; reads 0 */
  HPU_SIM_UNITS = 0x014,      /* r: decode units */
  HPU_SIM_PICTURE_MS = 0x018, /* r: what a picture takes from doorbell to completion where no other waits, at its
                               * slowest by the device's own rate and latency, milliseconds rounded up */

  HPU_SIM_SQ_BASE_LOW = 0x020,  /* rw: host address of the submission ring, 64-byte aligned */
  HPU_SIM_SQ_BASE_HIGH = 0x024, /* rw */
  HPU_SIM_SQ_SIZE = 0x028,      /* rw: entries, a power of two, at most HPU_SIM_MOST_ENTRIES */
  HPU_SIM_SQ_TAIL = 0x02C,      /* rw: the doorbell; reads what the device has heard */
  HPU_SIM_SQ_HEAD = 0x030,      /* r: the next entry that a unit will take */
  HPU_SIM_CANCEL = 0x034,       /* w: an entry that no unit shall take; then reads 1 if none will, 0 if one has */

  HPU_SIM_CQ_BASE_LOW = 0x040,  /* rw: host address of the completion ring, 64-byte aligned */
  HPU_SIM_CQ_BASE_HIGH = 0x044, /* rw */
  HPU_SIM_CQ_SIZE = 0x048,      /* rw: entries, a power of two, at most HPU_SIM_MOST_ENTRIES */
  HPU_SIM_CQ_HEAD = 0x04C,      /* rw: the driver has read the entries below */
  HPU_SIM_CQ_TAIL = 0x050,      /* r: the device has written the entries below */

  HPU_SIM_INT_STATUS = 0x060, /* r: why the line was raised, HPU_SIM_INT_ bits; w: ones clear */
  HPU_SIM_INT_ENABLE = 0x064, /* rw: which causes raise the line; 0: the driver polls */

  HPU_SIM_MAX_PIXELS = 0x080,          /* rw: a picture's limits, as in media_engine_config */
  HPU_SIM_MAX_SCANS = 0x084,           /* rw */
  HPU_SIM_MAX_SCAN_MEGAPIXELS = 0x088, /* rw */
  HPU_SIM_FLAGS = 0x08C,               /* rw: HPU_SIM_FLAG_ bits */

  HPU_SIM_UNIT = 0x100,     /* r: + 4 u for unit u: HPU_SIM_UNIT_BUSY | entry, modulo 2^31; 0: idle */
  HPU_SIM_COUNTERS = 0x300, /* r: + 4 n for counter n of hpu_sim_counter, since power-up; a reset leaves them */
  HPU_SIM_INJECTED = 0x400, /* r: + 4 n: how often simulated fault n (their order in board.h) was injected */
  HPU_SIM_END = 0x500
};

#define HPU_SIM_ID_VALUE 0x48505553u /* "HPUS" */
#define HPU_SIM_FIRMWARE_MAJOR 5u    /* what this header describes */
#define HPU_SIM_NOT_THERE 0xFFFFFFFFu
#define HPU_SIM_MOST_UNITS 64u
#define HPU_SIM_MOST_ENTRIES 8192u

#define HPU_SIM_STATUS_READY 0x1u   /* the firmware runs */
#define HPU_SIM_STATUS_ENABLED 0x2u /* units take descriptors */
#define HPU_SIM_STATUS_OVERRUN 0x4u /* a completion found no room in its ring and was dropped; stays until reset */
#define HPU_SIM_STATUS_REFUSED 0x8u /* ENABLE with a ring that breaks its rule; stays until reset */

#define HPU_SIM_CONTROL_ENABLE 0x1u
#define HPU_SIM_CONTROL_RESET 0x2u

#define HPU_SIM_INT_COMPLETION 0x1u /* CQ_TAIL moved */
#define HPU_SIM_INT_ERROR 0x2u      /* STATUS has an error bit */

#define HPU_SIM_FLAG_SCALE_IN_DECODER 0x1u

#define HPU_SIM_UNIT_BUSY 0x80000000u

/* Counters of the device. */
enum hpu_sim_counter {
  HPU_SIM_COUNT_DOORBELLS,   /* heard */
  HPU_SIM_COUNT_FETCHED,     /* descriptors taken by units */
  HPU_SIM_COUNT_DECODED,     /* pictures decoded to their end, good and bad */
  HPU_SIM_COUNT_TRANSFERS,   /* DMA transfers of pixels */
  HPU_SIM_COUNT_COMPLETIONS, /* entries written to the completion ring */
  HPU_SIM_COUNT_INTERRUPTS,  /* times the line was raised */
  HPU_SIM_COUNT_ABANDONED,   /* pictures given up for a reset */
  HPU_SIM_COUNT_COUNTERS
};

/* One picture to decode: 192 bytes in the submission ring, written by the driver. */
typedef struct hpu_sim_descriptor {
  uint32_t entry;         /* its own number in the ring: a stale entry is told by it */
  uint8_t preparation;    /* media_engine_preparation */
  uint8_t element;        /* media_engine_element */
  uint8_t raw;            /* media_engine_job.raw */
  uint8_t interpolation;  /* media_engine_job.interpolation */
  uint64_t job;           /* the driver's name for it; comes back in the completion */
  uint64_t source;        /* host address of the encoded picture */
  uint64_t source_bytes;  /* of it */
  uint64_t target;        /* host address of the pixels */
  uint64_t target_bytes;  /* 3 x side x side elements: the device writes these and no more */
  double mean[3], std[3]; /* as in media_engine_job */
  uint32_t side;          /* pixels */
  uint32_t shortest_edge; /* as in media_engine_job, and the next two */
  double levels;
  uint32_t size_divisor;
  uint32_t augment;                                         /* as in media_engine_job, and all up to crop_ratio */
  uint32_t random_key[2], random_counter[3], reserved_word; /* 0 */
  double crop_scale[2], crop_ratio[2];
  uint32_t reserved_words[3]; /* 0 */
  uint32_t checksum;          /* hpu_sim_checksum of the 47 words before it */
} hpu_sim_descriptor;

/* The result of a job: 64 bytes in the completion ring, written by the device. */
typedef struct hpu_sim_completion {
  uint32_t number;            /* its own number in the ring */
  uint32_t entry;             /* the descriptor's */
  uint64_t job;               /* the descriptor's; 0 where it could not be read */
  int32_t status;             /* OK and 100..199: media_engine_status; else an hpu_sim_error */
  uint32_t detail;            /* as in media_engine_completion */
  uint32_t width, height;     /* upright, pixels */
  uint32_t orientation;       /* 1..8; 0 where the header was not understood */
  uint32_t written_bytes;     /* that the device transferred to `target`; 0 unless OK */
  uint32_t pixels_checksum;   /* hpu_sim_checksum of the pixels in device memory; 0 unless OK */
  uint32_t picture_kib;       /* working memory that the picture took, KiB rounded up */
  uint32_t reserved_words[3]; /* 0 */
  uint32_t checksum;          /* hpu_sim_checksum of the 15 words before it */
} hpu_sim_completion;

/* Why the device did not decode. */
enum hpu_sim_error {
  HPU_SIM_ERROR_DESCRIPTOR = -1, /* its checksum or its number is wrong */
  HPU_SIM_ERROR_DECODE = -2      /* the unit failed; the picture may be good */
};

/* The checksum of `count` words: two running sums in each of eight lanes, so that a changed word, two words exchanged
 * or an end left out shows. */
static inline uint32_t hpu_sim_checksum(const uint32_t* words, uint32_t count) {
  uint32_t sum[8] = {1, 2, 3, 4, 5, 6, 7, 8}, sums[8] = {0, 0, 0, 0, 0, 0, 0, 0};
  uint32_t word[8], result = count, i = 0;
  int lane;
  for (; count - i >= 8; i += 8) {
    memcpy(word, words + i, sizeof word);
    for (lane = 0; lane < 8; ++lane) {
      sum[lane] += word[lane];
      sums[lane] += sum[lane];
    }
  }
  for (lane = 0; i < count; ++i, ++lane) {
    memcpy(word, words + i, sizeof word[0]);
    sum[lane] += word[0];
    sums[lane] += sum[lane];
  }
  for (lane = 0; lane < 8; ++lane) {
    result = (result ^ sum[lane]) * 0x9E3779B1u;
    result = (result ^ sums[lane] ^ result >> 15) * 0x85EBCA77u;
  }
  return result ^ result >> 13;
}

#endif
