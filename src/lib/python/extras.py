

# What a program can ask for beside its code: packages that pip installs before it begins, and a look
# at the report that it leaves. Returns what is to be called when the program has ended.
def _cay_extras(options, put):
    import os
    import sys

    INSTALL, FILE, SECTION, FIGURE, PROBLEM = range(32, 37)
    TEXTS = ".md", ".txt", ".rst", ".html", ".htm"
    WORDS_MIN, SECTIONS_MIN, TEXT_MAX, LIST_MAX, FILES_MAX = 50, 3, 1 << 20, 64, 20000
    asked = {}
    for line in options.decode("utf-8", "surrogateescape").split("\n"):
        name, _, value = line.partition(" ")
        asked.setdefault(name, []).append(value)

    # ---- packages ----

    def fail(text):
        put(INSTALL, text.encode("utf-8", "backslashreplace"))
        os._exit(125)

    def has_network(index):
        from urllib.parse import urlsplit
        host = urlsplit(index).hostname or ""
        if host in ("localhost", "::1") or host.startswith("127."):
            return True
        for name in "http_proxy", "https_proxy", "all_proxy":
            if os.environ.get(name) or os.environ.get(name.upper()):
                return True
        try:
            with open("/proc/net/route") as routes:
                if any(line.split()[:1] not in ([], ["Iface"], ["lo"]) for line in routes):
                    return True
            with open("/proc/net/ipv6_route") as routes:
                return any(line.split()[-1:] not in ([], ["lo"]) for line in routes)
        except OSError:
            return not os.path.exists("/proc/net/route")  # who cannot tell lets pip try

    def run_pip(packages, index, links, folder):
        import subprocess
        words = [sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--retries", "1",
                 "--disable-pip-version-check", "--no-warn-script-location", "--target", folder]
        if not has_network(index):
            if not links and not os.environ.get("PIP_FIND_LINKS"):
                fail("network")
            words.append("--no-index")
        elif index:
            words += ["--index-url", index]
        for link in links:
            words += ["--find-links", link]
        env = dict(os.environ, PIP_USER="0", PIP_BREAK_SYSTEM_PACKAGES="1",
                   PIP_ROOT_USER_ACTION="ignore")
        # Not in the work folder, whose modules are the program's and not pip's.
        done = subprocess.run(words + ["--", *packages], cwd=folder, env=env,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        if done.returncode == 0:
            return
        os.write(2, done.stdout[-65536:])
        lines = done.stdout.decode("utf-8", "replace").split("\n")
        fail("failed " + next((line[7:] for line in reversed(lines)
                               if line.startswith("ERROR: ")), "pip says why")[:300])

    def package_folder(packages, index, links):
        """Where pinned packages stay between the programs of one sandbox; None: nowhere."""
        if not all("==" in package and "*" not in package for package in packages):
            return None
        import hashlib
        made_of = "\n".join([sys.version, index, *links, "", *sorted(packages)])
        key = hashlib.sha256(made_of.encode("utf-8", "surrogateescape")).hexdigest()
        top = os.path.join(os.path.expanduser("~"), ".cache", "cay")
        try:
            os.makedirs(top, exist_ok=True)
        except OSError:
            return None
        return os.path.join(top, "packages-" + key[:32])

    def install(packages):
        import importlib.util
        import tempfile
        if importlib.util.find_spec("pip") is None:
            fail("pip")
        index = asked.get("index", [""])[0] or os.environ.get("PIP_INDEX_URL", "")
        links = asked.get("links", [])
        kept = package_folder(packages, index, links)
        folder = kept
        if kept is None or not os.path.isdir(kept):
            folder = tempfile.mkdtemp(prefix="cay-packages-", dir=kept and os.path.dirname(kept))
            run_pip(packages, index, links, folder)
            try:
                os.rename(folder, kept)
                folder = kept
            except (OSError, TypeError):
                import atexit
                import shutil
                atexit.register(shutil.rmtree, folder, True)
        sys.path.insert(1, folder)
        more = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = folder + (":" + more if more else "")
        importlib.invalidate_caches()

    # ---- the report ----

    def texts():
        """Files that can be a report, with what shows that they were changed."""
        found, count = {}, 0
        for top, folders, names in os.walk(work):
            folders[:] = [name for name in folders if name[:1] != "." and name != "node_modules"]
            for name in names:
                count += 1
                if count > FILES_MAX:
                    return found
                if name.lower().endswith(TEXTS):
                    path = os.path.join(top, name)
                    try:
                        now = os.stat(path)
                        found[path] = now.st_mtime_ns, now.st_size, now.st_ino
                    except OSError:
                        pass
        return found

    def problem(text):
        put(PROBLEM, text[:500].encode("utf-8", "backslashreplace"))

    def sections_of(text, is_html):
        import re
        if is_html:
            found = re.findall(r"<h[1-6][^>]*>(.*?)</h[1-6]>", text, re.S | re.I)
            return [" ".join(re.sub(r"<[^>]*>", " ", title).split()) for title in found]
        text = re.sub(r"^(```|~~~).*?^\1[^\n]*$", "", text, flags=re.S | re.M)
        lines, found = text.split("\n"), []
        for line, after in zip(lines, lines[1:] + [""]):
            line, after = line.strip(), after.strip()
            title = re.match(r"#{1,6}\s+(.*?)#*$|(?:={2,}|-{2,}|\*{2,})\s*([^=*-].*?)\s*[=*-]{2,}$"
                             r"|(\d{1,2}(?:\.\d+)*[.)]\s+\S.{0,78})$|([^a-z]*[A-Z][^a-z]{3,78})$",
                             line)
            underlined = len(after) > 2 and len(set(after)) == 1 and after[0] in "=-~^*\"#"
            if line and underlined and len(set(line)) > 1:
                found.append(line)
            elif title and any(title.groups()):
                found.append(next(group for group in title.groups() if group).strip())
        return [title for title in found if title]

    def figures_of(text, is_plain):
        import re
        found = re.findall(r"!\[[^\]]*\]\(\s*(?:<([^>\n]+)>|([^)\s>]+))|"
                           r"<img[^>]*?\ssrc\s*=\s*(?:\"([^\"]+)\"|'([^']+)'|([^\"'>\s]+))|"
                           r"^\s*\.\. (?:image|figure)::\s*(\S+)", text, re.I | re.M)
        names = [next(part for part in match if part) for match in found]
        if is_plain:
            names += re.findall(r"[\w./%-]+\.(?:png|svg|jpe?g|gif|webp)\b", text, re.I)
        return list(dict.fromkeys(names))

    def check_figure(report, name):
        from urllib.parse import unquote
        path = os.path.realpath(os.path.join(os.path.dirname(report), unquote(name)))
        if "://" in name or not path.startswith(work + os.sep):
            return problem("figure '%s' is not in the work folder" % name)
        begins = {".png": b"\x89PNG", ".jpg": b"\xff\xd8", ".jpeg": b"\xff\xd8", ".gif": b"GIF8",
                  ".webp": b"RIFF"}.get(os.path.splitext(path)[1].lower(), b"")
        try:
            with open(path, "rb") as file:
                head = file.read(16)
        except OSError:
            return problem("figure '%s' is not there" % name)
        if not head or not head.startswith(begins):
            return problem("figure '%s' is empty, or no picture of its kind" % name)
        put(FIGURE, os.path.relpath(path, work).encode("utf-8", "backslashreplace"))

    def check():
        now = texts()
        left = [path for path in now if before.get(path) != now[path]]
        if not left:
            return problem("no report was left in the work folder: write one as .md, .txt, .rst or "
                           ".html")
        report = max(left, key=lambda path: ("report" in os.path.basename(path).lower(),
                                             now[path][1]))
        kind = os.path.splitext(report)[1].lower()
        with open(report, "rb") as file:
            data = file.read(TEXT_MAX)
        put(FILE, os.path.relpath(report, work).encode("utf-8", "backslashreplace") + b"\0" + data)
        text = data.decode("utf-8", "replace").replace("\r\n", "\n")
        sections = sections_of(text, kind in (".html", ".htm"))
        for title in sections[:LIST_MAX]:
            put(SECTION, title[:200].encode("utf-8", "backslashreplace"))
        if len(text.split()) < WORDS_MIN:
            problem("the report has %d words: a comprehensive one has at least %d" %
                    (len(text.split()), WORDS_MIN))
        if len(sections) < SECTIONS_MIN:
            problem("the report has %d headings: give it at least %d, as '# Overview'" %
                    (len(sections), SECTIONS_MIN))
        for name in figures_of(text, kind == ".txt")[:LIST_MAX]:
            if name[:5] != "data:":
                check_figure(report, name)

    if "package" in asked:
        install(asked["package"])
    if "report" not in asked:
        return None
    work = os.path.realpath(os.getcwd())
    before = texts()
    return check
