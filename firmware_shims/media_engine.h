/* SPDX-License-Identifier: Apache-2.0 */
/* media_engine.h: encoded pictures in, pixels ready for the model out. The driver of a hardware picture decoder
 * exports this interface. Formats that a device does not decode go through the same jobs to the host engine beside it.
 *
 * C11 and C++17. An engine is opened with a fixed memory budget and takes no more; jobs go into a bounded queue that
 * says "full" rather than wait; completions come back in any order. A job states policy, not geometry: the engine
 * parses the header, the orientation and the colour space itself.
 *
 *   media_engine_config config = media_engine_default_config(media_engine_builtin());
 *   config.memory_bytes = media_engine_memory_needed(&config);
 *   config.memory = ...;                                        // 64-byte aligned, yours, until close
 *   media_engine* engine;
 *   if (media_engine_open(&engine, &config) != MEDIA_ENGINE_OK) ...
 *   media_engine_submit(engine, &job);                          // FULL: wait for a completion, submit again
 *   media_engine_wait(engine, &completion, timeout_ns);         // completion.sequence says whose
 *   media_engine_close(engine);
 *
 * Ownership. `encoded` and `pixels` of a job are the caller's; they must live, and be left alone, from submit until the
 * job comes back: by its completion, by a cancel that says OK, by reset or by close. The engine writes nothing outside
 * `pixels`, `completion` and its own budget.
 *
 * Threads. submit, poll, wait, cancel and statistics may be called from any threads at the same time. reset may be
 * called while other threads are in those calls; open and close may not. Where `works_in_poll` is set the engine has no
 * threads of its own: a job runs inside the poll or wait of some thread, at most `config.units` of them at once, and
 * that very call returns its completion. Code that does "submit one, wait for one" in every worker is right for both
 * kinds of engine.
 *
 * After open no call allocates. No clock decides what a job's pixels or status are: limits on work are counts. */
#ifndef BASCULE_FIRMWARE_SHIMS_MEDIA_ENGINE_H
#define BASCULE_FIRMWARE_SHIMS_MEDIA_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Goes up when a struct or the meaning of a field changes. */
#define MEDIA_ENGINE_API_VERSION 6

/* 0: done. 1..99: an answer or a caller's mistake, no picture and no device is at fault. 100..199: this picture is bad,
 * the next may be good. 200..: the device is bad, whatever the picture. Only numbers below 100 that are marked (*) and
 * those of 100 and more appear in a completion. */
