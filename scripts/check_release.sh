#!/usr/bin/env bash
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# check_release.sh wheel|deb: what people install, made and used as they would. wheel: `make wheel`; the wheel, and
# the sdist by itself, in empty environments outside the tree (scripts/check_wheel.py uses them). deb: `make deb`;
# the packages in a fresh Debian (debootstrap), with the tests in debian/tests, and gone again when they are
# purged; as root only. Last line: N passed, N failed.
set -u
cd "$(dirname "$0")/.."
. scripts/counting.sh
version=$(sed -nE 's/#define PF_VERSION "([0-9.]+)"/\1/p' include/preflight/base.h)
dist=$PWD/build/dist

empty_environment() { # empty_environment FOLDER FILE: a venv with what FILE is and needs, and nothing else
    env -u PYTHONPATH python3 -m venv "$1" &&
        env -u PYTHONPATH "$1/bin/python" -m pip install -q --disable-pip-version-check "$2"
}
use() { # use FOLDER: from a folder of its own, with nothing of the tree in sight
    mkdir -p "$1/used" &&
        (cd "$1/used" && env -u PYTHONPATH -u PREFLIGHT_PYTHON -u PREFLIGHT_LIBRARY -u PREFLIGHT_PROGRAM \
            "$1/venv/bin/python" "$script" "$version" "$program")
}

wheel() {
    script=$PWD/scripts/check_wheel.py program=$PWD/build/release/preflight
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    build release preflight_cli
    check "make wheel" scripts/wheel.sh
    local wheels=("$dist"/preflight_readiness-"$version"-py3-none-manylinux_*.whl) sdist=$dist/preflight_readiness-$version.tar.gz
    [ -f "${wheels[0]}" ] && [ -f "$sdist" ] || { ok 1 "a wheel and an sdist of $version in build/dist"; return; }
    local tag=${wheels[0]%.whl}
    build/release-tools/bin/auditwheel show "${wheels[0]}" | tr '\n' ' ' | grep -q "platform tag: *\"${tag##*none-}\""
    ok $? "auditwheel agrees with the name ${wheels[0]##*/}"
    unzip -Z1 "${wheels[0]}" | sed -nE 's,.*\.libs/lib([a-z0-9]+).*,\1,p' | sort | tr '\n' ' ' | grep -qx 'jansson sqlite3 yaml '
    ok $? "the wheel carries libyaml, jansson and SQLite, and no other library"
    check "the wheel is installed into an empty environment" empty_environment "$work/wheel/venv" "${wheels[0]}"
    check "the wheel is used" use "$work/wheel"
    ! grep -rlF -e "$PWD" -e /tmp/ --include='*.so' --include=preflight "$work"/wheel/venv/lib/*/site-packages/preflight
    ok $? "no folder of this machine in the library and the program of the wheel"
    check "the wheel takes libraries from fixed folders" scripts/check_elf.sh --paths "$work"/wheel/venv/lib/*/site-packages/preflight
    check "the sdist builds in an empty environment" empty_environment "$work/sdist/venv" "$sdist"
    check "what the sdist gives is used" use "$work/sdist"
}

# a fresh Debian of the release that this machine has, from where it has its packages; kept for the next run
fresh_root() { # fresh_root FOLDER
    local codename uri
    codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    uri=$(apt-get indextargets --format '$(REPO_URI)' 'Identifier: Packages' "Codename: $codename" | head -n 1)
    rm -rf "$1"
    if [ ! -s build/root.tar ]; then
        debootstrap --variant=minbase "$codename" "$1" "$uri" && tar -C "$1" -cf build/root.tar.part . &&
            mv build/root.tar.part build/root.tar
    else
        mkdir -p "$1" && tar -C "$1" -xf build/root.tar
    fi
}
inside() { # inside COMMAND...: in the fresh root, which has /proc only meanwhile
    unshare --mount --pid --fork sh -c 'mount -t proc proc "$0/proc" && exec chroot "$0" env -i \
        PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"' "$root" "$@"
}
get() { inside apt-get install -y -qq --no-install-recommends "$@"; }
none_left() { # files of ours, but for dpkg's own notes
    [ -z "$(inside find / -xdev \( -path /packages -o -path /proc -o -path /var -o -path /tmp \) -prune -o \
        -iname '*preflight*' -print | tee /dev/stderr)" ]
}
needs() { # needs TEST: the packages that it names in debian/tests/control
    sed -n "/^Tests: $1\$/,/^\$/s/^Depends: //p" debian/tests/control | tr -d ,
}

deb() {
    [ "$(id -u)" = 0 ] || skip "Debian packages" "a fresh root needs root"
    mkdir -p build
    flock build/debian.lock scripts/deps.sh release
    command -v debootstrap >/dev/null && command -v lintian >/dev/null || skip "Debian packages" "no lintian or debootstrap"
    build release preflight_cli
    root=$PWD/build/root
    check "make deb, with no error or warning of lintian" scripts/deb.sh
    check "programs and libraries are hardened" scripts/check_elf.sh "build/deb/preflight-$version/debian/tmp"
    check "a fresh Debian" fresh_root "$root"
    mkdir "$root/packages" && cp -r "$dist"/*.deb debian/tests "$root/packages"
    ok $? "packages are in build/dist"
    check "its lists of packages" inside apt-get update -qq
    check "apt install ./preflight" get "/packages/preflight_${version}_$(dpkg --print-architecture).deb"
    check "the program" inside sh /packages/tests/program
    build/release/preflight calibrate quad_tank -o "$root/packages/built.kit" --set episodes=20 >/dev/null &&
        inside preflight calibrate quad_tank -o /packages/own.kit --set episodes=20 >/dev/null &&
        cmp "$root/packages/built.kit" "$root/packages/own.kit"
    ok $? "the packaged program makes the same kit as the built one"
    check "apt install ./libpreflight-dev and its libraries" get $(cd "$root" && printf "/%s\n" packages/libpreflight*.deb)
    check "what the C programs are built with" get $(needs develop)
    check "C programs" inside sh /packages/tests/develop
    check "apt purge" inside sh -c 'apt-get purge -y -qq $(dpkg-query -W -f "\${Package}\n" | grep preflight)'
    check "no file is left" none_left
    rm -rf "$root"
}

case ${1:-} in
wheel | deb) "$1" ;;
*) echo "usage: scripts/check_release.sh wheel|deb" >&2; exit 2 ;;
esac
counts
