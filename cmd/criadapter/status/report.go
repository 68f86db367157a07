package status

import (
	"time"

	"github.com/criadapter/criadapter/internal/telemetry"
)

// Report is what only the running program knows of itself.
type Report struct {
	Version string    `json:"version"`
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
	// Relisted is when the cache was last compared with all that the engine has, zero for never. CacheError is why it
	// does not follow the engine, empty while it does.
	Relisted   time.Time `json:"relisted,omitzero"`
	CacheError string    `json:"cacheError,omitempty"`
	// LastEvent is when the engine's last event came, zero for never, and EventLag how late, in nanoseconds.
	LastEvent time.Time     `json:"lastEvent,omitzero"`
	EventLag  time.Duration `json:"eventLag"`
	// Pods, Containers and Sessions count what there is, by state and by kind.
	Pods       map[string]int `json:"pods"`
	Containers map[string]int `json:"containers"`
	Sessions   map[string]int `json:"sessions"`
	// CNI is the last fault of the CNI plugins, Slow the last slow calls.
	CNI  telemetry.CNIFault   `json:"cni"`
	Slow []telemetry.SlowCall `json:"slow"`
	// Quarantined are the files of records that were corrupt.
	Quarantined []string `json:"quarantined"`
	// LogGaps counts how often the engine had dropped output before it was read.
	LogGaps uint64 `json:"logGaps"`
}
