package stats

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"

	"github.com/criadapter/criadapter/internal/testutil"
)

// onlyV1 and onlyV2 are the cgroup trees of plain nodes.
var (
	onlyV1 = hierarchies{v1: map[string]hierarchy{
		"memory":  {mountpoint: "/cg/memory", root: "/"},
		"cpu":     {mountpoint: "/cg/cpu,cpuacct", root: "/"},
		"cpuacct": {mountpoint: "/cg/cpu,cpuacct", root: "/"},
		"pids":    {mountpoint: "/cg/pids", root: "/"},
	}}
	onlyV2 = hierarchies{unified: hierarchy{mountpoint: "/cg", root: "/"}}
)

func TestParseCgroups(t *testing.T) {
	const id = "0123abc"
	inContainer := hierarchies{unified: hierarchy{mountpoint: "/cg", root: "/docker/outer"}}
	hybrid := hierarchies{
		v1:      map[string]hierarchy{"name=systemd": {mountpoint: "/cg/systemd", root: "/"}},
		unified: hierarchy{mountpoint: "/cg/unified", root: "/"},
	}
	for name, test := range map[string]struct {
		content string
		trees   hierarchies
		want    *cgroup
	}{
		"v2, cgroupfs driver": {"0::/docker/0123abc\n", onlyV2,
			&cgroup{v2: true, path: "/docker/0123abc", unified: "/cg/docker/0123abc"}},
		"v2, systemd driver": {"0::/system.slice/docker-0123abc.scope\n", onlyV2,
			&cgroup{v2: true, path: "/system.slice/docker-0123abc.scope",
				unified: "/cg/system.slice/docker-0123abc.scope"}},
		"systemd inside has moved": {"0::/docker/0123abc/init.scope\n", onlyV2,
			&cgroup{v2: true, path: "/docker/0123abc", unified: "/cg/docker/0123abc"}},
		"an engine inside has its own": {"0::/docker/0123abc/docker/ffff\n", onlyV2,
			&cgroup{v2: true, path: "/docker/0123abc", unified: "/cg/docker/0123abc"}},
		"joined controllers": {"4:memory:/docker/0123abc\n3:cpu,cpuacct:/docker/0123abc\n2:pids:/docker/0123abc\n", onlyV1,
			&cgroup{path: "/docker/0123abc", memory: "/cg/memory/docker/0123abc", cpu: "/cg/cpu,cpuacct/docker/0123abc",
				cpuacct: "/cg/cpu,cpuacct/docker/0123abc", pids: "/cg/pids/docker/0123abc"}},
		"one controller elsewhere": {"4:memory:/docker/0123abc\n3:cpu,cpuacct:/\n", onlyV1,
			&cgroup{path: "/docker/0123abc", memory: "/cg/memory/docker/0123abc"}},
		"systemd's tree beside v2": {"1:name=systemd:/docker/0123abc\n0::/docker/0123abc\n", hybrid,
			&cgroup{v2: true, path: "/docker/0123abc", unified: "/cg/unified/docker/0123abc"}},
		"the server in a container": {"0::/docker/outer/docker/0123abc\n", inContainer,
			&cgroup{v2: true, path: "/docker/outer/docker/0123abc", unified: "/cg/docker/0123abc"}},
		"outside of what is mounted": {"0::/docker/outermost/0123abc\n", inContainer, nil},
		"outside of the namespace":   {"0::/../0123abc\n", onlyV2, nil},
		"another's process":          {"0::/user.slice\n", onlyV2, nil},
		"a process without cgroup":   {"0::/\n", onlyV2, nil},
		"no controller of ours":      {"4:freezer:/docker/0123abc\n", onlyV1, nil},
		"empty":                      {"", onlyV2, nil},
		"half a line":                {"4:memory\n0:", onlyV1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := parseCgroups([]byte(test.content), id, test.trees)
			testutil.Assert(t, reflect.DeepEqual(got, test.want), "got %+v, want %+v", got, test.want)
		})
	}
	got := parseCgroups([]byte("0::/docker\n"), "", onlyV2)
	testutil.Assert(t, got == nil, "an empty id found %+v", got)
}

func TestFindTrees(t *testing.T) {
	const content = `22 1 253:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
35 24 0:28 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:13 - cgroup cgroup rw,cpu,cpuacct
36 24 0:29 /docker/ab\040c /sys/fs/cgroup/me\134mory rw master:14 propagate_from:2 - cgroup cgroup rw,memory
37 24 0:29 / /second/memory rw - cgroup cgroup rw,memory
38 24 0:30 / /sys/fs/cgroup/unified rw shared:15 - cgroup2 cgroup2 rw,nsdelegate
39 24 0:30 / /second/unified rw - cgroup2 cgroup2 rw
`
	got := findTrees(parseMounts(t, content))
	cpu := hierarchy{root: "/", mountpoint: "/sys/fs/cgroup/cpu,cpuacct"}
	want := hierarchies{
		unified: hierarchy{root: "/", mountpoint: "/sys/fs/cgroup/unified"},
		v1: map[string]hierarchy{
			"rw": cpu, "cpu": cpu, "cpuacct": cpu,
			"memory": {root: "/docker/ab c", mountpoint: `/sys/fs/cgroup/me\mory`},
		},
	}
	testutil.Assert(t, reflect.DeepEqual(got, want), "got  %+v\nwant %+v", got, want)
	testutil.Assert(t, !got.onUnified() && onlyV2.onUnified(), "onUnified is wrong")
}

// Without a visible cgroup tree there are neither stats nor errors.
func TestNewWithoutCgroups(t *testing.T) {
	for name, table := range map[string]string{
		"no proc": "", "no cgroup is mounted": "20 1 253:0 / / rw - ext4 /dev/vda rw\n",
		"a broken table": "30 20 - cgroup\n",
	} {
		n := newTestNode(t, v2Systemd)
		if table == "" {
			testutil.Must(t, os.RemoveAll(filepath.Join(n.proc, "self")))
		} else {
			n.write(t, "self/mountinfo", table)
		}
		var err error
		n.Collector, err = New(Options{procDir: n.proc})
		testutil.Must(t, err)
		t.Cleanup(n.Close)
		list := n.containers(t)
		testutil.Assert(t, len(list) == 0, "%s: %v", name, list)
	}
}

func FuzzParseCgroups(f *testing.F) {
	f.Add([]byte("4:memory:/docker/0123abc\n0::/docker/0123abc/init.scope\n"), "0123abc")
	f.Add([]byte("0::/../..\n"), "..")
	f.Fuzz(func(t *testing.T, content []byte, id string) {
		for _, trees := range []hierarchies{onlyV1, onlyV2} {
			g := parseCgroups(content, id, trees)
			testutil.Assert(t, g == nil || g.readable(), "nothing to read in %+v", g)
		}
	})
}

func FuzzMounts(f *testing.F) {
	f.Add([]byte("36 24 0:29 /a\\040b /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"))
	f.Add([]byte("1 1 1:1 / / rw - overlay overlay rw,lowerdir=/l,upperdir=/u\\134\n"))
	f.Fuzz(func(_ *testing.T, content []byte) {
		if mounts, err := mountinfo.GetMountsFromReader(bytes.NewReader(content), nil); err == nil {
			findTrees(mounts)
			findUpper(mounts)
		}
	})
}

func parseMounts(t *testing.T, content string) []*mountinfo.Info {
	t.Helper()
	mounts, err := mountinfo.GetMountsFromReader(strings.NewReader(content), nil)
	testutil.Must(t, err)
	return mounts
}
