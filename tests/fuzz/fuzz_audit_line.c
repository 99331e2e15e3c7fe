/* Any bytes as a line of a sealed segment of the audit: refused, or a row whose texts end. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "manager/record/audit_line.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok) {
    if (!ok)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char line[1024], again[1024];
    struct audit_row row;
    unsigned char chain[HASH_SIZE];
    int64_t number = 0;
    size_t len = MIN(size, sizeof line - 1);
    memcpy(line, data, len);
    line[len] = '\0';
    memcpy(again, line, sizeof again);
    if (audit_line_parse(line, &row) == 0) {
        require(row.number > 0 && strlen(row.who) < sizeof row.who);
        require(strlen(row.detail) < sizeof row.detail && strchr(row.detail, '\t') == NULL);
    }
    if (audit_line_parse_end(again, "sealed", &number, chain) == 0)
        require(number >= 0);
    return 0;
}
