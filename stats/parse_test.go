package stats

import (
	"bytes"
	"maps"
	"math"
	"reflect"
	"strconv"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestParseValue(t *testing.T) {
	for text, want := range map[string]struct {
		n  uint64
		ok bool
	}{
		"0\n":                     {0, true},
		"18446744073709551615\n":  {math.MaxUint64, true},
		"max\n":                   {unlimited, true},
		"18446744073709551616\n":  {0, false},
		"99999999999999999999\n":  {0, false},
		"-1\n":                    {0, false},
		"\n":                      {0, false},
		"":                        {0, false},
		"12 34\n":                 {0, false},
		"Operation not supported": {0, false},
	} {
		n, ok := parseValue([]byte(text))
		testutil.Assert(t, ok == want.ok && (!ok || n == want.n), "%q: %d, %v", text, n, ok)
	}
}

func TestParsePressure(t *testing.T) {
	for name, test := range map[string]struct {
		content string
		want    *pressure
	}{
		"both lines": {
			"some avg10=1.00 avg60=2.50 avg300=3.25 total=4\nfull avg10=0.10 avg60=0.20 avg300=0.30 total=2\n",
			&pressure{some: stall{4000, 1, 2.5, 3.25}, full: stall{2000, 0.1, 0.2, 0.3}, hasFull: true},
		},
		"CPU before Linux 5.13": {"some avg10=0.00 avg60=0.00 avg300=0.00 total=7\n",
			&pressure{some: stall{total: 7000}}},
		"new and odd fields": {"some avg10=NaN avg60=-1 avg900=3 total=1\nmost total=1\n",
			&pressure{some: stall{total: 1000}}},
		"too large a total": {"some total=18446744073709551615\n", &pressure{}},
		"no line":           {"", nil},
		"full alone":        {"full total=1\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := parsePressure([]byte(test.content))
			testutil.Assert(t, reflect.DeepEqual(got, test.want), "got %+v, want %+v", got, test.want)
		})
	}
}

func TestParseIOStat(t *testing.T) {
	got := parseIOStat(
		[]byte(
			"8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=5 dios=6\n253:1\n9:1 new=1\n(unknown) " +
				"rbytes=9\n9:9999999999 rbytes=1\n"))
	want := []deviceIO{{
		device: device{8, 0},
		read:   operationIO{bytes: new(uint64(1)), operations: new(uint64(3))},
		write:  operationIO{bytes: new(uint64(2)), operations: new(uint64(4))},
	}, {device: device{9, 1}}}
	testutil.Assert(t, reflect.DeepEqual(got, want), "got %+v, want %+v", got, want)
}

// Linux 5.15 does not end the lines of unused devices.
func TestParseIOStatOfUnusedDevices(t *testing.T) {
	got := parseIOStat([]byte("7:0 7:1 8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0\n253:0 "))
	testutil.Assert(t, len(got) == 1 && got[0].device == (device{8, 0}) && *got[0].read.bytes == 1 &&
		*got[0].write.operations == 4, "got %+v", got)
}

func TestParseBlkio(t *testing.T) {
	got := maps.Collect(
		parseBlkio([]byte("8:0 Read 1\n8:0 Write 2\n8:0 Sync 3\n8:0 Total 6\nTotal 6\n8:1 Read x\n")))
	want := map[blkioKey]uint64{{device{8, 0}, false}: 1, {device{8, 0}, true}: 2}
	testutil.Assert(t, reflect.DeepEqual(got, want), "got %v, want %v", got, want)
}

func TestParseNetDev(t *testing.T) {
	const head = "Inter-|   Receive  |  Transmit\n face |bytes\n"
	for name, test := range map[string]struct {
		content string
		want    []netInterface
	}{
		"loopback alone": {head + "    lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n", nil},
		"no space": {head + "eth0:1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n",
			[]netInterface{{"eth0", traffic{1, 2, 3, 4}, traffic{9, 10, 11, 12}}}},
		"more columns": {head + "eth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n",
			[]netInterface{{"eth0", traffic{1, 2, 3, 4}, traffic{9, 10, 11, 12}}}},
		"too few columns": {head + "eth0: 1 2 3\n", nil},
		"no numbers":      {head + "eth0: a b c d e f g h i j k l m n o p\n", nil},
		"empty":           {"", nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := parseNetDev([]byte(test.content))
			testutil.Assert(t, reflect.DeepEqual(got, test.want), "got %+v, want %+v", got, test.want)
		})
	}
}

