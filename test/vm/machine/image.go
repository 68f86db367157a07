package machine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/criadapter/criadapter/test/debian"
	"github.com/criadapter/criadapter/test/program"
	"github.com/criadapter/criadapter/test/rig/cache"
	"github.com/criadapter/criadapter/test/rig/images"
)

// The files of an image's directory.
const (
	diskFile       = "disk.qcow2"
	memoryFile     = "memory"
	kernelFile     = "vmlinuz"
	initrdFile     = "initrd"
	keyFile        = "key"
	knownHostsFile = "known_hosts"
)

// diskSize is the size of a machine's disk. The disk's file holds only what was written to the disk.
const diskSize = "16G"

// imageVersion changes whenever images are made in another way.
const imageVersion = "2"

// tools are the host's programs that machines need.
func (k Kind) tools() []images.Tool {
	return []images.Tool{
		k.emulator,
		{Program: "qemu-img", Package: "qemu-utils"},
		{Program: "mke2fs", Package: "e2fsprogs"},
		{Program: "ssh", Package: "openssh-client"},
		{Program: "debootstrap", Package: "debootstrap"},
	}
}

// allPackages are the Debian packages of the machine.
func (k Kind) allPackages() []string {
	return append([]string{"systemd", "systemd-sysv", "dbus", "udev", "kmod", "procps", "iproute2", "iptables",
		"openssh-server", "sudo", "docker.io", "criu", "initramfs-tools", k.kernel}, k.packages...)
}

// Image returns the directory of the image. It installs missing tools on a Debian host. The first time it downloads
// Debian's packages and boots a machine of them, which takes some minutes.
func (k Kind) Image(ctx context.Context) (string, error) {
	if err := images.Packages(ctx, k.tools()...); err != nil {
		return "", err
	}
	disk, booted, err := k.imageKeys(ctx)
	if err != nil {
		return "", err
	}
	base, err := cache.Fill(ctx, disk, k.makeDisk)
	if err != nil {
		return "", err
	}
	return cache.Fill(ctx, booted, func(ctx context.Context, dir string) error { return k.boot(ctx, base, dir) })
}

// Cached says whether Image has nothing to make.
func (k Kind) Cached(ctx context.Context) (bool, error) {
	if _, err := images.FindTool(k.emulator.Program); err != nil {
		return false, nil
	}
	_, booted, err := k.imageKeys(ctx)
	if err != nil {
		return false, err
	}
	return cache.Has(booted)
}

// imageKeys name two entries of the cache: the disk, and the machine that has booted from it. The memory of a machine
// can be resumed only by the same emulator with the same hardware.
func (k Kind) imageKeys(ctx context.Context) (disk, booted string, err error) {
	version, err := program.Output(ctx, "", nil, k.emulator.Program, "--version")
	if err != nil {
		return "", "", err
	}
	line, _, _ := strings.Cut(version, "\n")
	disk = cache.Key("machine-disk", k.Name, debian.Suite, imageVersion)
	sum := sha256.Sum256([]byte(line + strings.Join(k.hardware(), " ")))
	return disk, cache.Key("machine-booted", k.Name, debian.Suite, imageVersion, hex.EncodeToString(sum[:6])), nil
}

// boot boots a machine from the disk in the directory base. It leaves what the machine wrote, and its memory, in dir.
func (k Kind) boot(ctx context.Context, base, dir string) error {
	files := []string{kernelFile, initrdFile, keyFile, knownHostsFile}
	if k.foreign() {
		files = append(files, userlandFile)
	}
	for _, name := range files {
		if err := program.CopyFile(filepath.Join(base, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	// The path is relative, because cache.Fill renames dir.
	below := filepath.Join("..", filepath.Base(base), diskFile)
	if err := makeOverlay(ctx, below, filepath.Join(dir, diskFile)); err != nil {
		return err
	}
	fmt.Printf("booting the machine %s once, for the cache …\n", k.Name)
	began := time.Now()
	err := program.InDir(func(work string) error {
		m := &Machine{kind: k, image: dir, dir: work, disk: filepath.Join(dir, diskFile)}
		if err := makeShareDisk(ctx, m.shareDisk(), ""); err != nil {
			return err
		}
		err := m.powerOn(ctx)
		if err == nil {
			err = m.saveMemory(ctx, filepath.Join(dir, memoryFile))
		}
		return errors.Join(err, m.powerOff())
	})
	fmt.Printf("booted and saved in %s\n", time.Since(began).Round(time.Second))
	return err
}

// makeOverlay makes a disk on top of base. The disk shows the content of base, and keeps all later writes.
func makeOverlay(ctx context.Context, base, disk string) error {
	_, err := program.Output(ctx, "", nil, "qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", base, disk)
	return err
}

// makeDisk bootstraps Debian and makes a disk of it in dir.
func (k Kind) makeDisk(ctx context.Context, dir string) (err error) {
	fmt.Printf("making the disk of the machine %s from Debian's packages …\n", k.Name)
	root := filepath.Join(dir, "root")
	end, err := debian.Emulate(ctx, k.Architecture)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	if err := debian.Bootstrap(ctx, root, k.Architecture, k.allPackages()...); err != nil {
		return err
	}
	if err := configure(ctx, root, dir); err != nil {
		return err
	}
	if err := k.finishRoot(ctx, root, dir); err != nil {
		return err
	}
	for pattern, name := range map[string]string{"vmlinuz-*": kernelFile, "initrd.img-*": initrdFile} {
		found, err := filepath.Glob(filepath.Join(root, "boot", pattern))
		if err != nil || len(found) != 1 {
			return fmt.Errorf("files %s of the kernel's package: %q, %v", pattern, found, err)
		}
		if err := program.CopyFile(found[0], filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	raw := filepath.Join(dir, "disk.raw")
	if err := makeFileSystem(ctx, raw, diskSize, root); err != nil {
		return err
	}
	if _, err := program.Output(ctx, "", nil, "qemu-img", "convert", "-O", "qcow2", raw,
		filepath.Join(dir, diskFile)); err != nil {
		return err
	}
	return errors.Join(os.Remove(raw), os.RemoveAll(root))
}

// makeFileSystem makes an ext4 file system with the files of a directory in a sparse file.
func makeFileSystem(ctx context.Context, path, size, from string) error {
	mke2fs, err := images.FindTool("mke2fs")
	if err != nil {
		return err
	}
	// Otherwise the kernel would initialize the tables later, while the machine works.
	args := []string{"-q", "-F", "-t", "ext4", "-E", "lazy_itable_init=0"}
	if from != "" {
		args = append(args, "-d", from)
	}
	_, err = program.Output(ctx, "", nil, mke2fs, append(args, path, size)...)
	return err
}

// makeShareDisk makes the disk with the files of the directory share, or without files if share is "". All such disks
// have one size, because a machine that is resumed from saved memory already knows the size.
func makeShareDisk(ctx context.Context, path, share string) error {
	return makeFileSystem(ctx, path, "2G", share)
}
