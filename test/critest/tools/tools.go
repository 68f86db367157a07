//go:build tools

// Package tools pins crictl and critest, which criadapter is tested with, away from the main module: they come with
// some hundred modules in versions of their own. Package test/critest/build builds them from here.
package tools

import (
	// crictl, and what critest imports: that program itself is a test file and cannot be imported.
	_ "github.com/onsi/ginkgo/v2"
	_ "github.com/onsi/gomega"
	_ "sigs.k8s.io/cri-tools/cmd/crictl"
	_ "sigs.k8s.io/cri-tools/pkg/benchmark"
	_ "sigs.k8s.io/cri-tools/pkg/common"
	_ "sigs.k8s.io/cri-tools/pkg/framework"
	_ "sigs.k8s.io/cri-tools/pkg/validate"
	_ "sigs.k8s.io/cri-tools/pkg/version"
)
