/* What runs code in contexts: texts with a NUL behind. */
    .section .rodata

    .global context_python, context_charts, context_node
    .hidden context_python, context_charts, context_node
context_python:
    .incbin CAY_CONTEXT_PYTHON
    .byte 0
context_charts:
    .incbin CAY_CONTEXT_CHARTS
    .byte 0
context_node:
    .incbin CAY_CONTEXT_NODE
    .byte 0
    .section .note.GNU-stack, "", @progbits
