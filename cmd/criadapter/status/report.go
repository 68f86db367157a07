package status

import (
	"time"

	"github.com/criadapter/criadapter/internal/telemetry"
)

// Commands says how commands in containers were run since the start: by the OCI runtime, or through the engine.
type Commands struct {
	// Runtime is the OCI runtime of the last command without the engine, empty for none.
	Runtime        string `json:"runtime,omitempty"`
	ThroughRuntime uint64 `json:"throughRuntime"`
	ThroughEngine  uint64 `json:"throughEngine"`
	// EngineReason is why the last command through the engine needed it.
	EngineReason string `json:"engineReason,omitempty"`
}

// Report is the state that only the running program knows.
type Report struct {
	Version string    `json:"version"`
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
	// Relisted is the time of the last full relist, zero for none. CacheError is why the cache does not follow the
	// engine, empty if it does.
	Relisted   time.Time `json:"relisted,omitzero"`
	CacheError string    `json:"cacheError,omitempty"`
	// LastEvent is the time of the engine's last event, zero for none. EventLag is its delay in nanoseconds.
	LastEvent time.Time     `json:"lastEvent,omitzero"`
	EventLag  time.Duration `json:"eventLag"`
	// Pods, Containers and Sessions are counts by state or kind.
	Pods       map[string]int `json:"pods"`
	Containers map[string]int `json:"containers"`
	Sessions   map[string]int `json:"sessions"`
	// CNI is the last fault of the CNI plugins, Slow the last slow calls.
	CNI  telemetry.CNIFault   `json:"cni"`
	Slow []telemetry.SlowCall `json:"slow"`
	// Quarantined are the files of corrupt records.
	Quarantined []string `json:"quarantined"`
	// LogGaps counts how often the engine dropped unread output.
	LogGaps uint64 `json:"logGaps"`
	// Commands says how commands in containers were run.
	Commands Commands `json:"commands"`
}
