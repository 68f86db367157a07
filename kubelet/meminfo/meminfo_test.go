package meminfo

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meminfo")
	for text, want := range map[string]string{
		"MemTotal: 2 kB\nSwapTotal:  1 kB\nInactive(file): 3 kB\nHugePages_Total: 7\n\n": "",
		"MemTotal: x kB\n":                "meminfo: MemTotal: strconv",
		"SwapTotal: 1 kB\nMemTotal: 0 kB": "meminfo has no MemTotal",
		"":                                "meminfo has no MemTotal",
	} {
		testutil.Must(t, os.WriteFile(path, []byte(text), 0o600))
		got, err := Read(path)
		if want == "" {
			testutil.Assert(t, err == nil && maps.Equal(got,
				map[string]int64{"MemTotal": 2048, "SwapTotal": 1024, "Inactive(file)": 3072}), "%v, %v", got, err)
			continue
		}
		testutil.Assert(t, err != nil && strings.Contains(err.Error(), want), "%q: %v, want %s", text, err, want)
	}
	_, err := Read(path + "x")
	testutil.Assert(t, os.IsNotExist(err), "%v", err)
}