func TestParseOpenFiles(t *testing.T) {
	for content, want := range map[string]*uint64{
		"Max open files            1024                 524288               files     \n": new(uint64(1024)),
		"Max open files            unlimited            unlimited            files     \n": nil,
		"Max open files\n":                       nil,
		"Max cpu time   unlimited   unlimited\n": nil,
	} {
		got := parseOpenFiles([]byte(content))
		testutil.Assert(t, reflect.DeepEqual(got, want), "%q: %v", content, got)
	}
}

func TestFindUpper(t *testing.T) {
	for name, test := range map[string]struct{ content, want, filesystem string }{
		"an overlay": {"1 2 0:40 / / rw - overlay overlay rw,lowerdir=/l1:/l2,upperdir=/var/lib/x/fs,workdir=/w\n",
			"/var/lib/x/fs", "overlay"},
		"an escaped name": {"1 2 0:40 / / rw - overlay overlay rw,upperdir=/a\\040b/fs\n", "/a b/fs", "overlay"},
		"a volume":        {"1 2 0:40 / /data rw - overlay overlay rw,upperdir=/v\n", "", ""},
		"relative":        {"1 2 0:40 / / rw - overlay overlay rw,upperdir=ab/diff\n", "", "overlay"},
		"read-only":       {"1 2 0:40 / / ro - overlay overlay ro,lowerdir=/l1:/l2\n", "", "overlay"},
		"fuse-overlayfs": {"1 2 0:40 / / rw - fuse.fuse-overlayfs fuse-overlayfs rw,user_id=0\n", "",
			"fuse.fuse-overlayfs"},
		"vfs": {"1 2 8:1 /var/lib/docker/vfs/dir/0123 / rw - ext4 /dev/sda1 rw\n", "", "ext4"},
		"btrfs": {"1 2 0:40 /var/lib/docker/btrfs/subvolumes/0123 / rw - btrfs /dev/sda1 rw,subvol=/x\n", "",
			"btrfs"},
		"zfs": {"1 2 0:40 / / rw - zfs pool/docker/0123 rw,xattr\n", "", "zfs"},
		"mounted over": {"1 2 0:40 / / rw - overlay overlay rw,upperdir=/v\n3 1 0:41 / / rw - zfs pool rw\n", "",
			"zfs"},
		"empty": {"", "", ""},
	} {
		got, filesystem := findUpper(parseMounts(t, test.content))
		testutil.Assert(t, got == test.want && filesystem == test.filesystem,
			"%s: %q, %q, want %q, %q", name, got, filesystem, test.want, test.filesystem)
	}
}

// No content makes a parser panic. parseUint accepts exactly the decimal numbers of 64 bits.
func FuzzParsers(f *testing.F) {
	for _, seed := range []string{
		"usage_usec 1\nuser_usec 2\n", "some avg10=1.00 total=5\nfull total=1\n", "8:0 rbytes=1 wios=2\n",
		"8:0 Read 1\n", "eth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n", "max\n", "Max open files 1 2 files\n", "42",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		n, ok := parseUint(content)
		testutil.Assert(t, ok == isNumber(content), "%q is %d, %v", content, n, ok)
		for key := range pairs(content) {
			testutil.Assert(t, !bytes.ContainsAny(key, " \n"), "key %q", key)
		}
		if p := parsePressure(content); p != nil {
			for _, share := range []float64{p.some.avg10, p.some.avg60, p.some.avg300, p.full.avg10} {
				testutil.Assert(t, !math.IsNaN(share) && !math.IsInf(share, 0) && share >= 0, "share %v", share)
			}
		}
		parseValue(content)
		parseIOStat(content)
		for range parseBlkio(content) {
			continue
		}
		for _, i := range parseNetDev(content) {
			testutil.Assert(t, i.name != "" && i.name != loopback, "interface %q", i.name)
		}
		parseOpenFiles(content)
	})
}

func isNumber(text []byte) bool {
	for _, c := range text {
		if c < '0' || c > '9' {
			return false
		}
	}
	_, err := strconv.ParseUint(string(text), 10, 64)
	return err == nil
}
