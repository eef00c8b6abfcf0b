#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Build stub NVIDIA driver packages and an apt repository of them. They stand for hardware and vendor packages that are not here.
# usage: build.sh OUTDIR        (needs gcc, dpkg-deb and apt-ftparchive; about two seconds)
# Names, versions, dependencies and file layout follow the Ubuntu packages; README.md lists them.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${1:?usage: build.sh OUTDIR}
mkdir -p "$out/pool"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
arch=$(dpkg --print-architecture)
lib=usr/lib/$(gcc -print-multiarch)

# package NAME VERSION "Field: value\n..."; files are already in $work/NAME
package() {
  local name=$1 version=$2 fields=$3 dir="$work/$1"
  mkdir -p "$dir/DEBIAN"
  {
    printf 'Package: %s\nVersion: %s\nArchitecture: %s\nMaintainer: Test stub <stub@example.invalid>\nSection: test\n' "$name" "$version" "$arch"
    printf '%b' "$fields"
    printf 'Description: stub of an NVIDIA driver package, for tests without the hardware\n'
  } >"$dir/DEBIAN/control"
  chmod -R u+rwX,go+rX,go-w "$dir"
  dpkg-deb --root-owner-group -Zgzip -z1 --build "$dir" "$out/pool/${name}_${version}_${arch}.deb" >/dev/null
  rm -rf "$dir"
}

compile() { # SOURCE OUTPUT SONAME VERSION
  gcc -Wall -Wextra -Werror -O1 -fPIC -shared -Wl,-soname,"$3" -DSTUB_VERSION="\"$4\"" -DSTUB_NVML_VERSION="\"13.$4\"" -o "$2" "$here/$1"
}

module() { # OUTPUT VERSION LICENCE: an object file that modinfo reads
  printf 'static const char a[] __attribute__((section(".modinfo"), used, aligned(1))) = "version=%s";\n
static const char b[] __attribute__((section(".modinfo"), used, aligned(1))) = "license=%s";\n
static const char c[] __attribute__((section(".modinfo"), used, aligned(1))) = "name=nvidia";\n' "$2" "$3" >"$work/module.c"
  gcc -c -o "$1" "$work/module.c"
}

compute() { # NAME VERSION REVISION FIELDS
  local dir="$work/$1/$lib"
  mkdir -p "$dir"
  compile nvml.c "$dir/libnvidia-ml.so.$2" libnvidia-ml.so.1 "$2"
  compile cuda.c "$dir/libcuda.so.$2" libcuda.so.1 "$2"
  ln -s "libnvidia-ml.so.$2" "$dir/libnvidia-ml.so.1"
  ln -s "libcuda.so.$2" "$dir/libcuda.so.1"
  mkdir -p "$work/$1/DEBIAN"
  printf 'activate-noawait ldconfig\n' >"$work/$1/DEBIAN/triggers"
  package "$1" "$2-$3" "$4"
}

utils() { # NAME VERSION REVISION FIELDS
  mkdir -p "$work/$1/usr/bin"
  { echo "#!/usr/bin/python3"; sed "s/@VERSION@/$2/" "$here/nvidia-smi.py"; } >"$work/$1/usr/bin/nvidia-smi"
  chmod 755 "$work/$1/usr/bin/nvidia-smi"
  mkdir -p "$work/$1/DEBIAN"
  # A test that wants to interrupt dpkg in the middle of a transaction writes the seconds to wait there.
  printf '#!/bin/sh\nif [ -e /etc/nvidia-stub-slow ]; then sleep "$(cat /etc/nvidia-stub-slow)"; fi\n' >"$work/$1/DEBIAN/preinst"
  chmod 755 "$work/$1/DEBIAN/preinst"
  package "$1" "$2-$3" "$4"
}

