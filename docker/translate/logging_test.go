package translate

import (
	"maps"
	"testing"
)

// Where the engine's file is the only log, readers must know its format, and the
// engine must not rotate it before the client does.
func TestEngineLogOnly(t *testing.T) {
	want := map[string]string{"max-size": "50m", "max-file": "3", "compress": "false", "mode": "blocking"}
	if log := containerLog(ContainerInput{EngineLogOnly: true}); log.Type != "json-file" || !maps.Equal(log.Config, want) {
		t.Errorf("the container logs to %s with %v", log.Type, log.Config)
	}
}
