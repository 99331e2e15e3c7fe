/* The smallest program that a C library allows: what starting any program costs. */
int main(void) {
    return 0;
}
