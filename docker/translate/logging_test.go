package translate

import (
	"maps"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// If the engine's file is the only log, readers must know its format, and the engine must not rotate it before the
// client does.
func TestEngineLogOnly(t *testing.T) {
	want := map[string]string{"max-size": "1000p", "max-file": "3", "compress": "false", "mode": "blocking",
		"labels": "", "labels-regex": "", "env": "", "env-regex": "", "tag": ""}
	log := containerLog(ContainerInput{EngineLogOnly: true})
	testutil.Assert(t, log.Type == "json-file" && maps.Equal(log.Config, want),
		"the container logs to %s with %v", log.Type, log.Config)
}

func TestEngineLogSize(t *testing.T) {
	for size, want := range map[int64]string{0: "10m", 30_000_000: "10000000", 3_000_000: "1000000"} {
		log := containerLog(ContainerInput{EngineLogSize: size})
		testutil.Assert(t, log.Type == "local" && log.Config["max-size"] == want && log.Config["max-file"] == "3",
			"with %d bytes the container logs to %s with %v", size, log.Type, log.Config)
	}
}
