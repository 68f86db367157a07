package command

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/criadapter/criadapter/cmd/kubelet-core/configfile"
	"github.com/criadapter/criadapter/internal/testutil"
)

const fileHeader = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

// printed returns the lines of a command, with single spaces.
func printed(t *testing.T, args ...string) (lines []string, err error) {
	t.Helper()
	var out strings.Builder
	cmd := Root("test")
	cmd.SetOut(&out)
	cmd.SetArgs(args)
	err = cmd.ExecuteContext(t.Context())
	for line := range strings.Lines(out.String()) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return lines, err
}

func TestFlagsWinOverTheFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	testutil.WriteFile(t, file, fileHeader+`maxPods: 30
syncFrequency: 90s
clusterDNS: [10.0.0.1, 10.0.0.2]
evictionHard: {memory.available: 1Gi}
staticPodURLHeader: {Authorization: [Bearer s3cret]}
`)
	lines, err := printed(t, "config", "print", "--config", file, "--max-pods", "40", "--cluster-dns", "10.9.9.9")
	testutil.Must(t, err)
	all := strings.Join(lines, "\n") + "\n"
	for _, want := range []string{
		"--max-pods=40 # command line\n",
		"--cluster-dns=[10.9.9.9] # command line\n",
		"--sync-frequency=1m30s # syncFrequency of " + file + "\n",
		"--eviction-hard=[memory.available<1Gi] # evictionHard of " + file + "\n",
		"--manifests=/etc/kubelet-core/manifests # default\n",
	} {
		testutil.Assert(t, strings.Contains(all, want), "the settings lack %q:\n%s", want, all)
	}
	testutil.Assert(t, !strings.Contains(all, "s3cret"), "the settings show a header's value:\n%s", all)
}

func TestConfigIsValidated(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	for content, want := range map[string]string{
		fileHeader + "maxPods: 30":                                       "",
		fileHeader + "runOnce: true":                                     "runOnce is true",
		fileHeader + "port: 10250":                                       "needs a client CA file",
		fileHeader + "systemReserved: {cpu: much}":                       "--system-reserved cpu=much",
		fileHeader + "maxPods: 99999999999999999999":                     "maxPods",
		fileHeader + "registerWithTaints: [{key: a, effect: Sometimes}]": "--register-with-taints",
	} {
		testutil.WriteFile(t, file, content)
		_, err := printed(t, "config", "validate", file)
		if want == "" {
			testutil.Check(t, err, "%s", content)
			continue
		}
		testutil.Assert(t, err != nil && strings.Contains(err.Error(), want), "%s: %v, want %q", content, err, want)
	}
	_, err := printed(t, "config", "validate", filepath.Join(t.TempDir(), "none.yaml"))
	testutil.Assert(t, err != nil, "a file that is not there is valid")
	_, err = printed(t, "config", "print", "--config", filepath.Join(t.TempDir(), "none.yaml"))
	testutil.Assert(t, err != nil, "a file on the command line need not exist")
}

// TestReloadAppliesTheLogLevel changes the file of a kubelet that runs.
func TestReloadAppliesTheLogLevel(t *testing.T) {
	before := logrus.GetLevel()
	t.Cleanup(func() { logrus.SetLevel(before) })
	file := filepath.Join(t.TempDir(), "config.yaml")
	testutil.WriteFile(t, file, fileHeader+"maxPods: 30")
	var run runFlags
	cmd := runCommand()
	cmd.ResetFlags()
	run.add(cmd.Flags())
	testutil.Must(t, cmd.ParseFlags([]string{"--config", file}))
	testutil.Must(t, run.load(cmd.Flags()))
	testutil.Must(t, setUpLog(run.level))

	testutil.WriteFile(t, file, fileHeader+"maxPods: 40\nlogging: {verbosity: 4}")
	run.reload(t.Context(), func() string { return "" })
	testutil.Equal(t, logrus.GetLevel(), logrus.DebugLevel, "log level after the reload")
	testutil.Equal(t, run.opts.Cluster.MaxPods, 30, "limit of pods after the reload")

	testutil.WriteFile(t, file, "broken")
	run.reload(t.Context(), func() string { return "" })
	testutil.Equal(t, logrus.GetLevel(), logrus.DebugLevel, "log level after a reload of a broken file")
}

// TestReloadReportsEveryField has two fields that set one flag.
func TestReloadReportsEveryField(t *testing.T) {
	settings := func(kube string) []configfile.Setting {
		text := fileHeader + "systemReserved: {cpu: '1'}\nkubeReserved: {cpu: '" + kube + "'}"
		read, err := configfile.Parse([]byte(text))
		testutil.Must(t, err)
		return read
	}
	run := runFlags{config: "config.yaml", file: settings("1")}
	testutil.Equal(t, run.origin("system-reserved"), "kubeReserved and systemReserved of config.yaml", "origin")
	testutil.Equal(t, len(run.changed(settings("1"))), 0, "changes without one")
	testutil.Equal(t, strings.Join(run.changed(settings("2")), " "), "system-reserved", "changes")
}
