package lifecycle_test

import (
	"fmt"
	"testing"

	"github.com/planekit/planekit/kubelet/internal/lifecycle"
	corev1 "k8s.io/api/core/v1"
)

func TestRecursiveReadOnly(t *testing.T) {
	const (
		disabled, ifPossible, enabled = corev1.RecursiveReadOnlyDisabled, corev1.RecursiveReadOnlyIfPossible, corev1.RecursiveReadOnlyEnabled
		none, toContainer             = corev1.MountPropagationNone, corev1.MountPropagationHostToContainer
	)
	for what, test := range map[string]struct {
		mode        corev1.RecursiveReadOnlyMode
		writable    bool
		propagation corev1.MountPropagationMode
		with        string // with and without the runtime's support
		without     string
	}{
		"no mode":       {"", false, none, "false <nil>", "false <nil>"},
		"disabled":      {disabled, false, none, "false <nil>", "false <nil>"},
		"if possible":   {ifPossible, false, none, "true <nil>", "false <nil>"},
		"enabled":       {enabled, false, none, "true <nil>", `false volume "data" requested recursive read-only mode, but it is not supported by the runtime`},
		"writable":      {ifPossible, true, none, `false volume "data" requested recursive read-only mode, but it is not read-only`, `false volume "data" requested recursive read-only mode, but it is not read-only`},
		"propagation":   {enabled, false, toContainer, `false volume "data" requested recursive read-only mode, but it is not compatible with propagation "HostToContainer"`, `false volume "data" requested recursive read-only mode, but it is not compatible with propagation "HostToContainer"`},
		"unknown modes": {"Sometimes", false, none, `false unknown recursive read-only mode "Sometimes"`, `false unknown recursive read-only mode "Sometimes"`},
	} {
		m := &corev1.VolumeMount{Name: "data", ReadOnly: !test.writable, MountPropagation: &test.propagation, RecursiveReadOnly: &test.mode}
		if test.mode == "" {
			m.RecursiveReadOnly = nil
		}
		if got := fmt.Sprint(lifecycle.RecursiveReadOnly(m, true)); got != test.with {
			t.Errorf("%s, supported: %s", what, got)
		}
		if got := fmt.Sprint(lifecycle.RecursiveReadOnly(m, false)); got != test.without {
			t.Errorf("%s, not supported: %s", what, got)
		}
	}
}
