package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/criadapter/criadapter/internal/testutil"
)

// origins loads a configuration and returns where each value comes from.
func origins(t *testing.T, args ...string) (Config, map[string]Setting) {
	t.Helper()
	c := Default()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	c.AddFlags(flags)
	testutil.Must(t, flags.Parse(args))
	list, err := c.Load(flags)
	testutil.Must(t, err)
	byName := map[string]Setting{}
	for _, setting := range list {
		byName[setting.Name] = setting
	}
	return c, byName
}

func TestOrigins(t *testing.T) {
	path := file(t, "# a comment\nlog-level: debug\n\nlog-format: json\nroot-directory: /file\ncni-gc: true\n")
	t.Setenv("CRIADAPTER_CONFIG", path)
	t.Setenv("CRIADAPTER_ROOT_DIRECTORY", "/environment")
	t.Setenv("CRIADAPTER_RUNTIME_REQUEST_TIMEOUT", "3m")
	t.Setenv("CRIADAPTER_NETWORK_PLUGIN", "bridge")
	c, got := origins(t, "--log-level=error", "--network-plugin=cni")
	for _, want := range []Setting{
		{"log-level", "error", "flag --log-level"},
		{"network-plugin", "cni", "flag --network-plugin"},
		{"log-format", "json", path + ":4"},
		{"root-directory", "/environment", "environment CRIADAPTER_ROOT_DIRECTORY"},
		{"runtime-request-timeout", "3m0s", "environment CRIADAPTER_RUNTIME_REQUEST_TIMEOUT"},
		{"cni-gc", "true", path + ":6"},
		{"cni-conf-dir", "/etc/cni/net.d", "default"},
	} {
		testutil.Assert(t, got[want.Name] == want, "got %+v, want %+v", got[want.Name], want)
	}
	testutil.Assert(t, c.LogLevel == "error" && c.RootDirectory == "/environment" && c.LogFormat == "json",
		"the values are not in force: %+v", c)
}

func TestAFlagsOtherNameWins(t *testing.T) {
	t.Setenv("CRIADAPTER_ROOT_DIRECTORY", "/environment")
	c, got := origins(t, "--cri-dockerd-root-directory=/flag")
	want := (Setting{"root-directory", "/flag", "flag --cri-dockerd-root-directory"})
	testutil.Assert(t, c.RootDirectory == "/flag" && got["root-directory"] == want, "got %+v", got["root-directory"])
}

// TestEmptyVariableIsUnset empties the variables of a text, of a truth value and of the file's name.
func TestEmptyVariableIsUnset(t *testing.T) {
	path := file(t, "root-directory: /file\n")
	for _, name := range []string{"ROOT_DIRECTORY", "NETWORK_PLUGIN", "CNI_GC", "CONFIG"} {
		t.Setenv("CRIADAPTER_"+name, "")
	}
	_, got := origins(t, "--config="+path)
	for _, want := range []Setting{
		{"root-directory", "/file", path + ":1"},
		{"network-plugin", "cni", "default"},
		{"cni-gc", "false", "default"},
	} {
		testutil.Assert(t, got[want.Name] == want, "got %+v, want %+v", got[want.Name], want)
	}
	c, _ := origins(t, "--config="+file(t, "network-plugin: \"\"\n"))
	testutil.Assert(t, c.NetworkPlugin == "", "an empty key is %q", c.NetworkPlugin)
	_, err := load(t, "--config="+file(t, "network-plugin:\n"))
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), `an empty text is ""`),
		"a key without a value: %v", err)
}

func TestBadEnvironmentNamesTheVariable(t *testing.T) {
	t.Setenv("CRIADAPTER_CNI_GC", "perhaps")
	_, err := load(t)
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "CRIADAPTER_CNI_GC"), "got %v", err)
}

// TestEverySettingHasAFlag compares the names in the file with those on the command line.
func TestEverySettingHasAFlag(t *testing.T) {
	c := Default()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	c.AddFlags(flags)
	names := settingNames()
	for _, name := range names {
		testutil.Assert(t, flags.Lookup(name) != nil, "no flag --%s", name)
	}
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Name != flagConfig && !slices.Contains(names, canonical(f.Name)) {
			t.Errorf("--%s is not a setting", f.Name)
		}
	})
	testutil.Assert(t, len(names) == reflect.TypeFor[Config]().NumField(), "%d names", len(names))
}

