#!/bin/sh
# Unpack Debian packages into a folder, without installing them: scripts/debian.sh FOLDER PACKAGE...
# Needs no root where apt's lists are there; nothing of the machine is changed but those lists, if they are missing.
set -eu

folder=$1
shift
for package; do
    if ! apt-cache show "$package" >/dev/null 2>&1; then
        echo "reading the lists of Debian's packages"
        apt-get update -qq
        break
    fi
done
mkdir -p "$folder/downloads"
cd "$folder/downloads"
apt-get -o APT::Sandbox::User=root download -qq "$@"
for archive in *.deb; do
    dpkg-deb -x "$archive" "$folder"
done
rm -rf "$folder/downloads"
