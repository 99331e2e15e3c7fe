/* Loop devices: a file as a block device. A device goes by itself when nobody uses it any more, so
 * nothing that is killed leaves one behind.
 *
 * Two devices on one file would destroy its file system. So whoever attaches a file holds a lock on
 * it, which the device inherits: it lasts exactly as long as the file is attached, by whomever. */
#pragma once

struct cay_error;

/* 0 if this process can have loop devices. */
int loop_probe(struct cay_error *err);

/* The device of the file, which is open for reading and writing and regular: the one that it is
 * attached to already, or a new one. Returns a descriptor of the device, which stays attached as
 * long as it is open or mounted. */
int loop_attach(int file, struct cay_error *err);

/* Tells the device that its file has grown. 0 or -errno. */
int loop_grow(int loop);
