// Package cri connects the kubelet core to a CRI runtime and reads it: which pods of ours there are, and what each
// looks like. Writing is done by package container with the same connection.
package cri
