/* cay-init as bytes: one program to install, and nothing to find at run time. */
    .section .rodata
    .global init_blob_begin, init_blob_end
    .hidden init_blob_begin, init_blob_end
    .balign 16
init_blob_begin:
    .incbin CAY_INIT_FILE
init_blob_end:
    .byte 0
    .section .note.GNU-stack, "", @progbits
