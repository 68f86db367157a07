package docker

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestInitialIdentity(t *testing.T) {
	const id = "0123456789abcdef"
	const spec = `{"ociVersion":"1.0.2","process":{"user":{"uid":1000,"gid":3000,"additionalGids":[3000,5000]},"args":["x"]}}`
	root := t.TempDir()
	bundles := filepath.Join(root, "io.containerd.runtime.v2.task", "moby")
	bundle, first := filepath.Join(bundles, id), filepath.Join(bundles, "first")
	testutil.WriteFile(t, filepath.Join(bundle, "config.json"), spec)
	testutil.WriteFile(t, filepath.Join(bundle, "init.pid"), "7")
	testutil.WriteFile(t, filepath.Join(first, "config.json"), `{}`)
	testutil.WriteFile(t, filepath.Join(first, "init.pid"), "11")
	testutil.WriteFile(t, filepath.Join(root, "proc/7/status"), "Name:\tx\nPid:\t7\nPPid:\t5\n")
	testutil.WriteFile(t, filepath.Join(root, "proc/8/status"), "Name:\tx\nPid:\t8\nPPid:\t6\n")
	testutil.WriteFile(t, filepath.Join(root, "proc/6/status"), "Name:\tinit\n")
	testutil.WriteFile(t, filepath.Join(root, "proc/9/status"), "Name:\tx\n")
	testutil.WriteFile(t, filepath.Join(root, "proc/10/status"), "Name:\tx\nPid:\t10\nPPid:\t5\n")
	testutil.WriteFile(t, filepath.Join(root, "proc/5/status"), "Name:\tcontainerd-shim\n")
	testutil.WriteFile(t, filepath.Join(root, "proc/12/status"), "Name:\tx\nPid:\t12\nPPid:\t13\n")
	testutil.WriteFile(t, filepath.Join(bundles, "inside", "init.pid"), "12")
	testutil.WriteFile(t, filepath.Join(bundles, "inside", "config.json"), spec)
	for pid, dir := range map[string]string{"5": first, "6": "/", "13": first} {
		testutil.Must(t, os.MkdirAll(filepath.Join(root, "proc", pid), 0o700))
		testutil.Must(t, os.Symlink(dir, filepath.Join(root, "proc", pid, "cwd")))
	}
	for pid, namespace := range map[string]string{"self": "mnt:[1]", "5": "mnt:[1]", "6": "mnt:[1]", "13": "mnt:[2]"} {
		testutil.Must(t, os.MkdirAll(filepath.Join(root, "proc", pid, "ns"), 0o700))
		testutil.Must(t, os.Symlink(namespace, filepath.Join(root, "proc", pid, "ns/mnt")))
	}
	got, err := initialIdentity(filepath.Join(root, "proc"), id, 7)
	want := (Identity{UID: 1000, GID: 3000, Groups: []uint32{3000, 5000}})
	testutil.Assert(t, err == nil && reflect.DeepEqual(got, want), "got %+v, %v", got, err)
	for why, pid := range map[string]int{"ended": 0, "gone": 70, "no shim": 8, "no parent": 9, "another's": 10} {
		got, err := initialIdentity(filepath.Join(root, "proc"), id, pid)
		testutil.Assert(t, errdefs.IsNotFound(err), "%s: %+v, %v", why, got, err)
	}
	got, err = initialIdentity(filepath.Join(root, "proc"), "inside", 12)
	testutil.Assert(t, errdefs.IsNotFound(err), "the child of a container's process: %+v, %v", got, err)
	got, err = initialIdentity(filepath.Join(root, "proc"), "fedcba9876543210", 7)
	testutil.Assert(t, errdefs.IsNotFound(err), "another container's process: %+v, %v", got, err)
}

func FuzzParseIdentity(f *testing.F) {
	f.Add([]byte(`{"process":{"user":{"uid":1}}}`))
	f.Add([]byte(`{"process":null}`))
	f.Add([]byte(`{"process":{"user":{"uid":-1}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := parseIdentity(text)
		testutil.Assert(t, err == nil || reflect.DeepEqual(got, Identity{}), "%s: %+v besides %v", text, got, err)
	})
}
