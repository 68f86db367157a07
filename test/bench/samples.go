package main

import (
	"maps"
	"math"
	"slices"
	"time"
)

// samples are times in the order of the turns. In the samples of several servers the same index is the same turn.
type samples []time.Duration

// quantile returns the smallest sample that at least a share q of all samples does not exceed. It returns 0 without
// samples.
func (s samples) quantile(q float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

// ratio returns the median of the turns' ratios to another server's samples, NaN when there are none.
func (s samples) ratio(other samples) float64 {
	var ratios []float64
	for i := range min(len(s), len(other)) {
		if other[i] > 0 {
			ratios = append(ratios, float64(s[i])/float64(other[i]))
		}
	}
	return median(ratios)
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// table holds samples by row, the operation, and by column, the server.
type table struct {
	rows  []string
	cells map[string]map[string]samples
}

func (t *table) add(row, column string, sample time.Duration) {
	if t.cells == nil {
		t.cells = map[string]map[string]samples{}
	}
	if t.cells[row] == nil {
		t.cells[row] = map[string]samples{}
		t.rows = append(t.rows, row)
	}
	t.cells[row][column] = append(t.cells[row][column], sample)
}

// ratio is samples.ratio of two columns of a row.
func (t *table) ratio(row, column, other string) float64 {
	return t.cells[row][column].ratio(t.cells[row][other])
}

// columns returns the names of the servers in the table.
func (t *table) columns() []string {
	all := map[string]bool{}
	for _, row := range t.cells {
		for column := range row {
			all[column] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}
