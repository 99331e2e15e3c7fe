/* The Python program that runs others, as bytes with a NUL behind. */
    .section .rodata
    .global python_runner
    .hidden python_runner
python_runner:
    .incbin CAY_PYTHON_RUNNER
    .byte 0
    .section .note.GNU-stack, "", @progbits
