/* Force-included into every file: functions whose use is always a bug here fail to compile.
 * Each has a bounded or reentrant sibling. */
#pragma once

/* The system headers that declare them must come first, or the poison hits the declarations. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#undef alloca
#undef sprintf
#undef vsprintf
#pragma GCC poison strcpy strcat strncpy strncat stpcpy sprintf vsprintf gets strtok
#pragma GCC poison mktemp tmpnam tempnam localtime gmtime ctime asctime
#pragma GCC poison atoi atol atoll alloca popen system
