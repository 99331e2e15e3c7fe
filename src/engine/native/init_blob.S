/* cay-init as bytes: one program to install, and nothing to find at run time. */
    .section .rodata
    .global native_init_begin, native_init_end
    .hidden native_init_begin, native_init_end
    .balign 16
native_init_begin:
    .incbin CAY_INIT_FILE
native_init_end:
    .byte 0
    .section .note.GNU-stack, "", @progbits
