#include "base/toml/reader.h"

#include <ctype.h>
#include <errno.h>

/* Exactly `digits` digits with a value in [min, max]. */
static bool take_number(char **p, int digits, int min, int max, int *ret) {
    int v = 0;
    for (; digits > 0; digits--, (*p)++) {
        if (!isdigit((unsigned char)**p))
            return false;
        v = v * 10 + (**p - '0');
    }
    *ret = v;
    return v >= min && v <= max;
}

static bool take_char(char **p, char c) {
    if (**p != c)
        return false;
    (*p)++;
    return true;
}

static int days_in_month(int year, int month) {
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return days[month - 1] + (month == 2 && leap);
}

static bool take_date(char **p) {
    int year, month, day;
    return take_number(p, 4, 0, 9999, &year) && take_char(p, '-') &&
           take_number(p, 2, 1, 12, &month) && take_char(p, '-') &&
           take_number(p, 2, 1, days_in_month(year, month), &day);
}

static bool take_time(char **p) {
    int v;
    if (!take_number(p, 2, 0, 23, &v) || !take_char(p, ':') || !take_number(p, 2, 0, 59, &v) ||
        !take_char(p, ':') || !take_number(p, 2, 0, 60, &v)) /* 60: a leap second */
        return false;
    if (!take_char(p, '.'))
        return true;
    if (!isdigit((unsigned char)**p))
        return false;
    while (isdigit((unsigned char)**p))
        (*p)++;
    return true;
}

static bool take_offset(char **p) {
    int v;
    if (**p == 'Z' || **p == 'z') {
        *(*p)++ = 'Z';
        return true;
    }
    if (!take_char(p, '+') && !take_char(p, '-'))
        return false;
    return take_number(p, 2, 0, 23, &v) && take_char(p, ':') && take_number(p, 2, 0, 59, &v);
}

static size_t leading_digits(const char *p) {
    size_t n = 0;
    while (isdigit((unsigned char)p[n]))
        n++;
    return n;
}

/* What the form of the token's start promises. */
static bool looks_like_date(const char *token) {
    size_t n = leading_digits(token);
    return n > 0 && token[n] == '-';
}

static bool looks_like_time(const char *token) {
    size_t n = leading_digits(token);
    return n > 0 && token[n] == ':';
}

int toml_check_time(char *token, enum toml_type *ret_type) {
    char *p = token;
    if (looks_like_time(token)) {
        *ret_type = TOML_LOCAL_TIME;
        return take_time(&p) && *p == '\0' ? 1 : -EINVAL;
    }
    if (!looks_like_date(token))
        return 0;
    *ret_type = TOML_LOCAL_DATE;
    if (!take_date(&p))
        return -EINVAL;
    if (*p == '\0')
        return 1;
    *ret_type = TOML_LOCAL_DATETIME;
    if (*p != 'T' && *p != 't' && *p != ' ')
        return -EINVAL;
    *p++ = 'T';
    if (!take_time(&p))
        return -EINVAL;
    if (*p == '\0')
        return 1;
    *ret_type = TOML_DATETIME;
    return take_offset(&p) && *p == '\0' ? 1 : -EINVAL;
}
