/* The lines of a sealed segment of the audit (audit_segment.h). Parsing changes the line, which has
 * no newline any more; 0, or -EINVAL for what is not such a line. */
#pragma once

#include "manager/record/audit.h"

/* A row: number, time, who, action, object, result, detail, chain. */
int audit_line_parse(char *line, struct audit_row *ret);
/* The first or the last line: this word, a number and a chain. */
int audit_line_parse_end(char *line, const char *word, int64_t *number,
                         unsigned char chain[static HASH_SIZE]);
