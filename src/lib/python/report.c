#include "lib/python/report.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/json/json.h"
#include "base/str.h"

enum { HEADER_SIZE = 5 };

struct record {
    unsigned kind;
    const char *data;
    size_t len;
};

/* The record at the front of what is left: true, or false if there is no whole one. */
static bool next_record(const char **at, size_t *left, struct record *ret) {
    if (*left < HEADER_SIZE)
        return false;
    uint32_t len;
    memcpy(&len, *at + 1, sizeof len);
    len = le32toh(len);
    if (len > *left - HEADER_SIZE)
        return false;
    *ret = (struct record){(unsigned char)**at, *at + HEADER_SIZE, len};
    *at += HEADER_SIZE + len;
    *left -= HEADER_SIZE + len;
    return true;
}

/* The part up to the next NUL, which is skipped, or up to the end; NULL without memory. */
static char *take_part(struct record *r) {
    size_t len = strnlen(r->data, r->len);
    char *text = strndup(r->data, len);
    len += len < r->len;
    r->data += len;
    r->len -= len;
    return text;
}

static int take_text(const struct record *r, char **ret) {
    if (*ret != NULL)
        return -EPROTO; /* said twice */
    *ret = strndup(r->data, strnlen(r->data, r->len));
    return *ret == NULL ? -ENOMEM : 0;
}

static int take_frame(struct record *r, struct cay_python_result *ret) {
    if (ret->frame_count >= PYTHON_FRAMES_MAX)
        return -EPROTO;
    if (ret->frames == NULL)
        ret->frames = calloc(PYTHON_FRAMES_MAX, sizeof *ret->frames);
    _cleanup_(freep) char *line = take_part(r);
    if (ret->frames == NULL || line == NULL)
        return -ENOMEM;
    struct cay_python_frame *f = &ret->frames[ret->frame_count];
    if (str_to_u64(line, UINT32_MAX, &f->line) < 0)
        return -EPROTO;
    ret->frame_count++;
    f->file = take_part(r);
    f->function = take_part(r);
    f->source = take_part(r);
    return f->file == NULL || f->function == NULL || f->source == NULL ? -ENOMEM : 0;
}

static int take_figure(struct record *r, struct cay_python_result *ret) {
    if (ret->figure_count >= PYTHON_FIGURES_MAX)
        return -EPROTO;
    if (ret->figures == NULL)
        ret->figures = calloc(PYTHON_FIGURES_MAX, sizeof *ret->figures);
    _cleanup_(freep) char *format = take_part(r);
    if (ret->figures == NULL || format == NULL)
        return -ENOMEM;
    if (!str_equal(format, "png")) /* it becomes the end of a file's name */
        return -EPROTO;
    struct cay_python_figure *f = &ret->figures[ret->figure_count];
    f->data = malloc(r->len > 0 ? r->len : 1);
    if (f->data == NULL)
        return -ENOMEM;
    memcpy(f->data, r->data, r->len);
    f->len = r->len;
    f->format = TAKE_PTR(format);
    ret->figure_count++;
    return 0;
}

static int take_chart(const struct record *r, struct cay_python_result *ret) {
    if (ret->figure_count == 0 || !json_is_plain_object(r->data, r->len))
        return -EPROTO;
    return take_text(r, &ret->figures[ret->figure_count - 1].chart);
}

static int take_svg(const struct record *r, struct cay_python_result *ret) {
    if (ret->figure_count == 0 || r->len > PYTHON_SVG_MAX)
        return -EPROTO;
    return take_text(r, &ret->figures[ret->figure_count - 1].svg);
}

static int take_report(struct record *r, struct cay_python_report *ret) {
    if (ret->path != NULL)
        return -EPROTO;
    ret->path = take_part(r);
    ret->text = strndup(r->data, strnlen(r->data, r->len));
    return ret->path == NULL || ret->text == NULL ? -ENOMEM : 0;
}

static int take_item(const struct record *r, char **items, size_t *count) {
    if (*count >= CAY_PYTHON_REPORT_MAX)
        return -EPROTO;
    items[*count] = strndup(r->data, strnlen(r->data, r->len));
    if (items[*count] == NULL)
        return -ENOMEM;
    ++*count;
    return 0;
}

static int take_record(struct record *r, struct cay_python_result *ret) {
    switch (r->kind) {
    case PYTHON_ENDED:
        return 0;
    case PYTHON_VERSION:
        return take_text(r, &ret->version);
    case PYTHON_TYPE:
        return take_text(r, &ret->type);
    case PYTHON_MESSAGE:
        return take_text(r, &ret->message);
    case PYTHON_TRACEBACK:
        return take_text(r, &ret->traceback);
    case PYTHON_FRAME:
        return take_frame(r, ret);
    case PYTHON_FIGURE:
        return take_figure(r, ret);
    case PYTHON_CHART:
        return take_chart(r, ret);
    case PYTHON_SVG:
        return take_svg(r, ret);
    case PYTHON_NOT_INSTALLED:
        return take_text(r, &ret->not_installed);
    case PYTHON_REPORT_FILE:
        return take_report(r, &ret->report);
    case PYTHON_REPORT_SECTION:
        return take_item(r, ret->report.sections, &ret->report.section_count);
    case PYTHON_REPORT_FIGURE:
        return take_item(r, ret->report.figures, &ret->report.figure_count);
    case PYTHON_REPORT_PROBLEM:
        return take_item(r, ret->report.problems, &ret->report.problem_count);
    default:
        return -EPROTO;
    }
}

static void free_items(char **items, size_t count) {
    for (size_t i = 0; i < count; i++)
        free(items[i]);
}

static void free_document(struct cay_python_report *r) {
    free(r->path);
    free(r->text);
    free_items(r->sections, r->section_count);
    free_items(r->figures, r->figure_count);
    free_items(r->problems, r->problem_count);
}

void python_report_free(struct cay_python_result *r) {
    for (size_t i = 0; i < r->frame_count; i++) {
        free(r->frames[i].file);
        free(r->frames[i].function);
        free(r->frames[i].source);
    }
    for (size_t i = 0; i < r->figure_count; i++) {
        free(r->figures[i].format);
        free(r->figures[i].data);
        free(r->figures[i].chart);
        free(r->figures[i].svg);
    }
    free_document(&r->report);
    free(r->not_installed);
    free(r->version);
    free(r->type);
    free(r->message);
    free(r->traceback);
    free(r->frames);
    free(r->figures);
}

int python_report_read(const struct buf *report, struct cay_python_result *ret) {
    const char *at = report->data;
    size_t left = report->len;
    struct record record;
    int r = 0;
    while (r == 0 && next_record(&at, &left, &record))
        r = take_record(&record, ret);
    return r == -ENOMEM ? r : 0;
}
