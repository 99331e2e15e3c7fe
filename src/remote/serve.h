/* Serves cay over a control socket until that ends. */
#pragma once

/* The exit code of the program. */
int serve(int control);