typedef enum media_engine_status {
  MEDIA_ENGINE_OK = 0,          /* (*) */
  MEDIA_ENGINE_FULL = 1,        /* submit: `queue_depth` jobs are in; take a completion first */
  MEDIA_ENGINE_EMPTY = 2,       /* poll: nothing has completed; wait: nothing is in that this thread could wait for */
  MEDIA_ENGINE_TIMED_OUT = 3,   /* wait: nothing completed in time; the jobs are still in */
  MEDIA_ENGINE_BUSY = 4,        /* cancel: the job has begun; its completion will come */
  MEDIA_ENGINE_NOT_FOUND = 5,   /* cancel: no such job is in */
  MEDIA_ENGINE_INVALID = 6,     /* an argument breaks its rule; nothing was done */
  MEDIA_ENGINE_UNSUPPORTED = 7, /* the capabilities do not have it (element type, preparation, API version) */
  MEDIA_ENGINE_NO_MEMORY = 8,   /* open: `memory_bytes` is less than media_engine_memory_needed() */

  MEDIA_ENGINE_PICTURE_EMPTY = 100,        /* no bytes at all */
  MEDIA_ENGINE_PICTURE_OTHER_FORMAT = 101, /* not JPEG, PNG or still WebP; detail: media_engine_format */
  MEDIA_ENGINE_PICTURE_BROKEN = 102,       /* a header or table is wrong; detail: libjpeg's message code */
  MEDIA_ENGINE_PICTURE_UNSUPPORTED = 103,  /* JPEG of 12 or 16 bits, lossless, hierarchical, with 2 or 5 components or
                                            * odd sampling; PNG or WebP where the engine's capabilities lack it */
  MEDIA_ENGINE_PICTURE_TRUNCATED = 104,    /* ends before its end marker */
  MEDIA_ENGINE_PICTURE_DAMAGED = 105,      /* the compressed data is damaged; detail: libjpeg's message code */
  MEDIA_ENGINE_PICTURE_TOO_MANY_PIXELS = 106, /* over `max_megapixels` */
  MEDIA_ENGINE_PICTURE_TOO_MANY_SCANS = 107,  /* over `max_scans` */
  MEDIA_ENGINE_PICTURE_TOO_MUCH_WORK = 108,   /* over `max_scan_megapixels` */
  MEDIA_ENGINE_PICTURE_TOO_LARGE = 109,       /* needs more than `picture_bytes` of memory */
  MEDIA_ENGINE_PICTURE_TOO_ELONGATED = 110,   /* a side would become 0 after the resize; detail: how many times the
                                               * shorter side the longer one may be, a whole number; 0: no picture fits */

  MEDIA_ENGINE_DEVICE_GONE = 200,        /* does not answer any more; detail: the engine's own code, as in all below */
  MEDIA_ENGINE_DEVICE_FAILED = 201,      /* answers, but failed this job after all retries */
  MEDIA_ENGINE_DEVICE_BAD_FIRMWARE = 202 /* a version that the driver does not know */
} media_engine_status;

/* The format of a file, by its first bytes. */
typedef enum media_engine_format {
  MEDIA_ENGINE_FORMAT_UNKNOWN = 0,
  MEDIA_ENGINE_FORMAT_JPEG = 1,
  MEDIA_ENGINE_FORMAT_PNG = 2,
  MEDIA_ENGINE_FORMAT_WEBP = 4, /* one picture */
  /* Below: told apart only to be named. */
  MEDIA_ENGINE_FORMAT_GIF = 3,
  MEDIA_ENGINE_FORMAT_BMP = 5,
  MEDIA_ENGINE_FORMAT_TIFF = 6,
  MEDIA_ENGINE_FORMAT_AVIF = 7,
  MEDIA_ENGINE_FORMAT_HEIC = 8,
  MEDIA_ENGINE_FORMAT_JPEG_XL = 9,
  MEDIA_ENGINE_FORMAT_JPEG_2000 = 10,
  MEDIA_ENGINE_FORMAT_ICO = 11,
  MEDIA_ENGINE_FORMAT_PSD = 12,
  MEDIA_ENGINE_FORMAT_SVG = 13,
  MEDIA_ENGINE_FORMAT_XML = 14,
  MEDIA_ENGINE_FORMAT_HTML = 15,
  MEDIA_ENGINE_FORMAT_PDF = 16,
  MEDIA_ENGINE_FORMAT_GZIP = 17,
  MEDIA_ENGINE_FORMAT_ZIP = 18,
  MEDIA_ENGINE_FORMAT_NETPBM = 19,
  MEDIA_ENGINE_FORMAT_MP4 = 20,
  MEDIA_ENGINE_FORMAT_TEXT = 21,
  MEDIA_ENGINE_FORMAT_ANIMATED_WEBP = 22,
  MEDIA_ENGINE_FORMATS /* how many there are */
} media_engine_format;

/* `bytes` may be NULL where `size` is 0, which is MEDIA_ENGINE_FORMAT_UNKNOWN. */
media_engine_format media_engine_format_of(const uint8_t* bytes, size_t size);

/* Set in the `detail` of a bad picture where it was a PNG or a WebP. */
#define MEDIA_ENGINE_DETAIL_PNG 0x80000000u
#define MEDIA_ENGINE_DETAIL_WEBP 0x40000000u

