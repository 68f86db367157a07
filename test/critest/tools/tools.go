//go:build tools

// Package tools pins crictl and critest for criadapter's tests. It is a module of its own, because they need some
// hundred modules in other versions than the main module. Package test/critest/build builds them from here.
package tools

import (
	// crictl, and the imports of critest, which is a test file and cannot be imported itself.
	_ "github.com/onsi/ginkgo/v2"
	_ "github.com/onsi/gomega"
	_ "sigs.k8s.io/cri-tools/cmd/crictl"
	_ "sigs.k8s.io/cri-tools/pkg/benchmark"
	_ "sigs.k8s.io/cri-tools/pkg/common"
	_ "sigs.k8s.io/cri-tools/pkg/framework"
	_ "sigs.k8s.io/cri-tools/pkg/validate"
	_ "sigs.k8s.io/cri-tools/pkg/version"
)
