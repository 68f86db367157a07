package cni

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// Annotations that limit a pod's traffic, in bits per second, written as a Kubernetes quantity ("10M").
const (
	ingressBandwidth = "kubernetes.io/ingress-bandwidth"
	egressBandwidth  = "kubernetes.io/egress-bandwidth"
)

// Limits that Kubernetes sets for the two annotations, in bits per second.
const (
	minBandwidth = 1_000
	maxBandwidth = 1_000_000_000_000_000
)

// unlimitedBurst is a burst without a limit, in bits. The bandwidth plugin demands a burst beside each rate, and
// Kubernetes has no annotation for the burst.
const unlimitedBurst = math.MaxInt32

// bandwidthArg is the value of the capability "bandwidth", all in bits or bits per second.
type bandwidthArg struct {
	IngressRate  uint64 `json:"ingressRate,omitempty"`
	IngressBurst uint64 `json:"ingressBurst,omitempty"`
	EgressRate   uint64 `json:"egressRate,omitempty"`
	EgressBurst  uint64 `json:"egressBurst,omitempty"`
}

// bandwidthArgs reads the two annotations. It returns nil without them.
func bandwidthArgs(annotations map[string]string) (*bandwidthArg, error) {
	ingress, err := bandwidthOf(annotations, ingressBandwidth)
	if err != nil {
		return nil, err
	}
	egress, err := bandwidthOf(annotations, egressBandwidth)
	if err != nil {
		return nil, err
	}
	if ingress == 0 && egress == 0 {
		return nil, nil
	}
	arg := &bandwidthArg{IngressRate: ingress, EgressRate: egress}
	if ingress > 0 {
		arg.IngressBurst = unlimitedBurst
	}
	if egress > 0 {
		arg.EgressBurst = unlimitedBurst
	}
	return arg, nil
}

func bandwidthOf(annotations map[string]string, key string) (uint64, error) {
	text, ok := annotations[key]
	if !ok {
		return 0, nil
	}
	rate, err := parseBandwidth(text)
	if err != nil {
		return 0, invalid(fmt.Sprintf("pod.annotations[%q]", key), "%q: %v", text, err)
	}
	return rate, nil
}

// parseBandwidth reads a Kubernetes quantity as bits per second, rounded up to a whole number, from 1k to 1P. The
// grammar is from apimachinery's package resource. A decimal number is followed by an exponent (e or E and a
// signed integer) or a suffix: Ki to Ei, n, u, m, k, M, G, T, P, E.
func parseBandwidth(s string) (uint64, error) {
	number, suffix := splitQuantity(s)
	value, err := parseDecimal(number)
	if err != nil {
		return 0, err
	}
	factor, err := parseSuffix(suffix)
	if err != nil {
		return 0, err
	}
	value.Mul(value, factor)
	if value.Cmp(big.NewRat(minBandwidth, 1)) < 0 || value.Cmp(big.NewRat(maxBandwidth, 1)) > 0 {
		return 0, fmt.Errorf("must be from 1k to 1P bits per second")
	}
	whole, rest := new(big.Int).QuoRem(value.Num(), value.Denom(), new(big.Int))
	if rest.Sign() != 0 {
		whole.Add(whole, big.NewInt(1))
	}
	return whole.Uint64(), nil
}

// splitQuantity cuts after the leading sign, digits and point.
func splitQuantity(s string) (number, suffix string) {
	end := 0
	for end < len(s) && (isDigit(s[end]) || s[end] == '.' || (end == 0 && (s[0] == '+' || s[0] == '-'))) {
		end++
	}
	return s[:end], s[end:]
}

// maxDigits bounds the work on a number, which the author of a pod chooses.
const maxDigits = 64

func parseDecimal(s string) (*big.Rat, error) {
	if len(s) > maxDigits {
		return nil, fmt.Errorf("number has more than %d characters", maxDigits)
	}
	digits := strings.TrimLeft(s, "+-")
	if strings.Trim(digits, ".") == "" || strings.Count(digits, ".") > 1 {
		return nil, fmt.Errorf("want a number with a suffix such as 10M")
	}
	value, ok := new(big.Rat).SetString(s)
	if !ok {
		return nil, fmt.Errorf("want a number with a suffix such as 10M")
	}
	return value, nil
}

// maxExponent is larger than the exponent of any permitted quantity with maxDigits digits.
const maxExponent = 100

// The exponents of 10 and of 2 that suffixes stand for.
var (
	decimalSuffixes = map[string]int{
		"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
	}
	binarySuffixes = map[string]uint{"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
)

func parseSuffix(s string) (*big.Rat, error) {
	if exponent, ok := decimalSuffixes[s]; ok {
		return decimalPower(exponent), nil
	}
	if exponent, ok := binarySuffixes[s]; ok {
		return new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), exponent)), nil
	}
	if s[0] != 'e' && s[0] != 'E' {
		return nil, fmt.Errorf("unknown suffix %q", s)
	}
	exponent, err := strconv.Atoi(s[1:])
	if err != nil || exponent < -maxExponent || exponent > maxExponent {
		return nil, fmt.Errorf("bad exponent %q", s)
	}
	return decimalPower(exponent), nil
}

func decimalPower(exponent int) *big.Rat {
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(exponent, -exponent))), nil)
	if exponent < 0 {
		return new(big.Rat).SetFrac(big.NewInt(1), power)
	}
	return new(big.Rat).SetInt(power)
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
