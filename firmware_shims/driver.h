/* SPDX-License-Identifier: Apache-2.0 */
/* The interface that an engine kind implements behind media_engine.h. Callers of engines never see it. */
#ifndef BASCULE_FIRMWARE_SHIMS_DRIVER_H
#define BASCULE_FIRMWARE_SHIMS_DRIVER_H

#include "firmware_shims/media_engine.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Every call of media_engine.h lands in the function of the same name. Pointers that must not be NULL, the API version,
 * fields that have limits in the capabilities and all fields of a job have been checked before. */
struct media_engine_driver {
  media_engine_capabilities (*query)(void);
  size_t (*memory_needed)(const media_engine_config* config);
  media_engine_status (*open)(media_engine** engine, const media_engine_config* config);
  media_engine_status (*submit)(media_engine* engine, const media_engine_job* job);
  media_engine_status (*poll)(media_engine* engine, media_engine_completion* completion);
  media_engine_status (*wait)(media_engine* engine, media_engine_completion* completion, uint64_t timeout_ns);
  media_engine_status (*cancel)(media_engine* engine, uint64_t sequence);
  media_engine_status (*reset)(media_engine* engine);
  media_engine_statistics (*statistics)(media_engine* engine);
  void (*close)(media_engine* engine);
  size_t (*memory_without_jpeg)(const media_engine_config* config); /* what the engine uses of its memory, from the
                                                                     * front; the rest may be another's until it is
                                                                     * given its first JPEG */
  const char* (*option_problem)(const char* option);                /* NULL: the engine has no options */
};

/* The driver of an engine that was opened with `host_units`: the config's driver with the host's beside it. Its
 * query tells what jobs may ask of both. */
const media_engine_driver* media_engine_companion(void);

/* How an engine's own struct begins. */
struct media_engine {
  const media_engine_driver* driver;
  uint32_t max_side; /* of the config: what jobs are checked against */
};

#ifdef __cplusplus
}
#endif

#endif
