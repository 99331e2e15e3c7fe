# A thin front: each target says which script does the work. Everything is built into build/.
.PHONY: all run test stress install deb bench fuzz lint asan coverage hooks clean image-python image-data

PREFIX ?= /usr/local

all:
	scripts/setup
	scripts/build build

# A Python line in a fresh sandbox, with the time that each step took.
run: all
	build/cay run --timings -- python3 -c 'import os, platform as p; print("Python", p.python_version(), "in a sandbox: host", p.node() + ", user", os.getuid(), "pid", os.getpid(), "network", os.listdir("/sys/class/net") if os.path.isdir("/sys/class/net") else "none")'

test:
	scripts/setup --test
	scripts/build build
	scripts/test

# What tests do a part of, in full: 3,000 kills, 10,000 cycles, 100,000 bad requests, every fuzz target for a
# minute. About three hours.
STRESS = capacity cleanup daemon_kills daemon_stress faults http_edge interpreter load prepared pull python_daemon \
         python_same recipes restart rootless storm
stress: all
	scripts/setup --test
	CAY_STRESS=full /usr/bin/python3 -m pytest -p no:cacheprovider -q $(STRESS:%=tests/integration/test_%.py) \
	  tests/hostile/test_images.py tests/hostile/test_layers.py
	CAY_STRESS=full /usr/bin/python3 -m pytest -p no:cacheprovider -q tests/vm/test_cases.py
	scripts/setup --fuzz
	scripts/fuzz 60
	scripts/tsan

install: all
	meson configure build -Dprefix=$(PREFIX)
	meson install -C build

# Debian packages in build/packages: cay and libcay-dev.
deb: all
	scripts/setup --package
	packaging/make-deb build build/packages

bench: all
	scripts/setup --bench
	bench/run
	bench/images
	bench/python
	bench/daemon
	bench/api
	bench/sdk

# Images from Debian packages: cay/python, cay/data.
image-python image-data: image-%: all
	scripts/setup --images
	images/make $*

fuzz:
	scripts/setup --fuzz
	scripts/fuzz

lint:
	scripts/setup --lint
	scripts/lint

asan:
	scripts/setup --test
	scripts/test 'asan-*'

coverage:
	scripts/setup --lint
	scripts/build build-coverage -Db_coverage=true -Dbuildtype=debugoptimized
	meson test -C build-coverage --no-rebuild --quiet
	ninja -C build-coverage --quiet coverage-text
	cat build-coverage/meson-logs/coverage.txt

# The quick checks before each commit, in this clone.
hooks:
	git config core.hooksPath scripts/hooks

clean:
	rm -rf build build-asan build-coverage build-fuzz build-fuzz-link build-lint build-analyzer
