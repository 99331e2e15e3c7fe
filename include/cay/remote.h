/* Sessions, and sandboxes of a Daytona as agents use them: part of <cay.h>. */
#pragma once

#include <cay.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- sessions: shells that stay in a sandbox, here or elsewhere ---- */

/* CAY_CONFLICT if there is one with this name. */
int cay_manager_session_create(cay_manager *m, const char *who, const char *session,
                               struct cay_error *err);
/* Has the shell run a command to its end; what it sets, the next one finds. timeout_ms 0: none. The
 * result is as that of cay_manager_run_command, with nothing to read, and 16 MiB of each stream. */
int cay_manager_session_run(cay_manager *m, const char *who, const char *session,
                            const char *command, int64_t timeout_ms, struct cay_result *result,
                            struct cay_error *err);
/* The same without waiting. ret_number (may be NULL) is what `cay session logs` calls it. */
int cay_manager_session_start(cay_manager *m, const char *who, const char *session,
                              const char *command, uint64_t *ret_number, struct cay_error *err);
/* With everything that it started. */
int cay_manager_session_delete(cay_manager *m, const char *who, const char *session,
                               struct cay_error *err);

/* ---- a Daytona, for an agent with a desktop ---- */

/* Opens the remote of the section [daytona] of the configuration, or of DAYTONA_API_URL and
 * DAYTONA_API_KEY. CAY_UNAUTHORIZED if it has no key, or a wrong one. config NULL: where `cay`
 * looks for it. The functions below work with any other manager too. */
int cay_daytona_open(const char *config, cay_manager **ret, struct cay_error *err);

/* Makes a sandbox of sandbox_image_name with 2 processors, 4 GB of memory, 5 GB of disk, auto-stop
 * after 15 minutes and auto-archive after a day, with the variables that images with a browser and
 * VNC read, and the label id=project_id unless that is NULL. password NULL: VNC_password of the
 * configuration. If sandbox_entrypoint is set it is started in the session "supervisord-session";
 * if that fails the sandbox is removed. ret may be NULL. */
int cay_daytona_create_sandbox(cay_manager *m, const char *password, const char *project_id,
                               struct cay_info **ret, struct cay_error *err);

/* The sandbox, started if it is stopped, archived or broken, with its session; what is on its way
 * is waited for. */
int cay_daytona_get_or_start_sandbox(cay_manager *m, const char *who, struct cay_info **ret,
                                     struct cay_error *err);

/* With all of its files, whatever it does. */
int cay_daytona_delete_sandbox(cay_manager *m, const char *who, struct cay_error *err);

#ifdef __cplusplus
}
#endif
