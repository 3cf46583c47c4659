#!/bin/sh
# Unpack Debian packages into a folder, without installing them: scripts/debian.sh FOLDER PACKAGE...
# Needs no root, and changes nothing of the machine: where apt's lists are missing, or name versions that the archive no
# longer has, it reads lists of its own.
set -eu

mkdir -p "$1"
folder=$(cd "$1" && pwd)
shift
mkdir -p "$folder/downloads" "$folder/lists/partial"
cd "$folder/downloads"
apt() { apt-get -qq -o APT::Sandbox::User=root "$@"; }
if ! apt download "$@" 2>/dev/null; then
    echo "reading the lists of Debian's packages"
    apt -o Dir::State::Lists="$folder/lists" -o Dir::Cache="$folder/downloads" update
    apt -o Dir::State::Lists="$folder/lists" -o Dir::Cache="$folder/downloads" download "$@"
fi
for archive in *.deb; do
    dpkg-deb -x "$archive" "$folder"
done
rm -rf "$folder/downloads" "$folder/lists"
