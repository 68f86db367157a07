package main

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestLayersOfARoot(t *testing.T) {
	const mount = "71 45 0:40 / /lib/docker/overlay2/x/merged rw,relatime shared:5 - overlay overlay rw,"
	for name, c := range map[string]struct {
		mounts, root string
		want         layers
	}{
		"overlay2": {
			"22 27 0:21 / /proc rw - proc proc rw\n" + mount +
				"lowerdir=/lib/docker/overlay2/l/A:/lib/docker/overlay2/l/B,upperdir=/lib/docker/overlay2/x/diff,workdir=/lib/docker/overlay2/x/work,index=off\n",
			"/lib/docker/overlay2/x/merged",
			layers{lower: []string{"/lib/docker/overlay2/l/A", "/lib/docker/overlay2/l/B"},
				home: "/lib/docker/overlay2/x", upper: "diff"},
		},
		"overlay2 with many layers": {
			mount + "lowerdir=l/A:l/B,upperdir=x/diff,workdir=x/work\n", "/lib/docker/overlay2/x/merged",
			layers{lower: []string{"/lib/docker/overlay2/l/A", "/lib/docker/overlay2/l/B"},
				home: "/lib/docker/overlay2/x", upper: "diff"},
		},
		"the overlayfs snapshotter, with many": {
			"1 2 0:4 / /r/id rw - overlay overlay " +
				"rw,lowerdir=2/fs:1/fs,upperdir=/c/snapshots/3/fs,workdir=/c/snapshots/3/work,metacopy=on,nouserxattr\n", "/r/id",
			layers{lower: []string{"/c/snapshots/2/fs", "/c/snapshots/1/fs"}, home: "/c/snapshots/3", upper: "fs",
				kept: []string{"metacopy=on"}},
		},
		"one by one, the last mount": {
			"1 2 0:4 / /r/id rw - ext4 /dev/x rw\n" +
				"1 2 0:4 / /r/id rw - overlay overlay " +
				"rw,lowerdir+=/c/2,lowerdir+=/c/1,upperdir=/c/3/fs,workdir=/c/3/work,userxattr\n", "/r/id",
			layers{lower: []string{"/c/2", "/c/1"}, home: "/c/3", upper: "fs", kept: []string{"userxattr"}},
		},
		"blanks, colons and commas": {
			`1 2 0:4 / /a\040b rw - overlay overlay rw,lowerdir=/c\040d/1\134:1:/c\134\134054/2,` +
				`upperdir=/c/3\134\054\134:/fs,workdir=/c/3\134\054\134:/work` + "\n", "/a b",
			layers{lower: []string{"/c d/1:1", `/c\054/2`}, home: "/c/3,:", upper: "fs"},
		},
		"a colon on Linux 6.6": {
			`1 2 0:4 / /r/id rw - overlay overlay ` +
				`rw,lowerdir=/c\0722:/c\0541,upperdir=/c/3/fs,workdir=/c/3/work` + "\n", "/r/id",
			layers{lower: []string{"/c:2", "/c,1"}, home: "/c/3", upper: "fs"},
		},
		"special characters one by one": {
			`1 2 0:4 / /r/id rw - overlay overlay ` +
				`rw,lowerdir+=/c:\1342,lowerdir+=/c\0541,upperdir=/c/3/fs,workdir=/c/3/work` + "\n", "/r/id",
			layers{lower: []string{`/c:\2`, "/c,1"}, home: "/c/3", upper: "fs"},
		},
		"relative names in a directory with a blank and a comma": {
			`1 2 0:4 / /r/id rw - overlay overlay ` +
				`rw,lowerdir=2/fs:1/fs,upperdir=/c\040d\054e/3/fs,workdir=/c\040d\054e/3/work` + "\n", "/r/id",
			layers{lower: []string{"/c d,e/2/fs", "/c d,e/1/fs"}, home: "/c d,e/3", upper: "fs"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseMount(c.mounts, c.root).rootLayers(c.root)
			testutil.Assert(t, err == nil && reflect.DeepEqual(got, c.want), "got %+v, %v\nwant %+v", got, err, c.want)
		})
	}
	l := layers{home: "/a,b", upper: "diff", kept: []string{"metacopy=on"}}
	testutil.Equal(t, l.options([]string{"0", "1"}),
		`lowerdir=0:1,upperdir=/a\,b/diff,workdir=/a\,b/criadapter-work,index=off,metacopy=on`, "options")
}

// A volume may be below the point where its overlay is mounted.
func TestLayersOfAVolume(t *testing.T) {
	const mounts = "1 2 0:4 / / rw - ext4 /dev/x rw\n1 2 0:4 /part /img rw - overlay overlay " +
		"ro,lowerdir=/l/2:/l/1\n1 2 0:4 / /images rw - tmpfs x rw\n"
	m := parseMount(mounts, "/img/etc/conf")
	l, err := m.layers()
	testutil.Assert(t, m.point == "/img" && m.root == "/part" && err == nil &&
		reflect.DeepEqual(l.readable(), []string{"/l/2", "/l/1"}), "got %+v, %+v, %v", m, l, err)
	testutil.Equal(t, l.readOnly([]string{"0", "1"}), "lowerdir=0:1,index=off", "options")
	m = parseMount(mounts, "/imgs")
	testutil.Assert(t, m.point == "/" && m.kind == "ext4", "a neighbour is on %+v", m)
	l.home, l.upper = "/u", "fs"
	testutil.Equal(t, l.readable()[0], "/u/fs", "the uppermost")
}

func TestIsBelow(t *testing.T) {
	for path, want := range map[string]bool{"/d/overlay2/y/merged": true, "/d": false, "/docker/y": false,
		"/mnt/img": false} {
		testutil.Assert(t, isBelow("/d", path) == want && isBelow("/", path), "%s: want %t", path, want)
	}
}

func TestRootsThatCannotBeMapped(t *testing.T) {
	for want, options := range map[string]string{
		`of the kind "fuse.fuse-overlayfs"`: "fuse.fuse-overlayfs fuse-overlayfs rw",
		"no writable layer":                 "overlay overlay rw,lowerdir=/a:/b",
		"not beside it":                     "overlay overlay rw,lowerdir=/a,upperdir=/c/up,workdir=/d/work",
		"are unknown":                       "overlay overlay rw,lowerdir=/a::/b,upperdir=/c/up,workdir=/c/work",
	} {
		_, err := parseMount("1 2 0:4 / /r rw - "+options+"\n", "/r").rootLayers("/r")
		testutil.Assert(t, err != nil && strings.Contains(err.Error(), want), "%s: %v, want %q", options, err, want)
	}
	if _, err := parseMount("1 2 0:4 / / rw - ext4 /dev/x rw\n1 2 0:4 / /r/below rw - overlay overlay rw\n", "/r").
		rootLayers("/r"); err == nil || !strings.Contains(err.Error(), `is on / of the kind "ext4"`) {
		t.Errorf("a directory: %v", err)
	}
}

func FuzzLayers(f *testing.F) {
	f.Add("lowerdir=/a:/b,upperdir=/c/up,workdir=/c/work")
	f.Add(`lowerdir+=a\,b,upperdir=c/\\up,workdir=c/w\1`)
	f.Fuzz(func(t *testing.T, options string) {
		l, err := mounted{point: "/all/x/merged", options: options}.layers()
		if err != nil {
			t.Skip("no layers")
		}
		for _, dir := range l.readable() {
			testutil.Assert(t, filepath.IsAbs(dir), "%q: a layer has no name: %+v", options, l)
		}
	})
}
