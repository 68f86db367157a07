package model

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestHasCriticalPriority(t *testing.T) {
	for _, test := range []struct {
		class    string
		priority *int32
		want     bool
	}{
		{"", nil, false}, {"high", nil, false}, {"system-node-critical", nil, true},
		{"system-cluster-critical", nil, true},
		{"high", new(int32(2_000_001_000)), true}, {"system-node-critical", new(int32(7)), false},
	} {
		pod := &v1.Pod{Spec: v1.PodSpec{PriorityClassName: test.class, Priority: test.priority}}
		testutil.Equal(t, HasCriticalPriority(pod), test.want, "%+v", test)
	}
}

func TestIsCritical(t *testing.T) {
	for _, test := range []struct {
		annotations map[string]string
		priority    *int32
		want        bool
	}{
		{nil, nil, false},
		{nil, new(int32(1_999_999_999)), false},
		{nil, new(int32(2_000_000_000)), true},
		{map[string]string{AnnotationConfigMirror: "x"}, nil, true},
		{map[string]string{AnnotationConfigSource: SourceFile}, nil, true},
		{map[string]string{AnnotationConfigSource: SourceAPI}, nil, false},
	} {
		pod := &v1.Pod{}
		pod.Annotations, pod.Spec.Priority = test.annotations, test.priority
		testutil.Equal(t, IsCritical(pod), test.want, "%+v", test)
	}
}
