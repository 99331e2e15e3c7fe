/* What runs Python programs, as bytes: texts with a NUL behind, and what freezes an interpreter. */
    .section .rodata

    .global python_runner, python_extras, python_freezer
    .hidden python_runner, python_extras, python_freezer
python_runner:
    .incbin CAY_PYTHON_RUNNER
    .byte 0
python_extras:
    .incbin CAY_PYTHON_EXTRAS
    .byte 0
python_freezer:
    .incbin CAY_PYTHON_FREEZER
    .byte 0

    .global python_freeze_begin, python_freeze_end, python_thaw_begin, python_thaw_end
    .hidden python_freeze_begin, python_freeze_end, python_thaw_begin, python_thaw_end
    .balign 16
python_freeze_begin:
    .incbin CAY_PYTHON_FREEZE
python_freeze_end:
    .balign 16
python_thaw_begin:
    .incbin CAY_PYTHON_THAW
python_thaw_end:
    .byte 0
    .section .note.GNU-stack, "", @progbits
