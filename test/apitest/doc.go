// Package apitest is an API server in memory, for what reads one: it lists and watches pods, config maps and secrets with
// field selectors and resource versions, forgets old versions, breaks watches off, and fails as told. It stores what it
// is given; nothing is defaulted, validated or authorised.
package apitest
