package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/sirupsen/logrus"
	"k8s.io/klog/v2"

	"github.com/criadapter/criadapter/internal/config"
	"github.com/criadapter/criadapter/internal/testutil"
)

func TestLibraryLogsAreForDebugging(t *testing.T) {
	var out bytes.Buffer
	old, level := logrus.StandardLogger().Out, logrus.GetLevel()
	logrus.SetOutput(&out)
	t.Cleanup(func() { logrus.SetOutput(old); logrus.SetLevel(level) })
	log := logr.New(klogSink{}).WithName("library").WithValues("session", 7)

	logrus.SetLevel(logrus.InfoLevel)
	log.Info("quiet")
	log.Error(errors.New("quiet"), "quiet")
	testutil.Assert(t, out.Len() == 0, "an operator sees %q", out.String())
	logrus.SetLevel(logrus.DebugLevel)
	log.Error(errors.New("broken pipe"), "client gone", "port", 80, "a key without a value")
	for _, want := range []string{"client gone", "broken pipe", "logger=library", "session=7", "port=80",
		"level=debug"} {
		testutil.Assert(t, strings.Contains(out.String(), want), "%q lacks %q", out.String(), want)
	}
}

// A reload sets up the log again while the libraries of streaming sessions log to klog. The race detector reports
// unsynchronized access.
func TestReloadWhileLibrariesLog(t *testing.T) {
	level, formatter := logrus.GetLevel(), logrus.StandardLogger().Formatter
	t.Cleanup(func() { logrus.SetLevel(level); logrus.SetFormatter(formatter) })
	quietKlog()
	logged := make(chan struct{})
	go func() {
		defer close(logged)
		klog.Error("client gone")
		klog.ErrorS(nil, "client gone")
	}()
	testutil.Check(t, setUpLog(config.Default()))
	<-logged
}
