package schedule

import "slices"

// classOf returns the class of a pod that err refuses, or "" if the pod must be tried itself.
func (s *State) classOf(err *FitError) string {
	if _, nominated := s.nominees[err.Pod]; nominated || !s.alike(err) {
		return ""
	}
	key, ok := err.pod.classKey()
	if !ok {
		return ""
	}
	return string(key[:])
}

// alike reports whether err holds for all pods of the class of its pod.
func (s *State) alike(err *FitError) bool {
	return !err.afterwards && err.extended == nil && !slices.ContainsFunc(err.by, func(i int) bool {
		return !forClass(s.profileOf(err.pod).Predicates[i], err.pod)
	})
}

// errorFor returns a copy of err for another pod of the class.
func (s *State) errorFor(err *FitError, p *PodInfo) *FitError {
	one := *err
	one.Pod, one.pod, one.local, one.by = p.Key, p, s.compile(p), slices.Clone(err.by)
	return &one
}

// sameReasons reports whether two errors name the same reasons, for any number of nodes.
func sameReasons(a, b *FitError) bool {
	if a == nil || b == nil || a.Whole != b.Whole || len(a.Reasons) != len(b.Reasons) {
		return false
	}
	for reason := range a.Reasons {
		if _, ok := b.Reasons[reason]; !ok {
			return false
		}
	}
	return true
}
