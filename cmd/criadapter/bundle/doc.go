// Package bundle collects the data for a bug report into one archive without secrets. It only collects data that should
// have none, and still filters every byte.
package bundle
