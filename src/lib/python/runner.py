# Runs one program as `python3 -u` would, and reports on descriptor 3 what streams cannot say. The
# program and its arguments come first on standard input; what follows there is the program's own.
# Only what the interpreter has loaded by itself is used before the program begins.


def _cay_run(end=None):
    import os
    import sys

    VERSION, TYPE, MESSAGE, TRACEBACK, FRAME, FIGURE, CHART, SVG = range(1, 9)
    REPORT, FRAMES_MAX, FIGURES_MAX = 200, 50, 16
    TEXT_MAX, CHART_MAX, SVG_MAX = 1 << 16, 1 << 20, 2 << 20
    HOT = "/"  # no program has that name: python_proof()
    REHEARSALS, SCORE = 4, b"\0\0\0\0\2\0\0\0-c\x08\0\0\0print(1)"

    def read(count):
        parts = []
        while count > 0:
            part = os.read(0, min(count, 1 << 20))
            if not part:
                os._exit(125)
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

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

    def put_whole(kind, text):
        put(kind, text[:TEXT_MAX].replace("\0", "?"))  # where it would end

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
        put_whole(TYPE, name)
        put_whole(MESSAGE, str(error))
        frames = traceback.extract_tb(trace)
        if len(frames) > FRAMES_MAX:
            frames = frames[:FRAMES_MAX // 2] + frames[-FRAMES_MAX // 2:]
        for frame in frames:
            put_frame(frame.lineno, frame.filename, frame.name, frame.line)
        if isinstance(error, SyntaxError):
            put_frame(error.lineno, error.filename, "", error.text)
        put_whole(TRACEBACK, "".join(traceback.format_exception(kind, error, trace)))

    def chart_tools():
        source = tools.pop("_cay_charts", None)  # in a cold interpreter not compiled in vain
        if source is not None:
            exec(source, tools)
        return tools

    def tell_chart(figure):
        import json
        text = json.dumps(chart_tools()["_cay_chart_of"](figure)[0], allow_nan=False)
        if len(text) <= CHART_MAX:
            report(CHART, text.encode())

    def tell_svg(figure):
        import io
        out = io.BytesIO()
        figure.savefig(out, format="svg")
        if len(out.getvalue()) <= SVG_MAX:
            report(SVG, out.getvalue())

    def tell_figures():
        """What pyplot has open, unless it was told and has not changed."""
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is None:
            return
        import io
        for number in pyplot.get_fignums():
            figure = pyplot.figure(number)
            if len(told) >= FIGURES_MAX:
                return
            if id(figure) in told and not getattr(figure, "stale", True):
                continue
            out = io.BytesIO()
            figure.savefig(out, format="png")
            told.append(id(figure))
            report(FIGURE, b"png\0" + out.getvalue())
            attempt(tell_chart, figure)
            if wants_svg:
                attempt(tell_svg, figure)
            figure.stale = False

    def watch_figures(pyplot):
        """Those that are shown are told then: they may be closed before the end."""
        show = pyplot.show

        def told_show(*args, **named):
            number = pyplot.gcf().number if pyplot.get_fignums() else None
            attempt(tell_figures)
            if number is not None:
                pyplot.figure(number)
            return show(*args, **named)

        chart_tools()["_cay_watch_charts"](pyplot, told_show)
        undo.append(lambda: setattr(pyplot, "show", show))

    def tell_when_run(loader, watch):
        run = loader.exec_module

        def exec_module(module):
            del loader.exec_module
            run(module)
            attempt(watch, module)

        loader.exec_module = exec_module

    def listen():
        """Hears of some modules when they are imported, by what finds modules: one more in
        sys.meta_path would be seen."""
        finder = sys.modules["_frozen_importlib_external"].PathFinder
        method = finder.__dict__["find_spec"]

        def find_spec(cls, fullname, path=None, target=None):
            spec = method.__func__(cls, fullname, path, target)
            if fullname in watched and spec is not None and spec.loader is not None:
                tell_when_run(spec.loader, watched[fullname])
            return spec

        finder.find_spec = classmethod(find_spec)
        if end is None:  # else it holds nothing of the program's, and a changed class takes time
            undo.append(lambda: setattr(finder, "find_spec", method))
        watch_loaded(watched)

    def watch_loaded(names):
        for name in names:
            module = sys.modules.get(name)
            if module is not None:
                watched[name](module)

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

    def hide():
        """Turns descriptors to where nothing is seen, for a rehearsal. Returns what undoes it."""
        nonlocal place
        kept, nothing = place, os.open("/dev/null", os.O_RDWR)
        aside = [(os.dup(fd), fd) for fd in (1, REPORT)]
        for _, fd in aside:
            os.dup2(nothing, fd, fd != REPORT)
        os.close(nothing)
        place = os.fstat(REPORT)

        def show():
            nonlocal place
            for copy, fd in aside:
                os.dup2(copy, fd, fd != REPORT)
                os.close(copy)
            place = kept

        return show

    def split(body):
        items, at = [], 0
        while at < len(body):
            size = int.from_bytes(body[at:at + 4], "little")
            items.append(body[at + 4:at + 4 + size])
            at += 4 + size
        return items

    # All that does not depend on the program happens before it comes.
    main = sys.modules["__main__"].__dict__
    main.pop("_cay_run", None)
    names, told, undo = globals(), [], []
    wants_svg = options = check = None
    tools = {name: names.pop(name) for name in list(names) if name[:5] == "_cay_"}
    watched = {"matplotlib.pyplot": watch_figures}
    attempt(listen)
    put(VERSION, sys.version.split()[0])
    # The pages of a frozen interpreter are copied when they are first written to. One that waits
    # runs through all this before, without effect, so that it happens then.
    rehearsals = REHEARSALS if end is not None and end.waits else 0
    show = hide() if rehearsals else None
    while True:
        if rehearsals:
            items = split(SCORE)
        else:
            items = split(read(int.from_bytes(read(4), "little")))
        options = items.pop(0)
        wants_svg = options[:4] == b"svg\n"
        if wants_svg:
            options = options[4:]
        name, code = os.fsdecode(items[0]), items[1]
        path = {"-c": "<string>", "-": "<stdin>"}.get(name)
        if name == HOT:
            rehearsals, show = REHEARSALS // 2, hide()
            continue
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
        if options:
            check = tools["_cay_extras"](options, report)
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
                exec(program, dict(main) if rehearsals else main)
            except BaseException as error:
                failure, trace = error, error.__traceback__.tb_next
        if check is not None:
            attempt(check)
        attempt(tell_figures)
        if rehearsals == 0:
            break
        end.rehearse(report)
        rehearsals -= 1
        if rehearsals == 0:
            show()
            if not end.waits:
                end.tell_hot()
    watched.clear()
    while undo:  # else what the program left would outlive it here
        attempt(undo.pop())
    if end is not None and (failure is None or isinstance(failure, SystemExit)):
        status = 0 if failure is None else failure.code
        if status is None or type(status) is int and abs(status) < 1 << 31:
            exits, failure, trace, main = failure is not None, None, None, None
            end(status or 0, report)  # with nothing of the program held here
            if exits:
                sys.exit(status)
    if failure is None:
        return
    if not isinstance(failure, SystemExit):
        attempt(tell_exception, failure, trace)
        hook = sys.excepthook
        sys.excepthook = lambda kind, error, ours: hook(kind, error.with_traceback(trace), trace)
    raise failure.with_traceback(trace)