dkms() { # NAME VERSION REVISION LICENCE FIELDS
  local dir="$work/$1"
  mkdir -p "$dir/usr/src/nvidia-$2" "$dir/DEBIAN"
  printf 'PACKAGE_NAME="nvidia"\nPACKAGE_VERSION="%s"\n' "$2" >"$dir/usr/src/nvidia-$2/dkms.conf"
  module "$dir/usr/src/nvidia-$2/nvidia.ko" "$2" "$4"
  # "Builds" for every kernel that has a module folder and for the running one, into the tree that dkms keeps.
  cat >"$dir/DEBIAN/postinst" <<EOF
#!/bin/sh
set -e
[ "\$1" = configure ] || exit 0
mkdir -p "/lib/modules/\$(uname -r)"
for path in /lib/modules/*; do
  kernel=\$(basename "\$path")
  built="/var/lib/dkms/nvidia/$2/\$kernel/\$(uname -m)/module"
  mkdir -p "\$built" "\$path/updates/dkms"
  cp /usr/src/nvidia-$2/nvidia.ko "\$built/nvidia.ko"
  cp /usr/src/nvidia-$2/nvidia.ko "\$path/updates/dkms/nvidia.ko"
done
EOF
  cat >"$dir/DEBIAN/prerm" <<EOF
#!/bin/sh
set -e
rm -rf /var/lib/dkms/nvidia/$2
rm -f /lib/modules/*/updates/dkms/nvidia.ko
EOF
  chmod 755 "$dir/DEBIAN/postinst" "$dir/DEBIAN/prerm"
  package "$1" "$2-$3" "$5"
}

branch580() { # VERSION
  local v=$1 r=0ubuntu1 dir
  compute libnvidia-compute-580 "$v" $r "Conflicts: libnvidia-compute-580-server\nReplaces: libnvidia-compute-580-server\n"
  utils nvidia-utils-580 "$v" $r "Depends: libnvidia-compute-580 (= $v-$r), python3\nConflicts: nvidia-utils-580-server\nReplaces: nvidia-utils-580-server\n"
  compute libnvidia-compute-580-server "$v" $r "Conflicts: libnvidia-compute-580\nReplaces: libnvidia-compute-580\n"
  utils nvidia-utils-580-server "$v" $r "Depends: libnvidia-compute-580-server (= $v-$r), python3\nConflicts: nvidia-utils-580\nReplaces: nvidia-utils-580\n"

  mkdir -p "$work/libnvidia-cfg1-580/$lib"
  echo stub >"$work/libnvidia-cfg1-580/$lib/libnvidia-cfg.so.$v"
  package libnvidia-cfg1-580 "$v-$r" ""

  dir="$work/nvidia-compute-utils-580"
  mkdir -p "$dir/usr/bin" "$dir/lib/systemd/system" "$dir/DEBIAN"
  printf '#!/bin/sh\n[ "${1:-}" != --version ] || { echo "nvidia-persistenced:  version %s"; exit 0; }\nexec sleep infinity\n' "$v" >"$dir/usr/bin/nvidia-persistenced"
  chmod 755 "$dir/usr/bin/nvidia-persistenced"
  printf '[Unit]\nDescription=Stub NVIDIA persistence daemon\n[Service]\nExecStart=/usr/bin/nvidia-persistenced\n[Install]\nWantedBy=multi-user.target\n' >"$dir/lib/systemd/system/nvidia-persistenced.service"
  printf '#!/bin/sh\nset -e\n[ "$1" = configure ] || exit 0\nif [ -d /run/systemd/system ]; then\n  systemctl --system daemon-reload >/dev/null || true\n  deb-systemd-invoke restart nvidia-persistenced.service >/dev/null || true\nfi\n' >"$dir/DEBIAN/postinst"
  chmod 755 "$dir/DEBIAN/postinst"
  package nvidia-compute-utils-580 "$v-$r" "Depends: libnvidia-compute-580 (= $v-$r), libnvidia-cfg1-580 (= $v-$r)\n"

  mkdir -p "$work/nvidia-firmware-580-$v/lib/firmware/nvidia/$v"
  echo stub >"$work/nvidia-firmware-580-$v/lib/firmware/nvidia/$v/gsp_ga10x.bin"
  package "nvidia-firmware-580-$v" "$v-$r" ""
  package nvidia-kernel-common-580 "$v-$r" "Depends: nvidia-firmware-580-$v\n"
  dkms nvidia-dkms-580-open "$v" $r "Dual MIT/GPL" "Depends: nvidia-kernel-common-580 (= $v-$r)\nConflicts: nvidia-dkms-580\n"
  dkms nvidia-dkms-580 "$v" $r NVIDIA "Depends: nvidia-kernel-common-580 (= $v-$r)\nConflicts: nvidia-dkms-580-open\n"
  package nvidia-driver-580-open "$v-$r" "Depends: libnvidia-compute-580 (= $v-$r), nvidia-utils-580 (= $v-$r), nvidia-compute-utils-580 (= $v-$r), nvidia-dkms-580-open (= $v-$r)\n"

  mkdir -p "$work/nvidia-fabricmanager-580/usr/bin"
  printf '#!/bin/sh\necho "Fabric Manager version is : %s"\n' "$v" >"$work/nvidia-fabricmanager-580/usr/bin/nv-fabricmanager"
  chmod 755 "$work/nvidia-fabricmanager-580/usr/bin/nv-fabricmanager"
  package nvidia-fabricmanager-580 "$v-1" ""
}

