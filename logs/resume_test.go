package logs

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/internal/testutil"
)

func TestIsComplete(t *testing.T) {
	path := filepath.Join(t.TempDir(), "container.log")
	testutil.WriteFile(t, path, "twelve bytes")
	file, err := os.Open(path)
	testutil.Must(t, err)
	defer file.Close()
	info, err := file.Stat()
	testutil.Must(t, err)
	end := checkpoint.LogPosition{Inode: info.Sys().(*syscall.Stat_t).Ino, Offset: 12, Born: bornAt(file)}
	missing := path + ".missing"
	same := func(*checkpoint.LogPosition) {}
	begin := func(at *checkpoint.LogPosition) { *at = checkpoint.LogPosition{} }
	for name, test := range map[string]struct {
		path   string
		change func(*checkpoint.LogPosition)
		want   bool
	}{
		"the end":                      {path, same, true},
		"before the end":               {path, func(at *checkpoint.LogPosition) { at.Offset-- }, false},
		"after the end":                {path, func(at *checkpoint.LogPosition) { at.Offset++ }, false},
		"another file":                 {path, func(at *checkpoint.LogPosition) { at.Inode++ }, false},
		"an earlier file of the inode": {path, func(at *checkpoint.LogPosition) { at.Born++ }, false},
		"a file that came later":       {path, begin, false},
		"no output":                    {missing, begin, true},
		"a file that is gone":          {missing, same, false},
	} {
		at := end
		test.change(&at)
		testutil.Equal(t, IsComplete(test.path, at), test.want, "%s", name)
	}
}