/* An English sentence without a full stop, static, for any number; unknown numbers included. */
const char* media_engine_status_text(media_engine_status status);
/* The same for a completion's status, with what its detail adds: "is GIF; convert it to JPEG or PNG". */
const char* media_engine_picture_text(media_engine_status status, uint32_t detail);
/* 1 if `status` speaks about one picture (100..199), else 0. */
int media_engine_is_bad_picture(media_engine_status status);
/* 1 if `status` speaks about the device (200 and more), else 0. */
int media_engine_is_bad_device(media_engine_status status);

/* How a picture becomes `side` x `side` pixels. Both decode as libjpeg does by default, a PNG and a WebP as Pillow does
 * (samples of 16 bits to their high byte, but gray ones cut at 255; transparency and gamma ignored), turn upright
 * (EXIF, then XMP) and make RGB, and then: */
typedef enum media_engine_preparation {
  /* shorter side to `shortest_edge` by an antialiased `interpolation` in float, nothing rounded; centre crop;
   * (v/255 - mean)/std. With `augment` a random part of the picture is resized instead */
  MEDIA_ENGINE_TRAINING = 1,
  /* the bytes of Transformers' image processor (torchvision): shorter side to `shortest_edge`, longer at most
   * 1333/800 of it, both down to multiples of `size_divisor`, integer bicubic, crop or zero border; (v - levels mean) /
   * (levels std), all in float32 */
  MEDIA_ENGINE_PROCESSOR = 2,
  /* the bytes of those image processors that stretch (torchvision): both sides to `shortest_edge`, whatever their
   * ratio, by integer `interpolation`; centre crop; (v - levels mean) / (levels std), all in float32 */
  MEDIA_ENGINE_SQUARE_PROCESSOR = 3
} media_engine_preparation;

/* The filter of MEDIA_ENGINE_TRAINING and MEDIA_ENGINE_SQUARE_PROCESSOR, widened where it shrinks. */
typedef enum media_engine_interpolation {
  MEDIA_ENGINE_BICUBIC = 0, /* a = -0.5 */
  MEDIA_ENGINE_BILINEAR = 1
} media_engine_interpolation;

/* Random changes to a picture of MEDIA_ENGINE_TRAINING. They depend on the job's random_* fields and the size of the
 * upright picture alone: every engine gives the same pixels. Words w0..w3 are those of Philox4x32-10 under `random_key`
 * at the counter (index, random_counter); u(w) = (w + 1/2) / 2^32; exp, log and rounding (half to even) are exact or
 * those of src/base/elementary.h. */
typedef enum media_engine_augment {
  MEDIA_ENGINE_AUGMENT_NONE = 0,
  /* Random resized crop, as torchvision's, of a picture of W x H. For index 0..9: a box of the area
   * W H (scale[0] + (scale[1] - scale[0]) u(w0)) and the ratio of width to height exp(log ratio[0] + (log ratio[1] -
   * log ratio[0]) u(w1)), its sides rounded; if it fits, its top is the upper half of the product w2 (H - height + 1),
   * its left that of w3 (W - width + 1). After ten that do not fit, the largest centred box whose ratio is allowed. It
   * is resized to `side` x `side`, and mirrored left to right if bit 0 of w0 at index 16 is set. */
  MEDIA_ENGINE_CROP_FLIP = 1
} media_engine_augment;

typedef enum media_engine_element {
  MEDIA_ENGINE_FLOAT32 = 1,
  MEDIA_ENGINE_BFLOAT16 = 2 /* reserved: no engine has it yet */
} media_engine_element;

/* An engine kind: what a board support package provides. Opaque; named by the functions below. */
typedef struct media_engine_driver media_engine_driver;
/* An open engine. Lies inside the memory that was given at open. */
typedef struct media_engine media_engine;

/* The engine kind that this program was built with (`-Dmedia_engine=`). */
const media_engine_driver* media_engine_builtin(void);
/* libjpeg-turbo, libpng and libwebp in the threads that poll. Always linked: what a lost device falls back to. */
const media_engine_driver* media_engine_host(void);

