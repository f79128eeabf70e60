# Thin over the CMake presets: `make demo` builds and shows, `make check` builds and tests, `make
# check-all` tests what needs minutes, much memory or much disk as well.
SHELL := /bin/bash
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
PREFIX ?= /usr/local

.PHONY: all demo check check-all bench bench-quick growth fuzz torture install wheel deb format deps domains clean

all: build/release/preflight

# Debian packages and the pinned Python environment; a no-op when present.
deps:
	@scripts/deps.sh

# The simulators behind `bench run grid driving inventory`, in build/domains. For a program without
# its source tree: make domains DOMAINS=~/.local/share/preflight/domains
domains:
	@scripts/domains.sh $(DOMAINS)

build/release/preflight: FORCE
	@scripts/build.sh release preflight_cli

demo: deps build/release/preflight
	@build/release/preflight demo

check:
	@scripts/deps.sh system
	@scripts/check.sh

check-all:
	@scripts/deps.sh system
	@scripts/check.sh all

# Beside NumPy, PyTorch, Gymnasium, EnvPool and bare MuJoCo, in turns: one table of ratios. The quick
# one installs nothing, takes two minutes and says what it leaves out.
bench: deps
	@scripts/build.sh release bench_programs preflight_cli
	@python3 perf/bench.py

bench-quick:
	@scripts/build.sh release bench_programs preflight_cli
	@python3 perf/bench.py --quick

# How cost grows with candidates, rows, gains, trials and recordings; half an hour.
growth: deps
	@scripts/build.sh release bench_programs preflight_cli
	@python3 perf/growth.py build/release

# What others install, in build/dist: an sdist and a wheel; Debian packages.
wheel:
	@scripts/deps.sh system
	@scripts/wheel.sh

deb:
	@scripts/deps.sh release
	@scripts/deb.sh

# Longer than what a target gets in `make check`: make fuzz SECONDS_EACH=600
fuzz: deps
	@scripts/fuzz.sh $(or $(SECONDS_EACH),120)

# Kills, full disks, failing allocations and edited files, thousands of each; minutes to hours.
torture: deps
	@scripts/torture.sh full

install:
	@scripts/build.sh release
	cmake --install build/release --prefix $(PREFIX)

format:
	clang-format -i $$(git ls-files '*.c' '*.h')

clean:
	rm -rf build

FORCE:
