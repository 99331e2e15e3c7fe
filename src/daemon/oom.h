#pragma once

/* When memory runs out, sandboxes, builds and pulls go before what keeps them. Front and launcher
 * inherit it; sandboxes and cay-image do not keep it. A score that is lower already stays, and an
 * ordinary user may not lower any. A failure is logged. */
void oom_protect(void);
