

# Starts an interpreter up to the point where it would run a program, and has it frozen there. All
# below "woken" happens in the sandbox of a program, once for each. Returns how the program is to
# end.
def _cay_freeze():
    import atexit
    import gc
    import os
    import sys
    import _imp
    import _weakref

    def read(count):
        parts = b""
        while len(parts) < count:
            part = os.read(0, count - len(parts))
            if not part:
                os._exit(1)
            parts += part
        return parts

    def contents(path):
        fd, parts = os.open(path, os.O_RDONLY | os.O_CLOEXEC), [b"?"]
        while parts[-1]:
            parts.append(os.read(fd, 1 << 16))
        os.close(fd)
        return b"".join(parts[1:])

    path = "/tmp/cay_freeze.so"
    with open(path, "wb") as file:
        file.write(read(int.from_bytes(read(4), "little")))
    for name in sys.argv[1:]:
        __import__(name)

    class Spec:
        name, origin = "cay_freeze", path

    # In a child, which has one thread whatever was imported.
    child = os.fork()
    if child:
        os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) & 255)
    gc.collect()
    gc.freeze()
    try:
        _imp.create_dynamic(Spec)
    except SystemError:
        pass
    if not contents("/proc/self/cmdline").startswith(b"python3\0cay"):
        os._exit(3)

    # woken
    entries = [entry.partition(b"=") for entry in contents("/proc/self/environ").split(b"\0")]
    os.environ.clear()
    for name, equals, value in entries:
        if equals:
            os.environb[name] = value
    if b"TZ" in os.environb:
        import time
        time.tzset()
    ssl, numpy = sys.modules.get("ssl"), sys.modules.get("numpy.random")
    if ssl is not None:
        ssl.RAND_add(os.urandom(32), 32.0)
    if numpy is not None:
        numpy.seed()
    for name in [name for name in sys.path_importer_cache if name not in sys.path]:
        del sys.path_importer_cache[name]
    # A module of its own for the program: what is frozen is never collected, nor what it holds.
    old = sys.modules["__main__"]
    main = type(old)("__main__")
    for name in "__builtins__", "__loader__":
        main.__dict__[name] = old.__dict__[name]
    main.__annotations__ = {}
    sys.modules["__main__"] = main
    del sys.modules["gc"], sys.modules["atexit"]
    callbacks = atexit._ncallbacks()
    known, output, pid = frozenset(sys.modules) - {"__main__"}, sys.stdout, os.getpid()

    def clear(names):
        for name in list(names):
            if name[:1] == "_" and name[1:2] != "_":
                names[name] = None
        for name in list(names):
            if name != "__builtins__":
                names[name] = None

    def end(status):
        """Ends the process as the interpreter would, but does not take apart what there was before
        the program: that takes longer than most programs. Returns where that would be seen."""
        if sys.stdout is not output or output.closed or os.getpid() != pid:
            return
        threading = sys.modules.get("threading")
        if threading is not None:
            threading._shutdown()
        if atexit._ncallbacks() > callbacks:
            return
        atexit._run_exitfuncs()
        modules = [(name, _weakref.ref(module)) for name, module in sys.modules.items()
                   if name not in known and type(module) is type(sys)]
        for name, _ in modules:
            del sys.modules[name]
        threading = None
        gc.collect()
        for _, module in reversed(modules):
            module = module()
            if module is not None:
                clear(module.__dict__)
        gc.collect()
        os._exit(status & 255)

    return end


_cay_end = _cay_freeze()
