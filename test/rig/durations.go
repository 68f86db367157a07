package main

import (
	"path/filepath"

	"github.com/criadapter/criadapter/test/program"
	"github.com/criadapter/criadapter/test/rig/results"
)

// durationsFile has the seconds that the tests of each package took. It is in the directory of binariesDir.
const durationsFile = "seconds.json"

// recordDurations records how long the tests of each package took, so that the next run begins with the longest.
func recordDurations(linked string, tests []results.Test) error {
	seconds := map[string]float64{}
	for _, t := range tests {
		seconds[t.Package] += t.Seconds
	}
	return program.WriteJSON(filepath.Join(linked, durationsFile), seconds)
}

// lastDurations returns what recordDurations recorded, nil if there is nothing to read.
func lastDurations(linked string) map[string]float64 {
	seconds, err := program.ReadJSON[map[string]float64](filepath.Join(linked, durationsFile))
	if err != nil {
		return nil // the order is estimated
	}
	return seconds
}