/* The capabilities of an engine kind. */
typedef struct media_engine_capabilities {
  uint32_t api_version;      /* MEDIA_ENGINE_API_VERSION of the engine */
  uint32_t firmware_version; /* of the device; major << 16 | minor; 0: has none */
  const char* name;          /* "host"; static, lower case, as in `-Dmedia_engine=` */
  uint32_t preparations;     /* bit n set: media_engine_preparation n */
  uint32_t elements;         /* bit n set: media_engine_element n */
  uint32_t formats;          /* bit n set: media_engine_format n */
  uint32_t works_in_poll;    /* 1: jobs run in the threads that poll (see "Threads") */
  uint32_t max_units;        /* largest `units` of a config */
  uint32_t max_queue_depth;  /* largest `queue_depth` of a config */
  uint32_t max_side;         /* largest `max_side` of a config, pixels */
} media_engine_capabilities;

media_engine_capabilities media_engine_query(const media_engine_driver* driver);

/* All that an engine will ever have. Begin with media_engine_default_config(). */
typedef struct media_engine_config {
  uint32_t api_version;              /* MEDIA_ENGINE_API_VERSION of the caller */
  const media_engine_driver* driver; /* which kind of engine */
  void* memory;                      /* the budget: 64-byte aligned, caller's, until close; contents need not be zero */
  size_t memory_bytes;               /* at least media_engine_memory_needed(); what is beyond it is not touched */
  uint32_t queue_depth;              /* jobs in at once, queued or running: 1..max_queue_depth; default 16 */
  uint32_t units;      /* pictures decoded at the same time: 1..max_units; default 1. For an engine that works in
                        * poll: the number of threads that will poll */
  uint32_t max_side;   /* largest `side` of a job: 1..capabilities.max_side pixels; default 384 */
  uint32_t max_pixels; /* a picture with more is refused at its header; default 178 956 970, PIL's limit */
  uint32_t max_scans;  /* scans of a progressive or non-interleaved picture; default 500 */
  uint32_t max_scan_megapixels; /* the bound on time: width x height x scans of a picture with several scans, in units
                                 * of 10^6; default 2000, some ten seconds at worst */
  size_t picture_bytes;         /* working memory of one picture: what the decoder and the resize may take. A picture
                                 * of one scan takes some megabytes whatever its size, one of several scans 3 bytes a
                                 * pixel (4:2:0) or 6 (4:4:4), an interlaced PNG up to 3, a WebP 3, with alpha 9.3,
                                 * lossless 7. A JPEG may use all of it, others a quarter of it, whatever other units do,
                                 * so that a verdict does not depend on what runs beside; default 64 MiB */
  uint32_t scale_in_decoder;    /* 1: let the decoder halve (several times) what is more than twice too large in the
                                 * inverse transform. Faster, other pixels; 0 by default */
  const char* options; /* words "name=value" that only this kind of engine knows, apart by spaces; read by open alone.
                        * NULL by default: none */
  uint32_t host_units; /* not 0: media_engine_host() stands beside the device with this many units, and decodes what the
                        * device's `formats` lack in the threads that poll; the whole then works as an engine that works
                        * in poll. Ignored by engines that work in poll. 0 by default */
  uint32_t fallback; /* 1: when the device is gone for good, or is not fit for use when it is opened, its jobs go on in
                      * the host's units; no device's status is then ever given out. Needs `host_units`. 0 by default */
  void (*on_fallback)(media_engine_status why); /* called once when that happens, in the thread that finds it, which may
                                                 * be that of open; NULL by default */
} media_engine_config;

/* NULL, or why `option`, one word of a config's `options`, is not understood: static. */
const char* media_engine_option_problem(const media_engine_driver* driver, const char* option);

media_engine_config media_engine_default_config(const media_engine_driver* driver);

/* The bytes of `memory` that open will ask for; 0 if a field breaks its rule. `memory` and `memory_bytes` are not read.
 */
size_t media_engine_memory_needed(const media_engine_config* config);

