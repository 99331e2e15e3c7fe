/* ADD of a local tar archive. */
#pragma once

struct build;
struct cay_error;
struct file_look;
struct file_tree;

/* Unpacks the source into the folder `to` of root, in a confined child, if it is a tar, compressed
 * by gzip, bzip2, xz or zstd or not. 1 if it was one; 0 if it is something else, to be copied. */
int build_add_archive(const struct build *b, const struct file_tree *tree, const char *path,
                      int root, const char *to, const struct file_look *look,
                      struct cay_error *err);
