package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/criadapter/criadapter/internal/ocinote"
	"github.com/criadapter/criadapter/internal/testutil"
)

const (
	somePasswd = "root:x:0:0:root:/root:/bin/sh\nalice:x:1000:1000::/home:/bin/sh\nalias:x:1000:1000::/:/bin/sh\n" +
		"bob:x:1001:100\nbroken:x\n"
	someGroup = "root:x:0:root\nusers:x:100:bob\n# video:x:44:alice\nalice:x:1000:\n\n  audio:x:29:bob,alice\n" +
		"image:x:50000:alice\nbroken:x:one:alice\nlarge:x:2147483648:alice\nshort:x:1\nother:x:7:alias,alicebob"
)

// someRoot makes the directory of a container's files.
func someRoot(t *testing.T, passwd, group string) string {
	t.Helper()
	root := t.TempDir()
	testutil.Must(t, os.Mkdir(filepath.Join(root, "etc"), 0o755))
	testutil.WriteFile(t, filepath.Join(root, "etc/passwd"), passwd)
	testutil.WriteFile(t, filepath.Join(root, "etc/group"), group)
	return root
}

func TestImageGroups(t *testing.T) {
	root := someRoot(t, somePasswd, someGroup)
	for user, want := range map[string][]uint32{
		"1000": {29, 50000}, "alice": {29, 50000}, "alias": {7}, "1001": {100, 29}, "0": {0}, "root": {0}, "1002": nil,
		"4294967296": nil, "unknown": nil,
	} {
		got, err := imageGroups(root, user)
		testutil.Assert(t, err == nil && slices.Equal(got, want), "%s: %v, %v, want %v", user, got, err, want)
	}
	got, err := imageGroups(t.TempDir(), "1000")
	testutil.Assert(t, err == nil && got == nil, "without files: %v, %v", got, err)
}

// Links are followed in the container's files, and never to the node's.
func TestImageGroupsBehindLinks(t *testing.T) {
	for name, c := range map[string]struct {
		// links are made in an image without /etc. The accounts are in /store/accounts.
		links map[string]string
		want  []uint32
		err   error
	}{
		"a directory": {map[string]string{"etc": "store/accounts"}, []uint32{29, 50000}, nil},
		"files": {map[string]string{"etc/passwd": "/store/link/passwd", "etc/group": "../../../store/link/./group",
			"store/link": "/store/../store//accounts"}, []uint32{29, 50000}, nil},
		"nothing":    {map[string]string{"etc": "/nonesuch"}, nil, nil},
		"a file":     {map[string]string{"etc": "/store/accounts/group"}, nil, nil},
		"a circle":   {map[string]string{"etc/passwd": "group", "etc/group": "passwd"}, nil, syscall.ELOOP},
		"the node's": {map[string]string{"etc/passwd": "/store/accounts/passwd", "etc/group": "NODE/group"}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			node := t.TempDir()
			testutil.WriteFile(t, filepath.Join(node, "group"), "node:x:1:alice\n")
			root := someRoot(t, somePasswd, someGroup)
			testutil.Must(t, os.Mkdir(filepath.Join(root, "store"), 0o755))
			testutil.Must(t, os.Rename(filepath.Join(root, "etc"), filepath.Join(root, "store/accounts")))
			for link, target := range c.links {
				path := filepath.Join(root, link)
				testutil.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
				testutil.Must(t, os.Symlink(strings.ReplaceAll(target, "NODE", node), path))
			}
			got, err := imageGroups(root, "1000")
			testutil.Assert(t, errors.Is(err, c.err) && slices.Equal(got, c.want), "got %v, %v", got, err)
		})
	}
}

// A path that is not a regular file, or a file that is too large, is refused.
func TestAccountsThatCannotBeRead(t *testing.T) {
	for name, replace := range map[string]func(path string) error{
		"is not a file": func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"has more than": func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, maxAccounts+1))
		},
	} {
		root := someRoot(t, somePasswd, someGroup)
		path := filepath.Join(root, "etc/group")
		testutil.Must(t, errors.Join(os.Remove(path), replace(path)))
		_, err := imageGroups(root, "1000")
		testutil.Assert(t, err != nil && strings.Contains(err.Error(), name), "%s: %v", name, err)
	}
	_, err := imageGroups("/nonesuch", "1000")
	testutil.FailsWith(t, err, fs.ErrNotExist, "without a root")
}

// The first start finds the groups of the image. Commands and later starts get the same ones, though the container has
// changed its files.
func TestGroupsOfTheImage(t *testing.T) {
	p := newPlace(t)
	root := someRoot(t, somePasswd, someGroup)
	config := fmt.Sprintf(`{"process":{"user":{"uid":1000,"gid":2000,"additionalGids":[2000,77]}},"root":{"path":%q}}`,
		root)
	process := filepath.Join(p.bundle, "process.json")
	testutil.Must(t, p.notes.Save(someID, ocinote.Note{Process: ocinote.Process{GroupsOf: "1000"}}))
	look := func(name string) {
		t.Helper()
		got := p.read(name)
		testutil.Assert(t, strings.Contains(got, `"additionalGids":[2000,77,29,50000]`), "%s is %s", name, got)
	}
	for range 2 {
		p.write(filepath.Join(p.bundle, "config.json"), config)
		told, code := p.run("create", "--bundle", p.bundle, someID)
		testutil.Require(t, code == 3, "create: %q and %d", told, code)
		look("config.json")
		p.write(process, `{"user":{"uid":1000,"gid":2000,"additionalGids":[2000,77]}}`)
		for range 2 { // the second time, as without the engine, the process has the groups
			told, code = p.run("exec", "--process", process, someID)
			testutil.Require(t, code == 3, "exec: %q and %d", told, code)
			look("process.json")
		}
		testutil.WriteFile(t, filepath.Join(root, "etc/group"), "wheel:x:10:alice\n")
	}
	note, err := p.notes.Load(someID)
	testutil.Assert(t, err == nil && note.Process.GroupsOf == "", "the note is %+v, %v", note, err)
}

// A container whose groups cannot be found does not start, and the error has the reason.
func TestGroupsThatCannotBeFound(t *testing.T) {
	p := newPlace(t)
	testutil.Must(t, p.notes.Save(someID, ocinote.Note{Process: ocinote.Process{GroupsOf: "1000"}}))
	told, code := p.run("create", "--bundle", p.bundle, someID)
	testutil.Assert(t, code == 1 && strings.Contains(told, "root has no path"), "got %q and %d", told, code)
	p.write(filepath.Join(p.bundle, "config.json"), `{"root":{"path":"rootfs"}}`)
	told, code = p.run("create", "--bundle", p.bundle, someID)
	testutil.Assert(t, code == 1 && strings.Contains(told, "the groups of user 1000 in the image: "),
		"got %q and %d", told, code)
}