/* OK and *engine; or INVALID, UNSUPPORTED, NO_MEMORY or a device's status, and *engine is NULL. */
media_engine_status media_engine_open(media_engine** engine, const media_engine_config* config);

typedef struct media_engine_job {
  uint64_t sequence;      /* the caller's name for the job; unique among those that are in */
  const uint8_t* encoded; /* the file's bytes, read only; may be NULL where encoded_bytes is 0 */
  size_t encoded_bytes;   /* 0 is a bad picture, not a mistake */
  void* pixels;         /* 3 x side x side elements: planes R, G, B, rows from the top, no gaps. Aligned to an element.
                         * Contents are undefined unless the completion says OK */
  uint32_t side;        /* 1..config.max_side pixels */
  uint32_t preparation; /* media_engine_preparation */
  uint32_t element;     /* media_engine_element */
  uint32_t raw;         /* 1: values 0..255 before normalising (training: not rounded, not clamped); mean, std unread */
  double mean[3];       /* of R, G, B in 0..1 */
  double std[3];        /* positive */
  uint32_t shortest_edge; /* up to 65536. Training, square processor: from `side` on, 0 stands for `side`; not read
                           * with `augment`. Processor: 0: the picture is cropped as it is */
  uint32_t interpolation; /* media_engine_interpolation; not read for MEDIA_ENGINE_PROCESSOR */
  /* For MEDIA_ENGINE_TRAINING; otherwise not read. */
  uint32_t augment;           /* media_engine_augment; the rest is read only with it */
  uint32_t random_key[2];     /* any */
  uint32_t random_counter[3]; /* any */
  double crop_scale[2];       /* least and most area of the crop, of the picture's: 0..1 */
  double crop_ratio[2];       /* least and most width / height of the crop: 1e-3..1e3 */
  /* For both processors; otherwise not read. */
  uint32_t size_divisor; /* 1..65536; not read for MEDIA_ENGINE_SQUARE_PROCESSOR */
  double levels;         /* of a sample: 255, or 1 where mean and std are of 0..255 already; positive */
} media_engine_job;

typedef struct media_engine_completion {
  uint64_t sequence;    /* of the job */
  int32_t status;       /* media_engine_status: OK, 100.. or 200.. */
  uint32_t detail;      /* status codes say what; else 0 */
  uint32_t width;       /* upright, pixels; 0 where the header was not understood */
  uint32_t height;      /* upright, pixels; 0 where the header was not understood */
  uint32_t orientation; /* what was undone: 1..8 as in EXIF; 0 where the header was not understood */
} media_engine_completion;

/* Queues one picture; never waits, never runs it. OK, FULL (also while a reset is under way), INVALID (a field breaks
 * its rule, or the sequence is in already), UNSUPPORTED, or a device's status. The job is copied: `job` itself may go.
 */
media_engine_status media_engine_submit(media_engine* engine, const media_engine_job* job);

/* OK and one completion; EMPTY if there is none now; or a device's status. An engine that works in poll runs one job
 * here, and says EMPTY if none is queued or all units are busy. */
media_engine_status media_engine_poll(media_engine* engine, media_engine_completion* completion);

/* As poll, but waits. EMPTY: no job is in that this call could return (an engine that works in poll: none is queued).
 * TIMED_OUT after timeout_ns without a completion; a job that runs in this thread is finished, not timed. */
media_engine_status media_engine_wait(media_engine* engine, media_engine_completion* completion, uint64_t timeout_ns);

/* OK: the job had not begun and is the caller's again, no completion will come. BUSY or NOT_FOUND otherwise. */
media_engine_status media_engine_cancel(media_engine* engine, uint64_t sequence);

/* Gives every job back: on return none is in, no completion of an earlier job will come, and nothing of theirs is read
 * or written any more. A poll or wait that was running one returns EMPTY. Statistics stay. OK, or a device's status. */
media_engine_status media_engine_reset(media_engine* engine);

