package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/log"
	"github.com/sirupsen/logrus"

	"github.com/criadapter/criadapter/internal/testutil"
)

// A warning names a kernel that is too old or unknown. A supported kernel causes no warning.
func TestWarnOfKernel(t *testing.T) {
	for release, warning := range map[string]string{
		"4.18.0-553.el8.x86_64\n":        "kernel=4.18.0-553.el8.x86_64 oldest=4.19",
		"4.19.0-27-amd64\n":              "",
		"6.1.0-50-cloud-amd64\n":         "",
		"3.10.0-1160.el7.x86_64\n":       "kernel=3.10.0-1160.el7.x86_64",
		"something that is not a kind\n": "kernel=\"something that is not a kind\"",
	} {
		file := filepath.Join(t.TempDir(), "osrelease")
		testutil.WriteFile(t, file, release)
		var lines bytes.Buffer
		logger := logrus.New()
		logger.Out = &lines
		warnOfKernel(log.WithLogger(t.Context(), logrus.NewEntry(logger)), file)
		if got := lines.String(); warning == "" && got != "" || !strings.Contains(got, warning) {
			t.Errorf("Linux %q: got %q, want %q", release, got, warning)
		}
	}
}
