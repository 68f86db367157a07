// Package bundle collects what a report of a bug needs into one archive, without secrets: it takes only what is known to
// hold none, and passes every byte through a filter all the same.
package bundle
