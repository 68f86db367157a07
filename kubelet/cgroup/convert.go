package cgroup

import (
	"math"
	"strconv"
)

const (
	// Period is over what time a quota counts, in microseconds.
	Period = 100_000
	// minQuota is the smallest quota that the kernel takes, in microseconds.
	minQuota = 1000

	minShares, maxShares = 2, 262144
	maxWeight            = 10000
)

// Unlimited is no limit for memory in bytes, where -1 cannot be said: the most that the kernel can count, in whole pages.
const Unlimited = math.MaxInt64 &^ (4<<10 - 1)

// Limited is a limit for memory that is in force, 0 where it is none.
func Limited(memory int64) int64 {
	if memory < 0 || memory >= math.MaxInt64&^(1<<20-1) { // with pages of any size
		return 0
	}
	return memory
}

// Shares are the shares of processor time for that many thousandths of a processor: 1024 for one.
func Shares(milli int64) int64 {
	return min(max(min(milli, maxShares)*1024/1000, minShares), maxShares)
}

// Quota is the processor time in microseconds per Period for that many thousandths of a processor; 0, no limit, for 0.
func Quota(milli int64) int64 {
	if milli <= 0 {
		return 0
	}
	return max(milli*Period/1000, minQuota)
}

// MilliOfShares are the fewest thousandths of a processor that have those Shares; 0 for the smallest.
func MilliOfShares(shares int64) int64 {
	if shares <= minShares {
		return 0
	}
	return (shares*1000 + 1023) / 1024
}

// QuotaPer is a quota per period as one per Period; 0, no limit, for one that is not positive. A period of 0 is Period.
func QuotaPer(quota, period int64) int64 {
	if quota <= 0 {
		return 0
	}
	if period <= 0 {
		return quota
	}
	return quota * Period / period
}

// MilliOfQuota are the thousandths of a processor that have that Quota.
func MilliOfQuota(quota int64) int64 { return quota * 1000 / Period }

// weight is what cgroup v2 has in place of shares, as KEP-2254 converts them: 2…262144 becomes 1…10000.
func weight(shares int64) int64 {
	shares = min(max(shares, minShares), maxShares)
	return 1 + (shares-minShares)*(maxWeight-1)/(maxShares-minShares)
}

// PageSize is a page size in bytes as cgroup files and the CRI have it: 2MB, 1GB.
func PageSize(bytes int64) string {
	unit := 0
	for units := "KMG"; unit < len(units) && bytes >= 1<<10 && bytes%(1<<10) == 0; unit++ {
		bytes >>= 10
	}
	return strconv.FormatInt(bytes, 10) + [...]string{"B", "KB", "MB", "GB"}[unit]
}
