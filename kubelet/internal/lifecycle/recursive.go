package lifecycle

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// RecursiveReadOnly reports whether a volume mount makes the mounts below the volume read-only too, on
// a runtime that does or does not support that. Errors have the text of the Kubernetes kubelet.
func RecursiveReadOnly(m *corev1.VolumeMount, supported bool) (bool, error) {
	switch mode := m.RecursiveReadOnly; {
	case mode == nil || *mode == corev1.RecursiveReadOnlyDisabled:
		return false, nil
	case !m.ReadOnly:
		return false, fmt.Errorf("volume %q requested recursive read-only mode, but it is not read-only", m.Name)
	case m.MountPropagation != nil && *m.MountPropagation != corev1.MountPropagationNone:
		return false, fmt.Errorf("volume %q requested recursive read-only mode, but it is not compatible with propagation %q",
			m.Name, *m.MountPropagation)
	case *mode == corev1.RecursiveReadOnlyIfPossible:
		return supported, nil
	case *mode != corev1.RecursiveReadOnlyEnabled:
		return false, fmt.Errorf("unknown recursive read-only mode %q", *mode)
	case !supported:
		return false, fmt.Errorf("volume %q requested recursive read-only mode, but it is not supported by the runtime", m.Name)
	}
	return true, nil
}
