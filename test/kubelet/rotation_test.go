package kubelet

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/test/rig/numbered"
)

// TestLogRotationLosesNothing counts lines while their log is rotated repeatedly. Each line is in one of the files,
// once and in order.
func TestLogRotationLosesNothing(t *testing.T) {
	const lines, maxSize = 800, 2000
	n := newNode(t, "--container-log-max-size", strconv.Itoa(maxSize), "--container-log-max-files", "100",
		"--container-log-monitor-interval", "200ms")
	n.write("pod.yaml",
		simple("pod",
			fmt.Sprintf("i=0; while [ $i -lt %d ]; do i=$((i+1)); echo line $i; sleep 0.005; done; sleep 1000", lines)))
	pod := n.ready("pod")
	path := filepath.Join(model.PodLogDirectory(n.logs, pod), model.ContainerLogPath("main", 0))
	n.logHasLast(path, fmt.Sprintf(" line %d\n", lines))
	eventually(t, "the last rotation is over", func() error {
		if log, err := os.Stat(path); err != nil || log.Size() > maxSize {
			return fmt.Errorf("%v, %v", log, err)
		}
		return nil
	})

	files, err := numbered.Rotated(path)
	testutil.Must(t, err)
	testutil.Assert(t, len(files) > 3, "the log was rotated %d times, want several", len(files)-1)
	var text strings.Builder
	for _, file := range files {
		content, err := numbered.Read(file)
		testutil.Must(t, err)
		text.WriteString(content)
	}
	at := 0
	for line := range strings.Lines(text.String()) {
		at++
		want := fmt.Sprintf(" line %d\n", at)
		testutil.Require(t, strings.HasSuffix(line, want), "line %d of %d files is %q", at, len(files), line)
	}
	testutil.Assert(t, at == lines, "%d lines, want %d", at, lines)
}

// logHasLast waits until the log, or one of its uncompressed rotated files, has a text.
func (n *node) logHasLast(path, want string) {
	n.t.Helper()
	eventually(n.t, "the last line", func() error {
		files, err := filepath.Glob(path + "*")
		if err != nil {
			return err
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil && !errors.Is(err, os.ErrNotExist) { // rotated meanwhile
				return err
			}
			if strings.Contains(string(content), want) {
				return nil
			}
		}
		return fmt.Errorf("not in %v", files)
	})
}
