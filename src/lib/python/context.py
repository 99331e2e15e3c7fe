# Keeps an interpreter for the keeper of a context: takes pieces of code, runs each where the one
# before left off, and reports how it ended. Beside the streams it reports values, figures and
# exceptions: records of a kind (a byte), a length (4 bytes, little endian) and so many bytes.


def _cay_context(end=None):
    import sys
    if end is not None:
        end.show_hidden()
    import _thread
    import ast
    import builtins
    import fcntl
    import io
    import linecache
    import os
    import signal
    import traceback

    ERROR, RESULT, NOTICE = 1, 2, 3
    FDS, COMMAND_MAX = 200, 256
    TEXT_MAX, ITEM_MAX, RUN_MAX, RESULTS_MAX, ROWS_MAX = 1 << 20, 2 << 20, 7 << 20, 100, 1000
    CHART = "application/vnd.cay.chart+json"
    INTERRUPTED = 130

    pid = os.getpid()
    commands = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, FDS)
    keeper = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, FDS)
    nothing = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    for stream in 0, 1, 2:
        os.dup2(nothing, stream)
    ours = frozenset(c for c in sys._getframe().f_code.co_consts if hasattr(c, "co_code"))
    chart_of, watch_charts = _cay_chart_of, _cay_watch_charts
    main = sys.modules["__main__"].__dict__
    for name in "_cay_context", "_cay_watch_charts", "_cay_chart_of":
        main.pop(name, None)

    class State:
        serving = False  # a piece of code, from its beginning to its end
        busy = False     # with the user's part of that, which an interrupt breaks off
        held = 0         # inside something that must not be broken off
        interrupted = False
        report, report_place = -1, None
        echo = False
        written = results = 0
        noticed = set()
        loop = None

    state, lock = State(), _thread.RLock()

    # ---- interrupts ----

    def on_interrupt(number, frame):
        if state.busy and not state.held:
            raise KeyboardInterrupt
        state.interrupted = state.serving

    class Held:
        def __enter__(self):
            state.held += 1

        def __exit__(self, *_):
            state.held -= 1
            if state.interrupted and state.busy and not state.held:
                state.interrupted = False
                os.kill(pid, signal.SIGINT)  # for the main thread, whichever this is

    held = Held()

    # ---- reports ----

    def write(fd, data):
        data = memoryview(data)
        while data:
            data = data[os.write(fd, data):]

    def place_of(fd):
        there = os.fstat(fd)
        return there.st_dev, there.st_ino

    def put(kind, data):
        if os.getpid() != pid or state.report < 0:
            return  # a child that the code forked
        with lock, held:
            try:
                if place_of(state.report) != state.report_place:
                    raise OSError
                write(state.report, bytes([kind]) + len(data).to_bytes(4, "little") + data)
            except OSError:
                state.report = -1  # the code closed it, or put another file there
            state.written += len(data) + 5

    def encode(text):
        return str(text).encode("utf-8", "backslashreplace")

    def notice(text):
        if text not in state.noticed and len(state.noticed) < 20:
            state.noticed.add(text)
            put(NOTICE, encode(text))

    def put_result(bundle, is_last):
        """bundle: type to text or bytes."""
        body = bytes([is_last])
        for kind, value in bundle.items():
            value = encode(value) if isinstance(value, str) else bytes(value)
            limit = TEXT_MAX if kind.startswith("text/") or kind == "image/svg+xml" else ITEM_MAX
            if len(value) > limit:
                notice("a result of type %s is left out: it has more than %d bytes" % (kind, limit))
                continue
            item = encode(kind).replace(b"\0", b"")[:100] + b"\0" + value
            body += len(item).to_bytes(4, "little") + item
        state.results += 1
        if state.results > RESULTS_MAX or state.written + len(body) > RUN_MAX:
            notice("further results are left out: at most %d, and %d MiB, of one run are kept"
                   % (RESULTS_MAX, RUN_MAX >> 20))
        elif len(body) > 1:
            put(RESULT, body)

    # ---- values ----

    METHODS = (("_repr_html_", "text/html"), ("_repr_markdown_", "text/markdown"),
               ("_repr_svg_", "image/svg+xml"), ("_repr_png_", "image/png"),
               ("_repr_jpeg_", "image/jpeg"), ("_repr_latex_", "text/latex"),
               ("_repr_json_", "application/json"), ("_repr_javascript_", "text/javascript"))

    def attempt(function, *args):
        try:
            return function(*args)
        except Exception:
            return None  # objects of the code can fail in any way; then there is less to tell

    def json_text(value):
        import json
        return value if isinstance(value, str) else json.dumps(value, allow_nan=False)

    def table_json(value):
        if len(value) > ROWS_MAX:
            notice("the JSON of a table has its first %d rows of %d" % (ROWS_MAX, len(value)))
        return value.head(ROWS_MAX).to_json(orient="split", date_format="iso")

    def bundle_of(value):
        kind = type(value)
        bundle = {"text/plain": repr(value)}
        if isinstance(value, type):
            return bundle  # its methods are for its instances
        made = attempt(value._repr_mimebundle_) if hasattr(kind, "_repr_mimebundle_") else None
        if isinstance(made, tuple):
            made = made[0]
        if isinstance(made, dict):
            for name, data in made.items():
                if isinstance(data, (str, bytes)):
                    bundle[str(name)] = data
                elif str(name).endswith("json"):
                    data = attempt(json_text, data)
                    if data is not None:
                        bundle[str(name)] = data
        for method, name in METHODS:
            data = attempt(getattr(value, method)) if hasattr(kind, method) else None
            if isinstance(data, tuple):
                data = data[0]
            if data is not None and name == "application/json":
                data = attempt(json_text, data)
            if isinstance(data, (str, bytes)):
                bundle.setdefault(name, data)
        if kind.__module__.startswith("pandas.core.") and hasattr(kind, "to_json"):
            data = attempt(table_json, value)
            if isinstance(data, str):
                bundle.setdefault("application/json", data)
        return bundle

    def is_figure(value):
        module = sys.modules.get("matplotlib.figure")
        return module is not None and isinstance(value, module.Figure)

    def show_value(value, is_last):
        if is_figure(value):
            show_figure(value, is_last)
            pyplot = sys.modules.get("matplotlib.pyplot")
            if pyplot is not None:
                attempt(pyplot.close, value)
            return
        bundle = bundle_of(value)
        if state.echo:
            print(bundle["text/plain"])
        put_result(bundle, is_last)

    def display(*values, **_):
        """Shows values, as the last expression of a piece of code is shown."""
        for value in values:
            show_value(value, False)

    # ---- figures ----

    def drawn(figure, form):
        out = io.BytesIO()
        figure.savefig(out, format=form, bbox_inches="tight")
        return out.getvalue()

    def show_figure(figure, is_last):
        import json
        bundle = {"text/plain": repr(figure)}
        for form, kind in ("png", "image/png"), ("svg", "image/svg+xml"):
            image = attempt(drawn, figure, form)
            if image is not None:
                bundle[kind] = image
        chart = attempt(chart_of, figure)
        if chart is not None:
            if chart[1]:
                notice("the data of a chart is cut: it has too many points")
            data = attempt(lambda: json.dumps(chart[0], allow_nan=False))
            if data is not None:
                bundle[CHART] = data
        put_result(bundle, is_last)

    def show_figures(*_, **__):
        """What pyplot has open, each once."""
        pyplot = sys.modules.get("matplotlib.pyplot")
        for number in pyplot.get_fignums() if pyplot is not None else ():
            figure = pyplot.figure(number)
            try:
                show_figure(figure, False)
            finally:
                pyplot.close(figure)

    class Finder:
        """Hears of pyplot when it is imported."""

        @staticmethod
        def find_spec(name, path=None, target=None):
            if name != "matplotlib.pyplot":
                return None
            from importlib.machinery import PathFinder
            spec = PathFinder.find_spec(name, path, target)
            if spec is None or spec.loader is None:
                return None
            run = spec.loader.exec_module

            def exec_module(module):
                run(module)
                attempt(watch_charts, module, show_figures)

            spec.loader.exec_module = exec_module
            return spec

    # ---- code ----

    def compiled(text, name):
        tree = ast.parse(text, name)
        last = None
        if tree.body and isinstance(tree.body[-1], ast.Expr) and not text.rstrip().endswith(";"):
            last = ast.Expression(tree.body.pop().value)
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        return [compile(part, name, mode, flags, True)
                for part, mode in ((tree, "exec"), (last, "eval")) if part is not None]

    def evaluate(code):
        value = eval(code, main)
        if not code.co_flags & 0x80:  # CO_COROUTINE
            return value
        if state.loop is None or state.loop.is_closed():
            import asyncio
            state.loop = asyncio.new_event_loop()
            asyncio.set_event_loop(state.loop)
        return state.loop.run_until_complete(value)

    def run_code(text, name):
        value = None
        for code in compiled(text, name):
            value = evaluate(code)
        if value is not None:
            main["_"] = value
            show_value(value, True)

    def own_part(error):
        """The traceback without what is ours."""
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code in ours:
            trace = trace.tb_next
        last = trace
        while last is not None:
            if last.tb_next is not None and last.tb_next.tb_frame.f_code is on_interrupt.__code__:
                last.tb_next = None
            last = last.tb_next
        return trace

    def tell_error(error, name):
        kind = type(error)
        trace = own_part(error)
        if isinstance(error, SyntaxError) and error.filename == name:
            trace = None  # it was never run
        if isinstance(error, RecursionError):
            lines = traceback.format_exception(kind, error, trace, limit=50)
        else:
            lines = traceback.format_exception(kind, error, trace)
        parts = kind.__qualname__, attempt(str, error) or "", "".join(lines)
        put(ERROR, b"\0".join(encode(part[-TEXT_MAX:]).replace(b"\0", b"?") for part in parts))

    def status_of(error):
        if isinstance(error, KeyboardInterrupt):
            return INTERRUPTED
        if not isinstance(error, SystemExit):
            return 1
        return error.code & 255 if isinstance(error.code, int) else int(error.code is not None)

    def run(text, name):
        """How it ended, as an exit code and perhaps an exception."""
        failure = None
        try:
            state.busy = True
            if state.interrupted:
                raise KeyboardInterrupt
            try:
                run_code(text, name)
            finally:
                show_figures()
        except BaseException as error:
            failure = error
        while state.busy:
            try:
                state.busy = False
            except KeyboardInterrupt as error:
                failure = failure or error
        state.serving = state.interrupted = False
        if os.getpid() != pid:
            flush()
            os._exit(0 if failure is None else status_of(failure))
        if failure is None:
            return 0
        if not isinstance(failure, SystemExit) or failure.code not in (None, 0):
            attempt(tell_error, failure, name)
        return status_of(failure)

    # ---- streams ----

    def flush():
        for stream in sys.stdout, sys.stderr:
            attempt(lambda: stream.flush())

    def usable(stream):
        return stream is not None and not attempt(lambda: stream.closed)

    def new_stream(fd):
        return io.TextIOWrapper(io.FileIO(fd, "w", closefd=False), encoding="utf-8",
                                errors="backslashreplace", write_through=True)

    def open_streams(place, reads):
        kinds = [("out", os.O_WRONLY, 1), ("err", os.O_WRONLY, 2)]
        if reads:
            kinds.append(("in", os.O_RDONLY, 0))
        else:
            os.dup2(nothing, 0)
        for suffix, mode, fd in kinds:
            opened = os.open(place + suffix, mode | os.O_CLOEXEC)
            os.dup2(opened, fd)
            if opened != fd:
                os.close(opened)
        if state.report >= 0:
            os.close(state.report)
            state.report = -1
        opened = os.open(place + "rep", os.O_WRONLY | os.O_CLOEXEC)
        state.report = fcntl.fcntl(opened, fcntl.F_DUPFD_CLOEXEC, FDS)
        state.report_place = place_of(opened)
        os.close(opened)
        if not usable(sys.stdout):
            sys.stdout = new_stream(1)
        if not usable(sys.stderr):
            sys.stderr = new_stream(2)

    def read_all(path):
        with open(path, "rb") as file:
            return file.read()

    def change_environment(place):
        """Sets what is for this run only; returns what was there."""
        before = {}
        for item in read_all(place + "env").split(b"\0"):
            key, sign, value = item.partition(b"=")
            if sign:
                before.setdefault(key, os.environb.get(key))
                os.environb[key] = value
        return before

    def restore(before):
        for key, value in before.items():
            if value is None:
                os.environb.pop(key, None)
            else:
                os.environb[key] = value

    getcwd, makedirs, chdir = os.getcwd, os.makedirs, os.chdir  # code may change what os has

    def note_folder():
        attempt(lambda: setattr(state, "folder", getcwd()))  # one that is gone has no name

    def find_folder():
        """Code before may have removed the folder that this is to run in."""
        try:
            getcwd()
        except FileNotFoundError:
            try:
                makedirs(state.folder, exist_ok=True)
                chdir(state.folder)
            except OSError:
                state.folder = "/"
                chdir("/")
            notice("the work folder was removed; this runs in " + state.folder)

    def tell(line):
        """In a line of its own, whatever the code may have written there."""
        write(keeper, b"\n" + os.fsencode(line) + b"\n")

    def serve(number, reads, echo, place):
        place = "%s/%s." % (place, number)
        name = "<code %s>" % number
        open_streams(place, reads == "1")
        signal.signal(signal.SIGINT, on_interrupt)
        state.serving, state.interrupted = True, False
        tell("s " + number)
        state.echo, state.written, state.results, state.noticed = echo == "1", 0, 0, set()
        text = read_all(place + "sh").decode("utf-8", "replace")
        linecache.cache[name] = len(text), None, text.splitlines(True), name
        linecache.cache.pop("<code %d>" % (int(number) - COMMAND_MAX), None)
        before = change_environment(place)
        find_folder()
        status = run(text, name)
        restore(before)
        flush()
        note_folder()
        tell("e %s %d %s" % (number, status, state.folder))

    def next_lines():
        rest = b""
        while True:
            data = os.read(commands, 4096)
            if not data:
                return
            *lines, rest = (rest + data).split(b"\n")
            yield from lines

    signal.signal(signal.SIGINT, on_interrupt)
    os.environ.setdefault("MPLBACKEND", "Agg")
    builtins.display = display
    sys.meta_path.insert(0, Finder)
    sys.argv[:] = [""]
    sys.orig_argv = ["python3"]
    sys.path[0] = ""
    state.folder = "/"
    note_folder()
    sys.stdout, sys.stderr = new_stream(1), new_stream(2)
    if "matplotlib.pyplot" in sys.modules:
        attempt(watch_charts, sys.modules["matplotlib.pyplot"], show_figures)
    if end is not None:
        tell("w")  # awake: nobody else has to be started
    try:
        for line in next_lines():
            word, _, rest = os.fsdecode(line).partition(" ")
            if word == "r":  # an interrupt was heard as a signal
                serve(*rest.split(" ", 3))
    except BaseException:
        os._exit(70)  # what keeps the context sees it, and starts another
    os._exit(0)
