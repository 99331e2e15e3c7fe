# Runs one program as `python3 -u` would, and reports on descriptor 3 what streams cannot say. The
# program and its arguments come first on standard input; what follows there is the program's own.
# Only what the interpreter has loaded by itself is used before the program begins.


def _cay_run(end=None):
    import os
    import sys

    VERSION, TYPE, MESSAGE, TRACEBACK, FRAME, FIGURE = range(1, 7)
    REPORT, FRAMES_MAX, FIGURES_MAX, TEXT_MAX = 200, 50, 16, 1 << 16

    def read(count):
        parts = []
        while count > 0:
            part = os.read(0, min(count, 1 << 20))
            if not part:
                os._exit(125)
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def number():
        return int.from_bytes(read(4), "little")

    # Out of the way of the program, which expects its first file to be descriptor 3.
    os.dup2(3, REPORT, False)
    os.close(3)
    pid, place = os.getpid(), os.fstat(REPORT)

    def report(kind, data):
        if os.getpid() != pid:
            return  # a child that the program forked
        try:
            now = os.fstat(REPORT)
            if (now.st_dev, now.st_ino) != (place.st_dev, place.st_ino):
                return
            data = memoryview(bytes([kind]) + len(data).to_bytes(4, "little") + data)
            while data:
                data = data[os.write(REPORT, data):]
        except OSError:
            pass

    def put(kind, text):
        report(kind, text[:TEXT_MAX].encode("utf-8", "backslashreplace"))

    def put_frame(line, file, function, source):
        fields = str(line or 0), str(file), str(function), (source or "").strip()
        put(FRAME, "\0".join(field[:1000].replace("\0", "?") for field in fields))

    def tell_exception(error, trace):
        import linecache
        import traceback
        if path[:1] == "<":
            lines = code.decode("utf-8", "replace").splitlines(True)
            linecache.cache[path] = len(code), None, lines, path
        kind = type(error)
        name = kind.__qualname__
        if kind.__module__ not in ("builtins", "__main__"):
            name = "%s.%s" % (kind.__module__, name)
        put(TYPE, name)
        put(MESSAGE, str(error))
        frames = traceback.extract_tb(trace)
        if len(frames) > FRAMES_MAX:
            frames = frames[:FRAMES_MAX // 2] + frames[-FRAMES_MAX // 2:]
        for frame in frames:
            put_frame(frame.lineno, frame.filename, frame.name, frame.line)
        if isinstance(error, SyntaxError):
            put_frame(error.lineno, error.filename, "", error.text)
        put(TRACEBACK, "".join(traceback.format_exception(kind, error, trace)))

    def tell_figures():
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is None:
            return
        import io
        for figure in pyplot.get_fignums()[:FIGURES_MAX]:
            out = io.BytesIO()
            pyplot.figure(figure).savefig(out, format="png")
            report(FIGURE, b"png\0" + out.getvalue())

    def attempt(tell, *args):
        try:
            tell(*args)
        except Exception:
            pass  # objects of the program can fail in any way; then there is less to tell

    def keep_script(name):
        """Puts the program where tracebacks and multiprocessing find it."""
        folder = os.path.join(os.environ.get("TMPDIR", "/tmp"), "cay-%d" % pid)
        path = os.path.join(folder, os.path.basename(name))
        try:
            os.mkdir(folder, 0o700)
            with open(path, "xb") as file:
                file.write(code)
        except OSError:
            pass
        return path

    items = [read(number()) for _ in range(number())]
    options = items.pop(0)
    name, code = os.fsdecode(items[0]), items[1]
    main = sys.modules["__main__"].__dict__
    main.pop("_cay_run", None)
    path = {"-c": "<string>", "-": "<stdin>"}.get(name)
    if path is None:
        path = keep_script(name)
        main["__file__"], main["__cached__"] = path, None
        external = sys.modules.get("_frozen_importlib_external")
        if external is not None:
            main["__loader__"] = external.SourceFileLoader("__main__", path)
        sys.path[0] = os.getcwd()
        name = path
    sys.argv[:] = [name] + [os.fsdecode(item) for item in items[2:]]
    if name == "-c":
        sys.orig_argv = ["python3", "-c", os.fsdecode(code)] + sys.argv[1:]
    else:
        sys.orig_argv = ["python3"] + sys.argv
    put(VERSION, sys.version.split()[0])
    extras = globals().pop("_cay_extras", None)
    check = extras(options, report) if options else None

    failure = trace = None
    try:
        if b"\0" in code:
            raise SyntaxError("source code cannot contain null bytes")
        program = compile(code, path, "exec", dont_inherit=True)
    except Exception as error:
        failure = error
    else:
        del items
        try:
            exec(program, main)
        except BaseException as error:
            failure, trace = error, error.__traceback__.tb_next
    if check is not None:
        attempt(check)
    attempt(tell_figures)
    if end is not None and (failure is None or isinstance(failure, SystemExit)):
        status = 0 if failure is None else failure.code
        if status is None or type(status) is int and abs(status) < 1 << 31:
            exits, failure, trace, main = failure is not None, None, None, None
            end(status or 0)  # with nothing of the program held here
            if exits:
                sys.exit(status)
    if failure is None:
        return
    if not isinstance(failure, SystemExit):
        attempt(tell_exception, failure, trace)
        hook = sys.excepthook
        sys.excepthook = lambda kind, error, ours: hook(kind, error.with_traceback(trace), trace)
    raise failure.with_traceback(trace)
