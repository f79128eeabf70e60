#!/usr/bin/env bash
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# Signed files and the programs that files name, with OpenSSH's own ssh-keygen (docs/trust.md). Last line: N
# passed, N failed.
set -u
cd "$(dirname "$0")/.." || exit 1
root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. scripts/counting.sh
command -v ssh-keygen >/dev/null || skip "signed files" "no ssh-keygen: package openssh-client"
build release preflight_cli
program=$root/build/release/preflight
cd "$work" || exit 1

refused() { # refused WORDS NAME COMMAND...: exit status 3 with these words
    local words=$1 name=$2
    shift 2
    "$@" >out 2>&1
    [ $? = 3 ] && grep -q -- "$words" out
    ok $? "$name"
}
sign() { ssh-keygen -q -Y sign -n "${2:-preflight}" -f "${3:-alice}" <"$1" >"$1.sig" 2>/dev/null; }
for name in alice bob; do ssh-keygen -q -t ed25519 -N '' -C $name -f $name; done
echo "alice@example.com $(cut -d' ' -f1,2 alice.pub)" >signers
quick=(--set episodes=20 --set alarm_trials=50)
"$program" calibrate dc_servo "${quick[@]}" -o k.kit >/dev/null
"$program" check k.kit --journal j >/dev/null

# kits
refused 'k.kit: is not signed; `ssh-keygen -Y sign -n preflight' "an unsigned kit" "$program" check k.kit --trust signers
sign k.kit
for command in "check k.kit" "kit show k.kit" "kit report k.kit -o page.html" "serve k.kit"; do
    # shellcheck disable=SC2086
    "$program" $command --trust signers </dev/null >out 2>&1
    ok $? "$command of a signed kit"
done
"$program" check k.kit --trust signers --json | python3 -c 'import json, sys; json.load(sys.stdin)'
ok $? "a signed kit gives a certificate"
"$program" check k.kit --trust signers --certificate c.json --report sheet.html >/dev/null
grep -q '"signed_by":"alice@example.com"' c.json && grep -q 'kit signed by.*alice@example.com' sheet.html
ok $? "the certificate and the sheet say who signed the kit"
"$program" check k.kit --certificate c.json --report sheet.html >/dev/null
grep -q '"signed_by":null' c.json && ! grep -q 'signed by' sheet.html
ok $? "where nobody is asked for they do not"
# of an audit beside it the signature counts too
"$program" audit k.kit --sessions 1 --trust signers --progress none >/dev/null 2>&1
"$program" check k.kit --trust signers | grep -q 'not audited: the file with its audit is not signed'
ok $? "an unsigned audit does not count"
sign k.kit.audit.json && "$program" check k.kit --trust signers | grep -q 'This kit was audited'
ok $? "a signed audit counts"
# nor is it gone on from: its rows may be anybody's
cp k.kit.audit.json good.json
sed -i 's/"alarm":[0-9]*/"alarm":0/' k.kit.audit.json && cp k.kit.audit.json edited.json
refused 'is not what alice@example.com signed' "audit takes no rows of an edited audit" "$program" audit k.kit --sessions 1 --trust signers --progress none
rm k.kit.audit.json.sig
refused 'k.kit.audit.json: is not signed' "audit takes no rows of an unsigned audit" "$program" audit k.kit --sessions 1 --trust signers --progress none
cmp -s k.kit.audit.json edited.json
ok $? "which stays as it is"
"$program" kit report k.kit -o page.html --trust signers >out 2>&1 && grep -q 'This kit was not audited' page.html
ok $? "kit report does not show an unsigned audit"
"$program" audit k.kit --sessions 1 --trust signers --progress none --replace >out 2>&1; cmp -s k.kit.audit.json good.json
ok $? "--replace begins again without it"
sign k.kit.audit.json && "$program" audit k.kit --sessions 1 --trust signers --progress none >out 2>&1 && cmp -s k.kit.audit.json good.json
ok $? "a signed audit is gone on from"
"$program" kit report k.kit -o page.html --trust signers >out 2>&1 && grep -q 'entries of the catalogue are done' page.html
ok $? "kit report shows a signed audit"
# one byte of a name, sealed again: the checksum is right
python3 - <<'P'
import hashlib
data = bytearray(open("k.kit", "rb").read())
at = data.rindex(b"dc_servo")
data[at:at + 8] = b"dc_servp"
data[-32:] = hashlib.sha256(data[:-32]).digest()
open("edited.kit", "wb").write(data)
P
cp k.kit.sig edited.kit.sig
"$program" kit show edited.kit >/dev/null
ok $? "the edited kit can be read"
refused 'is not what alice@example.com signed for preflight' "an edited kit" "$program" kit show edited.kit --trust signers
sign k.kit preflight bob
refused 'by nobody that signers allows' "another signer" "$program" check k.kit --trust signers
sign k.kit file
refused 'allowed for something else' "another namespace" "$program" check k.kit --trust signers
echo garbage >k.kit.sig
refused 'by nobody that signers allows' "a signature that is none" "$program" check k.kit --trust signers
sign k.kit
cp k.kit.sig kept.sig && truncate -s 100M k.kit.sig
refused 'is no signature of OpenSSH' "a signature of 100 MB, at once" "$program" check k.kit --trust signers
mv kept.sig k.kit.sig
refused 'is no plain file' "no file of signers" "$program" check k.kit --trust nothere
refused 'install OpenSSH' "no ssh-keygen" env PATH=/nonexistent "$program" check k.kit --trust signers
echo "alice@example.com namespaces=\"git\" $(cut -d' ' -f1,2 alice.pub)" >git_only
refused 'is not what\|by nobody' "a signer for other namespaces" "$program" check k.kit --trust git_only
# nothing that a name holds is read by a shell
mkdir 'a;touch x' && cp k.kit 'a;touch x/$(touch y).kit' && sign 'a;touch x/$(touch y).kit'
"$program" kit show 'a;touch x/$(touch y).kit' --trust signers >/dev/null && [ ! -e x ] && [ ! -e y ]
ok $? "names are arguments, not shell text"