/* Faults that a driver may find in its device. The driver recovers from each, by asking again or by resetting the
 * device, and counts it. */
typedef enum media_engine_fault {
  MEDIA_ENGINE_FAULT_LOST_COMPLETION,       /* by time-out: the device has done with a job of which nothing was heard */
  MEDIA_ENGINE_FAULT_DUPLICATED_COMPLETION, /* of a job that had completed */
  MEDIA_ENGINE_FAULT_LATE_COMPLETION,       /* of a job that had been given up and submitted again */
  MEDIA_ENGINE_FAULT_CORRUPTED_COMPLETION,  /* its checksum or its number is wrong */
  MEDIA_ENGINE_FAULT_CORRUPTED_DESCRIPTOR,  /* the device read one whose checksum is wrong */
  MEDIA_ENGINE_FAULT_SHORT_TRANSFER,        /* fewer pixels than asked for, or others than the device had */
  MEDIA_ENGINE_FAULT_DECODE_ERROR,          /* a unit failed, without blaming the picture */
  MEDIA_ENGINE_FAULT_STALLED_UNIT,          /* by time-out: a unit does not come to an end */
  MEDIA_ENGINE_FAULT_QUEUE_OVERRUN,         /* the device had no room for a completion */
  MEDIA_ENGINE_FAULT_LOST_DOORBELL,         /* the device has not heard of a job */
  MEDIA_ENGINE_FAULT_SURPRISE_RESET,        /* the device has reset itself */
  MEDIA_ENGINE_FAULT_RESET_STORM,           /* the same, again and before anything was done in between */
  MEDIA_ENGINE_FAULT_HUNG_RESET,            /* a reset did not come to an end */
  MEDIA_ENGINE_FAULT_WRONG_FIRMWARE,        /* the device started a version that the driver does not know */
  MEDIA_ENGINE_FAULT_SPURIOUS_INTERRUPT,    /* an interrupt without a cause */
  MEDIA_ENGINE_FAULT_DEVICE_GONE,           /* no register answers, or resets did not help */
  MEDIA_ENGINE_FAULTS                       /* how many there are */
} media_engine_fault;

/* The most faults that the options of a simulated device may name. */
enum { MEDIA_ENGINE_FAULT_RULES = 32 };

/* "lost_completion"; static; NULL for other numbers. */
const char* media_engine_fault_name(uint32_t fault);

/* Counts since open. submitted = completed + cancelled + reset_away + those that are in. */
typedef struct media_engine_statistics {
  uint64_t submitted;                   /* jobs that submit took */
  uint64_t completed;                   /* completions handed out, good and bad */
  uint64_t bad_pictures;                /* of these: status 100..199 */
  uint64_t device_errors;               /* of these: status 200.. */
  uint64_t cancelled;                   /* jobs that cancel gave back */
  uint64_t reset_away;                  /* jobs that reset gave back */
  uint64_t refused_full;                /* submits answered FULL */
  uint64_t retries;                     /* jobs that the driver submitted to the device again */
  uint64_t device_resets;               /* resets of the device by the driver itself */
  uint64_t encoded_bytes;               /* of completed jobs */
  uint64_t picture_pixels;              /* width x height of jobs completed with OK */
  uint64_t peak_picture_bytes;          /* most working memory that one picture took, of `picture_bytes` */
  uint64_t in_flight;                   /* jobs that are in now */
  uint64_t faults[MEDIA_ENGINE_FAULTS]; /* found by the driver, by media_engine_fault */
  uint64_t fallbacks;                   /* 1: the device was given up, and the host engine does its work */
  uint64_t fallback_jobs;               /* jobs that were in the device then, and went to the host engine */
} media_engine_statistics;

media_engine_statistics media_engine_get_statistics(media_engine* engine);

/* As reset, then ends the engine; its memory is the caller's again. No other thread may be in a call. NULL is ignored.
 */
void media_engine_close(media_engine* engine);

#ifdef __cplusplus
}
#endif

#endif
