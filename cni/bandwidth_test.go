package cni

import (
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestParseBandwidth(t *testing.T) {
	tests := []struct {
		text string
		want uint64 // 0: refused
	}{
		{"1000", 1000}, {"1k", 1000}, {"10M", 10_000_000}, {"1G", 1e9}, {"1T", 1e12}, {"1P", 1e15},
		{"1Ki", 1024}, {"1Mi", 1 << 20}, {"1Gi", 1 << 30}, {"1Ti", 1 << 40},
		{"1e3", 1000}, {"1E3", 1000}, {"5e+6", 5_000_000}, {"1000000e-3", 1000},
		{"1.5M", 1_500_000}, {".5M", 500_000}, {"1.M", 1_000_000}, {"+2k", 2000},
		{"1000000m", 1000}, {"1000000000u", 1000}, {"1000000000000n", 1000},
		{"1000.1", 1001}, {"1000000001u", 1001}, {"0.000001P", 1e9},
		{"0000000000000000000000000000001k", 1000},
		{"", 0}, {" ", 0}, {"M", 0}, {".", 0}, {"+", 0}, {"-", 0}, {"1..0k", 0}, {"1.0.0k", 0}, {"--2k", 0},
		{"+-2k", 0},
		{"999", 0}, {"0", 0}, {"-1M", 0}, {"1001T", 0}, {"1Pi", 0}, {"1E", 0}, {"1Ei", 0}, {"999.999", 0},
		{"10 M", 0}, {" 10M", 0}, {"10M ", 0}, {"10K", 0}, {"10ki", 0}, {"10Mb", 0}, {"10mi", 0}, {"10i", 0},
		{"1e", 0}, {"1e3k", 0}, {"1e3.5", 0}, {"1e999999999999999999999", 0}, {"1e101", 0}, {"1e-101", 0},
		{"0x10k", 0}, {"1_000", 0}, {"1/2k", 0}, {"Inf", 0}, {"NaN", 0}, {"１k", 0},
		{"1000000000000000000000000000000000000000000000000000000000000000000", 0},
	}
	for _, test := range tests {
		t.Run(test.text, func(t *testing.T) {
			got, err := parseBandwidth(test.text)
			testutil.Assert(t, (err == nil) == (test.want != 0) && got == test.want,
				"got %d, %v; want %d", got, err, test.want)
		})
	}
}

func FuzzParseBandwidth(f *testing.F) {
	for _, seed := range []string{"10M", "1.5Gi", "1e3", "1000m", "-1k", "", "1e-100", ".5M", "+2k",
		"9999999999999999999E"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		rate, err := parseBandwidth(text)
		if err != nil {
			testutil.Assert(t, rate == 0, "%q: a rate of %d beside the error %v", text, rate, err)
			return
		}
		testutil.Assert(t, rate >= minBandwidth && rate <= maxBandwidth, "%q: %d is out of range", text, rate)
		// The rate is rounded up. So the same number with a "k" gives at most a thousand times the rate.
		if number, suffix := splitQuantity(text); suffix == "" && rate <= maxBandwidth/1000 {
			thousand, err := parseBandwidth(number + "k")
			testutil.Assert(t, err == nil && thousand <= rate*1000 && thousand+1000 > rate*1000,
				"%q is %d, with k it is %d, %v", text, rate, thousand, err)
		}
	})
}
