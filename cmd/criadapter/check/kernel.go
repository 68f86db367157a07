package check

import "fmt"

// The two numbers of OldestKernel.
const oldestMajor, oldestMinor = 4, 19

// OldestKernel is the oldest release of Linux that is supported. An older kernel may work but is not supported.
func OldestKernel() string { return fmt.Sprintf("%d.%d", oldestMajor, oldestMinor) }

// SupportedKernel says whether a kernel's release, such as 5.10.0-13-amd64, is OldestKernel or newer.
func SupportedKernel(release string) bool { return atLeast(release, oldestMajor, oldestMinor) }
