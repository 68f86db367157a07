// Package takeover moves a node from the real cri-dockerd to criadapter and back while its pods run, with a kubelet on
// it, and compares what was before with what is after. Package test/takeover/run builds the programs and runs it.
package takeover
