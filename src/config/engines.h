/* The engines, each with one row: its enumerator, its name, and what it is for help texts. All else
 * that the rest of cay knows of an engine is in its descriptor (engine/engines.h), which its folder
 * defines as engine_type_NAME. scripts/check-layers refuses these names elsewhere. */
#pragma once

#define ENGINE_LIST(X)                                                                             \
    X(NATIVE, native)                                                                              \
    X(DOCKER, docker)

/* For help texts and remedies. */
#define ENGINE_CHOICES      "native or docker"
#define ENGINE_CHOICES_HELP "native, or docker: a container of Docker's"
#define ENGINE_BRIDGE       "docker" /* those with a network 'bridge' */

/* Configuration keys of engines: [SECTION] KEY, also the variable CAY_SECTION_KEY, which is how the
 * engine's program gets the value. */
#define ENGINE_KEY_LIST(X)                                                                         \
    X(DOCKER_RUNTIME, DOCKER, "docker", "runtime",                                                 \
      "runtime of containers, such as runsc or kata-runtime; empty: Docker's default")

#define ENGINE_KIND_(id, name) ENGINE_##id,
enum engine_kind { ENGINE_UNSAID, ENGINE_LIST(ENGINE_KIND_) ENGINE_KINDS };
#undef ENGINE_KIND_

#define ENGINE_KEY_(id, engine, section, key, help) ENGINE_KEY_##id,
enum engine_key { ENGINE_KEY_LIST(ENGINE_KEY_) ENGINE_KEYS };
#undef ENGINE_KEY_

/* The names, for an array of them. */
#define ENGINE_NAME(id, name) #name,
