package eviction

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/criadapter/criadapter/internal/testutil"
)

// parsed parses valid thresholds.
func parsed(t *testing.T, texts ...string) Thresholds {
	t.Helper()
	return set(t, Settings{Hard: texts})
}

func TestParseThresholds(t *testing.T) {
	for _, test := range []struct {
		texts []string
		want  []threshold
		err   string
	}{
		{texts: nil},
		{texts: []string{"imagefs.available<12.5%", "memory.available<1Gi"},
			want: []threshold{{signal: imagefsAvailable, amount: amount{part: 0.125}},
				{signal: memoryAvailable, amount: amount{fixed: 1 << 30}}}},
		{texts: []string{"memory.available<0%", "nodefs.available<100%"}},
		{texts: []string{"nodefs.available<10%", "nodefs.available<1G"},
			want: []threshold{{signal: nodefsAvailable, amount: amount{fixed: 1e9}}}},
		{texts: []string{"nodefs.available<10%", "nodefs.available<0%"}},
		{texts: []string{"nodefs.inodesFree<1k"},
			want: []threshold{{signal: nodefsInodesFree, amount: amount{fixed: 1000}}}},
		{texts: []string{"memory.available"}, err: `"memory.available" is not of the form signal<value`},
		{texts: []string{"memory.available>1Gi"}, err: "is not of the form signal<value"},
		{texts: []string{"pid.available<5%"}, want: []threshold{{signal: pidAvailable, amount: amount{part: 0.05}}}},
		{texts: []string{"allocatableMemory.available<5%"},
			err: `the signal "allocatableMemory.available" is not one of [memory.available nodefs.available`},
		{texts: []string{"memory.available<0"}, err: `"0" is not above zero`},
		{texts: []string{"memory.available<-1Gi"}, err: `"-1Gi" is negative`},
		{texts: []string{"memory.available<much"}, err: `"much" is neither a quantity nor a percentage`},
		{texts: []string{"nodefs.available<-1%"}, err: `"-1%" is not a percentage from 0% to 100%`},
		{texts: []string{"nodefs.available<101%"}, err: `"101%" is not a percentage`},
		{texts: []string{"nodefs.available<NaN%"}, err: `"NaN%" is not a percentage`},
		{texts: []string{"nodefs.available<x%"}, err: `"x%" is not a percentage`},
	} {
		got, err := parseList(test.texts)
		if test.err != "" {
			testutil.Assert(t, err != nil && strings.Contains(err.Error(), test.err),
				"%q: error %v, want %q", test.texts, err, test.err)
			continue
		}
		testutil.Assert(t, err == nil && slices.Equal(got, test.want),
			"%q: %+v, %v, want %+v", test.texts, got, err, test.want)
	}
}

// TestDefaultThresholds: the defaults are the kubelet's, and keep a part of the node's capacity from pods.
func TestDefaultThresholds(t *testing.T) {
	defaults := parsed(t, DefaultThresholds()...)
	want := []threshold{
		{signal: memoryAvailable, amount: amount{fixed: 100 << 20}},
		{signal: allocatableMemory, amount: amount{fixed: 100 << 20}},
		{signal: nodefsAvailable, amount: amount{part: 0.1}},
		{signal: nodefsInodesFree, amount: amount{part: 0.05}},
		{signal: imagefsAvailable, amount: amount{part: 0.15}},
		{signal: imagefsInodesFree, amount: amount{part: 0.05}},
	}
	testutil.Assert(t, slices.Equal(defaults.list, want), "%+v", defaults.list)
	kept := defaults.kept(v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("8Gi"),
		v1.ResourceEphemeralStorage: resource.MustParse("100Gi"),
	})
	testutil.Assert(t, kept.Memory().String() == "100Mi" && kept.StorageEphemeral().String() == "10Gi" &&
		len(kept) == 2, "kept are %v", kept)
}
