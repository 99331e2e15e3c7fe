/* The file that a sandbox's disk is: sparse, with an ext4 file system, made once for each size by
 * mke2fs and copied from then on. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct cay_error;

#define DISK_IMAGE "disk" /* in the sandbox's folder */

/* 0 if mke2fs is there. */
int disk_image_probe(struct cay_error *err);

/* Bytes of a file whose file system holds so many bytes of files. */
uint64_t disk_image_size(uint64_t bytes);

/* Bytes of the file system in a file; 0 if there is none. */
uint64_t disk_image_capacity(int file);

/* Whether the file system says of itself that it has errors. Its content is the sandbox's: this
 * reads two numbers and believes neither. */
bool disk_image_is_damaged(int file);

/* Makes DISK_IMAGE in a sandbox's folder. Templates lie in the folder above. A crash leaves a whole
 * one or none. */
int disk_image_make(int folder, uint64_t bytes, uid_t owner, struct cay_error *err);

/* Mounts the file system of a file, or shares the mount that there is. A detached descriptor;
 * -EUCLEAN for one that is damaged, and other -errno. `loop` is its device. */
int disk_image_mount(int loop);
