// Package config says which pods this node is to run. Sources (a manifest folder; more can be added) each tell their
// whole set of pods, Mux turns that into changes for the sync loop, and a checkpoint file brings the pods back that were
// accepted before a restart, until their source has spoken.
package config
