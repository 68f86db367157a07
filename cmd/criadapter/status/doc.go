// Package status is how a running criadapter fares: the Report that it gives, as a part of CRI's verbose Status so that
// its socket stays the only door, and Ask, which fetches and writes it for a person.
package status
