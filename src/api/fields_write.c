#include "api/fields_json.h"
#include "api/shape/daytona_shape.h"
#include "api/shape/shape.h"

static void put_words(struct jsonw *w, const char *key, const struct strv *words) {
    jsonw_key(w, key);
    jsonw_begin_array(w);
    for (size_t i = 0; i < words->len; i++)
        jsonw_string(w, words->v[i]);
    jsonw_end_array(w);
}

static void put_number(struct jsonw *w, const struct field *f, const struct sandbox_record *r) {
    bool is_kept = f->unkept == 0 || !shape_is_unkept(r, f->unkept);
    int64_t number = is_kept ? field_number(f, r) : 0;
    switch (f->unit) {
    case UNIT_BYTES:
        jsonw_put_integer(w, f->json, number);
        if (f->daytona != NULL)
            jsonw_put_integer(w, f->daytona, daytona_gib((uint64_t)number));
        return;
    case UNIT_CPUS:
        if (number % CPU_QUOTA_US == 0) /* a fraction takes longer to write */
            jsonw_put_integer(w, f->json, number / CPU_QUOTA_US);
        else
            jsonw_put_number(w, f->json, (double)number / CPU_QUOTA_US);
        if (f->daytona != NULL)
            jsonw_put_integer(w, f->daytona, (number + CPU_QUOTA_US - 1) / CPU_QUOTA_US);
        return;
    case UNIT_TIME:
        daytona_put_time(w, f->json, number);
        return;
    default:
        jsonw_put_integer(w, f->json, number);
    }
}

void fields_json_put(struct jsonw *w, const struct field *f, const struct sandbox_record *r) {
    bool is_zero = field_is_zero(f, r);
    if (is_zero && (f->flags & FIELD_SPARSE) != 0)
        return;
    switch (f->kind) {
    case FIELD_TEXT:
        jsonw_put_string(w, f->json,
                         is_zero && f->otherwise != NULL ? f->otherwise : field_of(f, r));
        return;
    case FIELD_FLAG:
        jsonw_put_bool(w, f->json, !is_zero);
        return;
    case FIELD_CHOICE:
        jsonw_put_string(w, f->json, field_choice(f, r));
        return;
    case FIELD_WORDS:
        put_words(w, f->json, field_of(f, r));
        return;
    case FIELD_PAIRS:
        daytona_put_pairs(w, f->json, field_of(f, r));
        return;
    default:
        put_number(w, f, r);
    }
}
