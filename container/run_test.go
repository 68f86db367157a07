package container

import (
	"strconv"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// Each reason for a command through the engine is logged once, even if reasons alternate. At most maxReasons are
// logged.
func TestReasonsAreLoggedOnce(t *testing.T) {
	var way commandWay
	logged := 0
	for i := range 1000 {
		for _, reason := range []string{"first", "second", strconv.Itoa(i)} {
			if way.engine(reason) {
				logged++
			}
		}
	}
	testutil.Assert(t, logged == maxReasons && way.seen.ThroughEngine == 3000 && way.seen.EngineReason == "999",
		"%d reasons are logged, %+v", logged, way.seen)
}
