// Package model is the vocabulary of the kubelet core: labels and names by which pods are recognised in the runtime, how
// the containers of a pod are told apart, and PodStatus, what the runtime says of one pod. It holds no state and asks
// nobody.
package model
