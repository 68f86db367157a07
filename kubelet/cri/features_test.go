package cri

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/containerd/log"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	apitest "k8s.io/cri-api/pkg/apis/testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestImageDirectory: without a directory, the log line has the reason, even if the runtime returns no error.
func TestImageDirectory(t *testing.T) {
	logger, hook := logtest.NewNullLogger()
	ctx := log.WithLogger(t.Context(), logrus.NewEntry(logger))
	images := apitest.NewFakeImageService()
	runtime := New(nil, images, "us")
	wantReason := func(want string) {
		t.Helper()
		testutil.Equal(t, runtime.ImageDirectory(ctx), "", "directory")
		entry := hook.LastEntry()
		testutil.Assert(t, entry != nil && strings.Contains(fmt.Sprint(entry.Data[logrus.ErrorKey]), want),
			"the log line is %+v, want the error %s", entry, want)
		hook.Reset()
	}
	wantReason("no image file system")
	images.InjectError("ImageFsInfo", errors.New("it is away"))
	wantReason("it is away")
	images.SetFakeFilesystemUsage([]*runtimeapi.FilesystemUsage{
		{FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: "/images"}}})
	testutil.Equal(t, runtime.ImageDirectory(ctx), "/images", "directory")
	testutil.Assert(t, hook.LastEntry() == nil, "the log line is %+v", hook.LastEntry())
}
