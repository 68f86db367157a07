package cgroup

import (
	"math"
	"strconv"
)

const (
	// Period is the period of a CPU quota, in microseconds.
	Period = 100_000
	// minQuota is the smallest quota that the kernel accepts, in microseconds.
	minQuota = 1000

	minShares, maxShares = 2, 262144
	maxWeight            = 10000
)

// Unlimited stands for no memory limit where -1 is not possible. It is the kernel's maximum in bytes, rounded down to
// whole pages.
const Unlimited = math.MaxInt64 &^ (4<<10 - 1)

// Limited is a memory limit in bytes, 0 if the value means no limit.
func Limited(memory int64) int64 {
	if memory < 0 || memory >= math.MaxInt64&^(1<<20-1) { // the kernel's maximum, rounded down to pages of up to 1 MiB
		return 0
	}
	return memory
}

// Shares converts millicores to CPU shares: 1024 for one CPU.
func Shares(milli int64) int64 {
	return min(max(min(milli, maxShares)*1024/1000, minShares), maxShares)
}

// Quota converts millicores to a quota in microseconds per Period. 0 means no limit.
func Quota(milli int64) int64 {
	if milli <= 0 {
		return 0
	}
	return max(milli*Period/1000, minQuota)
}

// MilliOfShares returns the fewest millicores that Shares converts to these shares. It returns 0 for the smallest
// shares.
func MilliOfShares(shares int64) int64 {
	if shares <= minShares {
		return 0
	}
	return (shares*1000 + 1023) / 1024
}

// QuotaPer converts a quota for the given period to a quota for Period. A quota that is not positive becomes 0, no
// limit. A period of 0 means Period.
func QuotaPer(quota, period int64) int64 {
	if quota <= 0 {
		return 0
	}
	if period <= 0 {
		return quota
	}
	return quota * Period / period
}

// MilliOfQuota converts a Quota to millicores.
func MilliOfQuota(quota int64) int64 { return quota * 1000 / Period }

// weight converts shares to the weight of cgroup v2 (KEP-2254): 2…262144 becomes 1…10000.
func weight(shares int64) int64 {
	shares = min(max(shares, minShares), maxShares)
	return 1 + (shares-minShares)*(maxWeight-1)/(maxShares-minShares)
}

// PageSize formats a page size as cgroup files and the CRI do: 2MB, 1GB.
func PageSize(bytes int64) string {
	unit := 0
	for units := "KMG"; unit < len(units) && bytes >= 1<<10 && bytes%(1<<10) == 0; unit++ {
		bytes >>= 10
	}
	return strconv.FormatInt(bytes, 10) + [...]string{"B", "KB", "MB", "GB"}[unit]
}
