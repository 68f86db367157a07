package panics

import (
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/criadapter/criadapter/internal/testutil"
)

func overflow() { panic("a secret") }

// The log has the panic and its stack, and the client's error has neither.
func TestReport(t *testing.T) {
	logger, hook := logtest.NewNullLogger()
	err := func() (err error) {
		defer func() {
			err = Report(logrus.NewEntry(logger), "pull", `pull of "app:1"`, recover())
		}()
		overflow()
		return nil
	}()
	testutil.Assert(t, errdefs.IsInternal(err) && strings.HasPrefix(err.Error(), `pull of "app:1" failed`) &&
		!strings.Contains(err.Error(), "secret"), "the error is %v", err)
	entry := hook.LastEntry()
	testutil.Equal(t, entry.Message, "pull panicked", "message")
	testutil.Equal(t, entry.Data["panic"], any("a secret"), "panic")
	stack := entry.Data["stack"].(string)
	testutil.Assert(t, strings.Contains(stack, "overflow"), "the stack is %s", stack)
}
