package probe

import corev1 "k8s.io/api/core/v1"

// streak counts equal results in a row.
type streak struct {
	healthy bool
	length  int32
}

// add counts a result. It reports whether the results in a row have reached their threshold, so
// that healthy is the container's state.
func (s *streak) add(healthy bool, spec *corev1.Probe) bool {
	if s.healthy != healthy {
		s.healthy, s.length = healthy, 0
	}
	s.length++
	threshold := orDefault(spec.FailureThreshold, 3)
	if healthy {
		threshold = orDefault(spec.SuccessThreshold, 1)
	}
	return s.length >= threshold
}

// orDefault returns n, or the API's default if it is missing.
func orDefault(n, fallback int32) int32 {
	if n <= 0 {
		return fallback
	}
	return n
}