branch590() { # names without a branch, as the vendor writes them since 590
  local v=$1 r=1ubuntu1
  compute libnvidia-compute "$v" $r "Conflicts: libnvidia-compute-580\nReplaces: libnvidia-compute-580\n"
  utils nvidia-utils "$v" $r "Depends: libnvidia-compute (= $v-$r), python3\nConflicts: nvidia-utils-580\nReplaces: nvidia-utils-580\n"
  mkdir -p "$work/libnvidia-cfg1/$lib"
  echo stub >"$work/libnvidia-cfg1/$lib/libnvidia-cfg.so.$v"
  package libnvidia-cfg1 "$v-$r" ""
  dkms nvidia-dkms-open "$v" $r "Dual MIT/GPL" "Conflicts: nvidia-dkms-580-open\n"
}

branch580 580.126.09
branch580 580.159.03
branch590 590.44.01
# A module for which no user space is to be had.
dkms nvidia-dkms-580-open 580.95.05 0ubuntu1 "Dual MIT/GPL" "Conflicts: nvidia-dkms-580\n"
# Shows that an unattended upgrade really ran.
package stub-canary 1.0 ""
package stub-canary 1.1 ""
branch590 595.71.05

dir="$work/nvidia-stub-host"
mkdir -p "$dir/usr/local/sbin" "$dir/etc" "$dir/lib/systemd/system" "$dir/DEBIAN"
install -m 755 "$here/modules.sh" "$dir/usr/local/sbin/nvidia-stub-boot"
for name in modprobe insmod rmmod lsmod nvidia-stub-load; do ln -s nvidia-stub-boot "$dir/usr/local/sbin/$name"; done
install -m 644 "$here/nvidia-stub.conf" "$dir/etc/nvidia-stub.conf"
echo /etc/nvidia-stub.conf >"$dir/DEBIAN/conffiles"
cat >"$dir/lib/systemd/system/nvidia-stub-module.service" <<'EOF'
[Unit]
Description=Load the stub NVIDIA kernel module, as a kernel with the hardware would
DefaultDependencies=no
After=local-fs.target
Before=sysinit.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/local/sbin/nvidia-stub-boot
[Install]
WantedBy=sysinit.target
EOF
printf '#!/bin/sh\nset -e\nsystemctl enable --quiet nvidia-stub-module.service\n' >"$dir/DEBIAN/postinst"
chmod 755 "$dir/DEBIAN/postinst"
package nvidia-stub-host 1.0 "Depends: kmod\n"

cd "$out"
apt-ftparchive packages pool >Packages
apt-ftparchive -o APT::FTPArchive::Release::Origin=StubNVIDIA -o APT::FTPArchive::Release::Suite=stable release . >"$work/Release"
mv "$work/Release" Release
