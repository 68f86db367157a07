// Package bundle collects the data for a bug report into one archive without secrets. It collects only data that should
// have no secrets, and still filters every byte.
package bundle
