#include "lib/python/options.h"

#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"
#include "lib/python/package.h"

const char *const python_types[] = {"others", "process", "report", NULL};

/* ---- asking ---- */

static int put_packages(const char *const *packages, struct buf *b, struct cay_error *err) {
    char shown[64];
    for (size_t i = 0; packages != NULL && packages[i] != NULL; i++) {
        if (i == PYTHON_PACKAGES_MAX)
            return error_set(err, CAY_INVALID_ARGUMENT, "more than %d packages",
                             PYTHON_PACKAGES_MAX);
        if (!python_package_is_valid(packages[i])) {
            error_set(err, CAY_INVALID_ARGUMENT, "'%s' is no name of a package",
                      str_escape(shown, sizeof shown, packages[i]));
            return error_remedy(err, "write it as requests, requests==2.31.0 or 'pandas>=2,<3'");
        }
        (void)buf_printf(b, "package %s\n", packages[i]); /* failures are sticky */
    }
    return 0;
}

static int put_value(const char *word, const char *value, struct buf *b, struct cay_error *err) {
    if (value == NULL || value[0] == '\0')
        return 0;
    for (const char *p = value; *p != '\0'; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            return error_set(err, CAY_INVALID_ARGUMENT, "%s for packages has a control character",
                             word);
    (void)buf_printf(b, "%s %s\n", word, value);
    return 0;
}

static int check_index(const char *url, struct cay_error *err) {
    if (url == NULL || url[0] == '\0' || str_starts(url, "https://") || str_starts(url, "http://"))
        return 0;
    error_set(err, CAY_INVALID_ARGUMENT, "the index of packages is no http:// or https:// address");
    return error_remedy(err, "set python.index_url as https://HOST/simple");
}

bool python_has_options(const struct cay_python *p) {
    return (p->packages != NULL && p->packages[0] != NULL) || p->type != CAY_PYTHON_OTHERS;
}

static int put_install(const struct cay_python *p, struct buf *b, struct cay_error *err) {
    if (p->packages == NULL || p->packages[0] == NULL)
        return 0;
    int r = put_packages(p->packages, b, err);
    if (r == 0)
        r = check_index(p->index_url, err);
    if (r == 0)
        r = put_value("index", p->index_url, b, err);
    return r < 0 ? r : put_value("links", p->find_links, b, err);
}

/* What the runner itself looks for comes first. */
int python_put_options(const struct cay_python *p, struct buf *b, struct cay_error *err) {
    if (p->svg)
        (void)buf_puts(b, "svg\n");
    int r = put_install(p, b, err);
    if (r == 0 && p->type != CAY_PYTHON_OTHERS)
        (void)buf_printf(b, "%s\n", python_types[p->type]);
    if (r == 0 && b->failed)
        r = error_set(err, CAY_RESOURCE_EXHAUSTED, "no memory for the program");
    return r;
}

/* ---- judging ---- */

static int refuse_install(const char *why, struct cay_error *err) {
    char shown[320];
    if (str_equal(why, "network")) {
        error_set(err, CAY_UNAVAILABLE, "packages cannot be installed: the sandbox has no network");
        return error_remedy(err,
                            "allow one (--network or \"network\": "
                            "allow=pypi.org,files.pythonhosted.org), give a folder of wheels "
                            "(--find-links, python.find_links), or use an image that has them, "
                            "such as that of 'make image-data'");
    }
    if (str_equal(why, "pip")) {
        error_set(err, CAY_NOT_FOUND, "packages cannot be installed: there is no pip");
        return error_remedy(err, "use an image that has it, such as --image python:3.12-slim");
    }
    error_set(err, CAY_UNAVAILABLE, "packages cannot be installed: %s",
              str_escape(shown, sizeof shown, why + (str_starts(why, "failed ") ? 7 : 0)));
    return error_remedy(err, "check their names and versions, and what the index or the folder of "
                             "wheels has for this Python");
}

static void add_problem(struct cay_python_report *report, const char *text) {
    if (report->problem_count == CAY_PYTHON_REPORT_MAX)
        return;
    char *copy = strdup(text);
    if (copy != NULL)
        report->problems[report->problem_count++] = copy;
}

static bool left_data(const struct cay_python_result *ret) {
    for (size_t i = 0; i < ret->file_count; i++)
        if (ret->files[i].size > 0)
            return true;
    return ret->files_truncated;
}

int python_judge_options(const struct cay_python *p, struct cay_python_result *ret,
                         struct cay_error *err) {
    struct cay_python_report *report = &ret->report;
    if (ret->not_installed != NULL)
        return refuse_install(ret->not_installed, err);
    if (p->type == CAY_PYTHON_PROCESS && !left_data(ret))
        add_problem(report, "no data was left: save what was processed in the work folder");
    if (p->type == CAY_PYTHON_REPORT && report->path == NULL && report->problem_count == 0)
        add_problem(report, "the program ended before its report could be looked at");
    return 0;
}
