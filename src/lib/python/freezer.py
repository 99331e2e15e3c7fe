

# Starts an interpreter up to the point where it would run a program, and has it frozen there. All
# below "woken" happens in the sandbox of a program, once for each. Returns how the program is to
# end.
def _cay_freeze():
    import atexit
    import gc
    import os
    import sys
    import _imp
    import _io
    import _signal
    import _thread
    import _weakref

    ENDED = 0
    DESCRIPTORS = 4  # standard ones and the report
    FEW = 100  # objects that are looked through in less time than a folder
    HEAP = 1 << 14  # of large objects, what small programs need
    PRACTICE = 40  # bytecode is written to until it is specialised
    buffers = frozenset((_io.TextIOWrapper, _io.BufferedWriter, _io.BufferedRandom))

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

    def take_environment():
        entries = [entry.partition(b"=") for entry in contents("/proc/self/environ").split(b"\0")]
        entries = [(name, value) for name, equals, value in entries if equals]
        if [name for name, _ in entries] != list(os.environb):
            os.environ.clear()
        for name, value in entries:
            if os.environb.get(name) != value:
                os.environb[name] = value
        if b"TZ" in os.environb:
            import time
            time.tzset()

    def seed():
        ssl, numpy = sys.modules.get("ssl"), sys.modules.get("numpy.random")
        if ssl is not None:
            ssl.RAND_add(os.urandom(32), 32.0)
        if numpy is not None:
            numpy.seed()

    def new_main(old):
        # A module of its own for the program: what is frozen is never collected, nor what it holds.
        main = type(old)("__main__")
        for name in "__builtins__", "__loader__":
            main.__dict__[name] = old.__dict__[name]
        main.__annotations__ = {}
        return main

    def practise():
        """Uses what is preloaded as many programs do, since what that makes once and for all need
        not be made in each copy."""
        numpy, pandas = sys.modules.get("numpy"), sys.modules.get("pandas")
        if numpy is not None:
            numbers = numpy.arange(6.0).reshape(2, 3)
            str(numbers[numbers > 1].mean() + numbers.T.sum())
        if pandas is not None:
            table = pandas.DataFrame({"a": [1, 2, 1], "b": [1.5, 2.5, 3.5], "c": ["x", "y", "z"]})
            str(table[table.b > 2].groupby("a").b.sum())
            str(table.sort_values("b"))

    def train():
        """Does once what every program will need: the compiler makes its types when it is first
        used, dictionaries grow, bytecode is specialised. Else each copy would do it anew."""
        for number in range(16):
            take_environment()
            names = new_main(sys.modules["__main__"]).__dict__
            exec(compile(b"print(%d, end='', flush=True)\n" % number, "<string>", "exec",
                         dont_inherit=True), names, {"print": lambda *args, **more: None})
            (str(number) + os.fsdecode(b"-c")).encode("utf-8", "backslashreplace")
            frozenset(sys.modules)
            seed()

    def load_hidden():
        """Imports what a context needs, and returns those modules. They are put aside: a program that
        imports one of them makes its own, as python3 would."""
        before = frozenset(sys.modules)
        for name in "ast", "fcntl", "linecache", "signal", "traceback":
            __import__(name)
        return {name: module for name, module in sys.modules.items() if name not in before}

    def hide():
        for name in hidden:
            del sys.modules[name]
        for parent, _, child in [name.rpartition(".") for name in hidden]:
            if parent in sys.modules:
                sys.modules[parent].__dict__.pop(child, None)

    def show_hidden():
        sys.modules.update(hidden)
        for parent, _, child in [name.rpartition(".") for name in hidden]:
            if parent:
                setattr(sys.modules[parent], child, hidden["%s.%s" % (parent, child)])

    def places():
        """Files and folders that an interpreter which starts here would look at: another one that
        is found first, modules that are loaded, folders where modules could appear."""
        import site
        found = {sys.executable, os.path.realpath(sys.executable), *sys.path,
                 *site.getsitepackages(), site.getusersitepackages(),
                 os.path.join(os.path.dirname(sys.executable), "pyvenv.cfg"),
                 os.path.join(os.path.dirname(os.path.dirname(sys.executable)), "pyvenv.cfg")}
        for folder in os.environ.get("PATH", "").split(":"):
            found.add(os.path.join(folder, "python3"))
        for module in list(sys.modules.values()):
            found.add(getattr(module, "__dict__", {}).get("__file__"))
        for line in contents("/proc/self/maps").splitlines():
            found.update(os.fsdecode(name) for name in line.split(None, 5)[5:])
        return [(name, look(name)) for name in found
                if type(name) is str and name[:1] == "/" and name[:5] != "/tmp/"]

    def look(name):
        try:
            found = os.stat(name)
        except OSError:
            return None
        return found.st_mtime_ns, found.st_mode, found.st_mode >> 12 == 8 and found.st_size

    def clear(names):
        for name in list(names):
            if name[:1] == "_" and name[1:2] != "_":
                names[name] = None
        for name in list(names):
            if name != "__builtins__":
                names[name] = None

    def new_modules():
        """What the program imported and its __main__, the last first. Does not look at what there
        was before, which would copy the memory where it lies, unless order and number tell that
        the program has moved it."""
        names = []
        for name in reversed(sys.modules):
            if name == last:
                break
            if name not in known:
                names.append(name)
        if len(names) < len(sys.modules) - count:
            names = [name for name in reversed(sys.modules) if name not in known]
        return names if "__main__" in names else names + ["__main__"]

    def is_small():
        """Whether the program was too short for its objects to have been looked through; then the
        youngest generation has them all."""
        return gc.get_count()[1:] == (0, 0) and "gc" not in sys.modules

    def flush_files():
        """Where a file is in a cycle with others, it is chance whether it is closed before its buffer is
        written. Nobody looks for files if no more are open than at the beginning; the size of this
        folder is how many (before Linux 6.2 it is 0)."""
        if is_small() and gc.get_count()[0] < FEW:
            objects = gc.get_objects(0)
        elif 0 < os.stat("/proc/self/fd").st_size <= DESCRIPTORS:
            return
        else:
            objects = gc.get_objects()
        for found in objects:
            if type(found) in buffers:
                try:
                    found.flush()
                except Exception:
                    pass  # closed, full, or a program's own way to fail

    def forget(names):
        modules = [(name, _weakref.ref(sys.modules[name])) for name in names
                   if type(sys.modules.get(name)) is type(sys)]
        for name, _ in modules:
            del sys.modules[name]
        gc.collect()
        for _, module in modules:
            module = module()
            if module is not None:
                clear(module.__dict__)
        gc.collect()

    def is_as_before():
        return sys.stdout is output and not output.closed and os.getpid() == pid

    def rehearse(report):
        name, _ = "cay-rehearsal", bytearray(b"?") * HEAP
        sys.modules[name] = type(sys)(name)
        if is_as_before() and atexit._ncallbacks() == callbacks == 0:
            atexit._run_exitfuncs()
        flush_files()
        forget(new_modules()[:1])
        if _thread._count() == 0:
            report(ENDED, bytes([0]))
        before = _signal.pthread_sigmask(_signal.SIG_BLOCK, signals)
        _signal.sigtimedwait((), 0)
        _signal.pthread_sigmask(_signal.SIG_SETMASK, before)

    def tell_hot():
        """Prints which pages have been copied so far, as pairs of start and length. The kernel says
        of each page that is there (bit 63) whether it is a file's (bit 61)."""
        fd, looks = os.open("/proc/self/pagemap", os.O_RDONLY), []
        for line in contents("/proc/self/maps").splitlines():
            if line.split()[1] == b"rw-p" and b"[" not in line:
                first, last = [int(part, 16) >> 12 for part in line.split()[0].split(b"-")]
                looks.append((first, os.pread(fd, min(last - first, 1 << 16) * 8, first * 8)))
        runs = []
        for page, flags in looks:
            for at in range(7, len(flags), 8):
                if flags[at] & 0xa0 == 0x80:
                    if runs and runs[-1][1] == page:
                        runs[-1][1] += 1
                    else:
                        runs.append([page, page + 1])
                page += 1
        told = b"".join((page << 12).to_bytes(8, "little")
                        for first, last in runs for page in (first, last - first))
        while told:
            told = told[os.write(1, told):]
        os._exit(0)

    def end(status, report):
        """Ends the process as the interpreter would, but does not take apart what there was before
        the program: that takes longer than most programs. Returns where that would be seen."""
        if not is_as_before():
            return
        threading = sys.modules.get("threading")
        if threading is not None:
            threading._shutdown()
        if atexit._ncallbacks() > callbacks:
            return
        atexit._run_exitfuncs()
        threading = None
        flush_files()
        forget(new_modules())
        if _thread._count() == 0 and words[2] != b"kept":
            # The sandbox ends now, and this process with it. To exit is work for the processor,
            # which others need for the answer.
            report(ENDED, bytes([status & 255]))
            _signal.pthread_sigmask(_signal.SIG_BLOCK, signals)
            _signal.sigtimedwait((), 0.005)
        os._exit(status & 255)

    path = "/tmp/cay_freeze.so"
    with open(path, "wb") as file:
        file.write(read(int.from_bytes(read(4), "little")))
    for name in sys.argv[2:]:
        __import__(name)

    class Spec:
        name, origin = sys.argv[1], path

    for _ in range(PRACTICE):
        practise()
    # In a child, which has one thread whatever was imported.
    child = os.fork()
    if child:
        os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) & 255)
    hidden = load_hidden()
    train()
    seen = places()
    hide()
    for name in [name for name in sys.path_importer_cache if name not in sys.path]:
        del sys.path_importer_cache[name]
    del sys.modules["gc"], sys.modules["atexit"]
    callbacks, signals = atexit._ncallbacks(), _signal.valid_signals()
    known, last = frozenset(sys.modules) - {"__main__"}, next(reversed(sys.modules))
    count = len(sys.modules)
    output = sys.stdout
    end.rehearse, end.tell_hot, end.show_hidden = rehearse, tell_hot, show_hidden
    end.seen = seen  # to free it when woken would touch, and so copy, each page where it lies
    gc.collect()
    gc.freeze()
    try:
        _imp.create_dynamic(Spec)
    except SystemError:
        pass
    words = contents("/proc/self/cmdline").split(b"\0")
    if words[0] != b"python3" or words[1][:4] != b"cay-":
        os._exit(3)
    # In a sandbox that others have used, what was frozen may not be what would be started.
    if words[2] == b"kept" and any(look(name) != before for name, before in seen):
        os._exit(123)

    # woken
    take_environment()
    seed()
    main = new_main(sys.modules["__main__"])
    sys.modules["__main__"] = main
    pid = os.getpid()
    end.waits, end.context = words[2] == b"waits", words[3:4] == [b"context"]
    return end


_cay_end = _cay_freeze()
