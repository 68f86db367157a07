package command

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet"
)

// parse parses arguments with the flags of run.
func parse(args ...string) (kubelet.Options, error) {
	var opts kubelet.Options
	var flags nodeFlags
	cmd := runCommand()
	cmd.ResetFlags()
	flags.add(cmd.Flags(), &opts)
	if err := cmd.ParseFlags(args); err != nil {
		return opts, err
	}
	return opts, flags.complete(cmd.Flags(), &opts)
}

func TestNodeFlags(t *testing.T) {
	opts, err := parse("--manifest-url-header", "Authorization: Bearer a:b", "--register-with-taints",
		"a=b:NoSchedule,c:NoExecute",
		"--system-reserved", "cpu=200m,memory=1Gi", "--node-labels", "zone=x,empty=")
	testutil.Must(t, err)
	testutil.Equal(t, opts.ManifestHeader.Get("authorization"), "Bearer a:b", "header")
	got := opts.Cluster.Taints
	testutil.Assert(t, len(got) == 2 && got[0] == (v1.Taint{Key: "a", Value: "b", Effect: "NoSchedule"}) &&
		got[1] == (v1.Taint{Key: "c", Effect: "NoExecute"}), "taints %v", got)
	testutil.Equal(t, opts.Cluster.Reserved.Cpu().MilliValue(), 200, "reserved CPU")
	testutil.Assert(t, opts.Cluster.Labels["zone"] == "x" && len(opts.Cluster.Labels) == 2,
		"labels %v", opts.Cluster.Labels)
	testutil.Assert(t, opts.API.Port == 0, "port %d without a client CA", opts.API.Port)
	opts, err = parse("--client-users", "a,b", "--client-groups", "c")
	testutil.Assert(t, err == nil && len(opts.API.Users) == 2 && len(opts.API.Groups) == 1,
		"clients %+v, %v", opts.API, err)
	_, err = parse("--manifest-url-header", "Bearer s3cret")
	testutil.Assert(t, err != nil && !strings.Contains(err.Error(), "s3cret"), "error %v has the header's value", err)
	opts, err = parse("--client-ca-file", "ca")
	testutil.Assert(t, err == nil && opts.API.Port == defaultPort, "port %d with a client CA, %v", opts.API.Port, err)
}

func TestNodeFlagsRefused(t *testing.T) {
	for _, test := range [][]string{
		{"--manifest-url-header", "novalue"}, {"--manifest-url-header", ":v"}, {"--register-with-taints", "a=b"},
		{"--register-with-taints", "=b:NoSchedule"}, {"--register-with-taints", "a=b:Sometimes"},
		{"--system-reserved", "cpu=much"},
	} {
		_, err := parse(test...)
		testutil.Assert(t, err != nil && strings.Contains(err.Error(), test[0]),
			"%v: error %v does not name the flag", test, err)
	}
}
