package kubelet

import (
	"os"
	"os/user"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/cgroup"
	"github.com/criadapter/criadapter/kubelet/eviction"
	"github.com/criadapter/criadapter/kubelet/nodeshutdown"
)

// TestAPINeedsClients: an API without clients is refused, and so is an API for all clients.
func TestAPINeedsClients(t *testing.T) {
	for _, c := range []struct {
		name    string
		opts    APIOptions
		cluster bool
		ok      bool
	}{
		{"none", APIOptions{}, false, true},
		{"no authority", APIOptions{Port: 1}, true, false},
		{"no client", APIOptions{Port: 1, ClientCAFile: "ca"}, false, false},
		{"a user", APIOptions{Port: 1, ClientCAFile: "ca", Users: []string{"ann"}}, false, true},
		{"a group", APIOptions{Port: 1, ClientCAFile: "ca", Groups: []string{"ops"}}, false, true},
		{"a user without a name", APIOptions{Port: 1, ClientCAFile: "ca", Users: []string{"ann", ""}}, false, false},
		{"a group without a name",
			APIOptions{Port: 1, ClientCAFile: "ca", Users: []string{"ann"}, Groups: []string{""}}, true, false},
		{"the cluster says", APIOptions{Port: 1, ClientCAFile: "ca"}, true, true},
	} {
		err := c.opts.check(c.cluster)
		testutil.Assert(t, (err == nil) == c.ok, "%s: %v", c.name, err)
	}
}

// TestImageGCWithoutACluster: without a cluster, image collection is off by default.
func TestImageGCWithoutACluster(t *testing.T) {
	for _, c := range []struct {
		kubeconfig string
		high, want int
	}{{"", 0, 100}, {"", 85, 85}, {"file", 0, 0}, {"file", 90, 90}} {
		opts := Options{RuntimeEndpoint: "unix:///cri.sock", Cluster: ClusterOptions{Kubeconfig: c.kubeconfig}}
		opts.GC.HighPercent = c.high
		err := opts.complete()
		testutil.Assert(t, err == nil && opts.GC.HighPercent == c.want, "%+v: %d, %v", c, opts.GC.HighPercent, err)
	}
}

// TestImageGCThresholds: a threshold of 0 is the default, and the low one must not be above the high one.
func TestImageGCThresholds(t *testing.T) {
	for _, c := range []struct {
		high, low int
		ok        bool
	}{
		{0, 0, true}, {70, 0, true}, {70, 70, true}, {100, 1, true}, {0, 85, true}, {0, 86, false}, {70, 71, false},
		{101, 0, false}, {-1, 0, false}, {70, -1, false}, {100, 150, false},
	} {
		opts := Options{RuntimeEndpoint: "unix:///cri.sock", Cluster: ClusterOptions{Kubeconfig: "file"}}
		opts.GC.HighPercent, opts.GC.LowPercent = c.high, c.low
		err := opts.complete()
		testutil.Assert(t, (err == nil) == c.ok, "%+v: %v", c, err)
	}
}

// TestEvictionAndShutdown: nil thresholds mean the defaults, an empty list means none, and errors name the field.
func TestEvictionAndShutdown(t *testing.T) {
	for _, c := range []struct {
		hard            []string
		grace, critical time.Duration
		thresholds      []string
		want            string
	}{
		{hard: nil, thresholds: eviction.DefaultThresholds()},
		{hard: []string{}, thresholds: nil},
		{hard: []string{"memory.available<1Gi"}, thresholds: []string{"memory.available<1Gi"}, grace: time.Minute,
			critical: time.Second},
		{hard: []string{"swap.available<1"}, want: `eviction: "swap.available<1"`},
		{grace: time.Second, critical: time.Minute, want: "is longer than the grace period of all pods"},
	} {
		opts := Options{RuntimeEndpoint: "unix:///cri.sock", Eviction: eviction.Settings{Hard: c.hard},
			Shutdown: nodeshutdown.Settings{Grace: c.grace, Critical: c.critical}}
		err := opts.complete()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
		wanted, wrong := eviction.Parse(eviction.Settings{Hard: c.thresholds})
		testutil.Assert(t, wrong == nil && (err != nil || reflect.DeepEqual(opts.thresholds, wanted)),
			"%+v: %+v, %v", c, opts.thresholds, wrong)
	}
}

func TestNodeIPs(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "192.0.2.1": "", "2001:db8::1 192.0.2.1": "", "here": `"here"`,
		"192.0.2.1 192.0.2.2": "192.0.2.1, 192.0.2.2: want one", "2001:db8::1 192.0.2.1 ::1": "one of each IP family",
	} {
		opts := Options{RuntimeEndpoint: "unix:///cri.sock", NodeIPs: strings.Fields(text)}
		err := opts.complete()
		refused := err != nil && strings.Contains(err.Error(), want)
		testutil.Assert(t, (err == nil) == (want == "") && (err == nil || refused), "%q: %v", text, err)
	}
}

// TestCgroupRoot: the machine's root cgroup is refused in each spelling. With systemd, underscores are refused, because
// two roots could get the same slice.
func TestCgroupRoot(t *testing.T) {
	for _, c := range []struct{ root, want string }{
		{"/", ""}, {"..", ""}, {"a/..", ""}, {"", "/kubelet-core/me"}, {"a/b/", "/a/b"}, {"../a", "/a"},
	} {
		opts := Options{RuntimeEndpoint: "unix:///cri.sock", Owner: "me", CgroupRoot: c.root}
		if err := opts.complete(); (err == nil) != (c.want != "") || err == nil && opts.CgroupRoot != c.want {
			t.Errorf("%q: %q, %v", c.root, opts.CgroupRoot, err)
		}
	}
	for root, ok := range map[string]bool{"/kubelet-core/my-web": true, "/kubelet-core/my_web": false} {
		err := checkSlices(cgroup.Systemd, root)
		testutil.Assert(t, (err == nil) == ok && checkSlices(cgroup.Cgroupfs, root) == nil, "%s: %v", root, err)
	}
}

// TestReservingEverythingIsRefused: reserving everything is an error, because a limit of zero means no limit.
func TestReservingEverythingIsRefused(t *testing.T) {
	capacity := v1.ResourceList{v1.ResourceMemory: resource.MustParse("4Gi")}
	for reserved, want := range map[string]string{"0": "4Gi", "1Gi": "3Gi", "4Gi": "", "5Gi": ""} {
		left, err := allocatable(capacity, v1.ResourceList{v1.ResourceMemory: resource.MustParse(reserved)})
		testutil.Assert(t, (err == nil) == (want != "") && (err != nil || left.Memory().String() == want),
			"%s: %v, %v", reserved, left, err)
	}
}

// TestCredentialsWithoutHome: systemd sets no HOME for a service. The kubelet core finds the docker login in the home
// directory of its user anyway.
func TestCredentialsWithoutHome(t *testing.T) {
	own, err := user.LookupId(strconv.Itoa(os.Getuid()))
	testutil.Must(t, err)
	for home, want := range map[string]string{"/home/of/ann": "/home/of/ann", "": own.HomeDir} {
		t.Setenv("HOME", home)
		files := strings.Join(credentialFiles("/root/dir"), " ")
		testutil.Equal(t, files, "/root/dir/config.json "+want+"/.docker/config.json", "with HOME=%q", home)
	}
}
