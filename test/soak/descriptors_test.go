package main

import (
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestLimitLeaving(t *testing.T) {
	for name, test := range map[string]struct {
		open []int
		want int
	}{
		"nothing is open":           {nil, 4},
		"no gaps":                   {[]int{2, 0, 1}, 7},
		"a gap":                     {[]int{0, 1, 5}, 7},
		"the free ones are in gaps": {[]int{4, 5}, 4},
		"gaps below and above":      {[]int{0, 2, 4, 5, 6, 90}, 9},
	} {
		testutil.Equal(t, limitLeaving(4, test.open), test.want, "%s", name)
	}
}
