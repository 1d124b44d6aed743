#!/usr/bin/env bats
# The Debian package: built by cargo deb, installed into a directory, used from there, purged.

load helper

# One build serves all tests of this file.
setup_file() {
  command -v cargo-deb >/dev/null || return 0
  "${BATS_TEST_DIRNAME%/tests/bats}/shell/package" >&2
}

require_package() {
  command -v cargo-deb >/dev/null || skip 'cargo-deb is not installed'
  deb=("$INTERLOCK_ROOT"/target/debian/interlock_*.deb)
  [[ -f ${deb[0]} ]]
}

# dpkg with a root of its own, which knows bash and libc.
private_dpkg() {
  dpkg --root="$T/root" --force-not-root --force-depends --log="$T/log" "$@"
}

@test "package: installs, works by enable -f and by interlock.sh, and purges without a trace" {
  require_package
  mkdir -p "$T/root/var/lib/dpkg"
  : >"$T/root/var/lib/dpkg/status"
  private_dpkg --install "${deb[0]}" >/dev/null
  launch=(env -u INTERLOCK_LIB "PATH=$T/root/usr/bin:$PATH" "BASH_LOADABLES_PATH=$T/root/usr/lib/bash")
  start shell "$INTERLOCK_BASH" -c 'enable -f interlock.so mutex_lock && type -t mutex_lock; . interlock.sh && type -t queue_get'
  end_of shell
  expect_output $'builtin\nbuiltin'
  [[ -s $T/root/usr/share/man/man1/interlock.1.gz || -s $T/root/usr/share/man/man1/interlock.1 ]]
  private_dpkg --purge interlock >/dev/null
  [[ -z $(find "$T/root/usr" ! -type d 2>/dev/null) ]]
}

@test "package: says what it is" {
  require_package
  [[ $(dpkg-deb --field "${deb[0]}" Package) == interlock ]]
  [[ $(dpkg-deb --field "${deb[0]}" Depends) == *bash* ]]
  dpkg-deb --contents "${deb[0]}" | grep -q 'usr/lib/bash/interlock.so -> libinterlock.so'
}