# a parent that does not care for its children: an exit status that nobody knows is no success
refused 'is not what alice@example.com signed' "SIGCHLD ignored" env --ignore-signal=CHLD "$program" kit show edited.kit --trust signers

# a wait for somebody else ends on a signal (timeout: 124, and 137 where it must kill)
mkdir slow && printf '#!/bin/sh\nsleep 100\n' >slow/ssh-keygen && chmod +x slow/ssh-keygen && mkfifo pipe
PATH=$work/slow:$PATH timeout -k 4 2 "$program" check k.kit --trust signers >out 2>&1
[ $? = 124 ] && grep -q interrupted out
ok $? "SIGTERM ends a wait for ssh-keygen"
timeout -k 4 2 "$program" check pipe >out 2>&1
[ $? = 124 ] && grep -q interrupted out
ok $? "SIGTERM ends a wait for who writes a kit into a pipe"

# journals, certificates, models
refused 'j: is not signed' "an unsigned journal" "$program" replay j --trust signers
sign j
for command in "replay j" "explain j"; do
    # shellcheck disable=SC2086
    "$program" $command --trust signers >/dev/null
    ok $? "$command of a signed journal"
done
"$program" serve k.kit --journal half --trust signers </dev/null
refused 'half: is not signed' "serve does not go on from an unsigned journal" "$program" serve k.kit --resume half --trust signers </dev/null
sign half && "$program" serve k.kit --resume half --trust signers </dev/null 2>/dev/null
ok $? "serve goes on from a signed journal"
sed -i 's/"seed"/"seeD"/' j
refused 'j: is not what' "an edited journal" "$program" explain j --trust signers
"$program" train dc_servo -o m --profile quick --progress none >/dev/null 2>&1
refused 'm: is not signed' "an unsigned model" "$program" model show m --trust signers
sign m && "$program" model show m --trust signers >/dev/null
ok $? "a signed model"

# programs that a kit or suite names
"$program" calibrate "exec:touch $work/ran; exec python3 $root/examples/exec_plant.py" "${quick[@]}" -o own.kit >/dev/null
rm -f ran
refused "names a program, which was not run: 'exec:touch" "a kit's own program" "$program" check own.kit
[ ! -e ran ]
ok $? "it was not run"
sign own.kit
"$program" check own.kit --trust signers >out; [ $? -le 1 ] && [ -e ran ]
ok $? "under --trust it is run"
"$program" check own.kit --plant "exec:touch $work/ran; exec python3 $root/examples/exec_plant.py" >again; [ $? -le 1 ] && cmp -s out again
ok $? "named by --plant it is run, to the same verdict"
sed -e 's/^id:.*/id: own/' -e '/^environments:/,/\]/c\environments: ["exec:touch ran2; false"]' "$root/suites/compact-plants.yaml" >own.yaml
refused "own names a program" "a suite's own program" "$program" bench run ./own.yaml --profile quick
[ ! -e ran2 ]
ok $? "nor was that"
counts