func TestFileErrorsHaveAPlace(t *testing.T) {
	for content, want := range map[string][]string{
		"log-level: debug\nlog-levle: x\n": {`:2:1: unknown setting "log-levle"; did you mean "log-level"?`},
		"a: 1\n  \nLog_Format: json\n": {`:1:1: unknown setting "a"`,
			`:3:1: unknown setting "Log_Format"; did you mean "log-format"?`},
		"{log-level: debug, \"rootdirectory\": /x}": {
			`:1:20: unknown setting "rootdirectory"; did you mean "root-directory"?`},
		"cni-gc: yes please\n": {
			`:1:1: cni-gc: the value is of the type string, it must be true or false`},
		"log-level: [a]\n": {
			`:1:1: log-level: the value is of the type array, it must be a text`},
		"\nruntime-request-timeout: 5\n":              {`:2:1: runtime-request-timeout: 5 is not a duration in quotes`},
		"zzzzzzzzzzzzzzzzzzzzzz: 1\n":                 {`criadapter config print shows all settings`},
		"- a\n":                                       {"a list of settings is expected"},
		"log-level: debug\nlog-level: info\n":         {`:2: "log-level" is already set in line 1`},
		"a: 1\na: 2\n1: a\n1: b\n":                    {`line 2: key "a" already set`, `line 4: key 1 already set`},
		"? log-level\n: debug\n? log-level\n: info\n": {`line 4: key "log-level" already set in map`},
		"? a\n: 1\n":                                  {`: unknown setting "a"`},
		"\"log\\x2dlevel\": debug\nlog-level: info\n": {`line 2: key "log-level" already set in map`},
		"log-level: \"debug\n":                        {"line 2"},
		"tracing-sampling-rate-per-million: often\n":  {"whole number"},
		"log-level: debug\n---\nlog-levle: x\n":       {"line 2: another document begins, and only one is read"},
		"{log-level: debug}\n{log-levle: x}\n":        {"another document follows"},
	} {
		path := file(t, content)
		_, err := load(t, "--config", path)
		for _, text := range want {
			testutil.Assert(t, err != nil && strings.Contains(err.Error(), text) && strings.Contains(err.Error(), path),
				"%q: got %v, want %q", content, err, text)
		}
	}
}

// TestFileOfLongLines: the errors come in the order of the file, also beyond column 1000.
func TestFileOfLongLines(t *testing.T) {
	path := file(t, "{log-level: debug,"+strings.Repeat(" ", 2000)+"first: 1,\nsecond: 2}")
	_, err := load(t, "--config", path)
	testutil.Require(t, err != nil, "unknown settings are accepted")
	first, second := strings.Index(err.Error(), `"first"`), strings.Index(err.Error(), `"second"`)
	testutil.Assert(t, first >= 0 && first < second, "%v", err)
}

// TestFileBehindLinesOfDashes: documents without a setting are left out, and the lines stay the file's.
func TestFileBehindLinesOfDashes(t *testing.T) {
	for content, line := range map[string]string{
		"# settings\n---\nlog-level: debug\n": ":3", "---\n---\nlog-level: debug\n": ":3",
		"log-level: debug\n...\n# end\n": ":1", "\ufeff--- {log-level: debug}\n---\n": ":1",
	} {
		path := file(t, content)
		_, got := origins(t, "--config", path)
		want := Setting{Name: "log-level", Value: "debug", Origin: path + line}
		testutil.Equal(t, got["log-level"], want, "%q", content)
	}
}

func TestEmptyFile(t *testing.T) {
	for _, content := range []string{"", "# nothing\n", "---\n"} {
		_, err := load(t, "--config", file(t, content))
		testutil.Assert(t, err == nil, "%q: %v", content, err)
	}
	t.Setenv("CRIADAPTER_CONFIG", "/does/not/exist")
	if _, err := load(t); err == nil {
		t.Error("a missing file that the environment names is no error")
	}
	if _, err := load(t, "--config="); err != nil {
		t.Errorf("without a file: %v", err)
	}
}

func TestEditDistance(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"", "abc", 3}, {"kitten", "sitting", 3}, {"same", "same", 0}} {
		testutil.Equal(t, editDistance(test.a, test.b), test.want, "%q, %q", test.a, test.b)
	}
}

func TestDifferences(t *testing.T) {
	a, b := Default(), Default()
	names := Differences(a, b)
	testutil.Assert(t, len(names) == 0, "got %q", names)
	b.LogLevel, b.CNIGC, b.RuntimeRequestTimeout = "debug", true, 1
	if names := Differences(a, b); !slices.Equal(names, []string{"cni-gc", "runtime-request-timeout", "log-level"}) {
		t.Errorf("got %q", names)
	}
}
