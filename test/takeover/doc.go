// Package takeover moves a node with a kubelet from the real cri-dockerd to criadapter and back while its pods run. It
// compares the pods before and after. The command test/takeover/run builds the programs and runs the tests.
package takeover
