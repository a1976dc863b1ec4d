// Package abilities holds what a container runtime says that it and its handlers support.
package abilities

import (
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Set holds the abilities of a runtime. The zero Set is of a runtime that says nothing, as one before
// containerd 2.0, and supports nothing that must be announced. Its methods are safe for concurrent use.
type Set struct {
	mu sync.Mutex
	// mu guards the fields below.
	learned  bool
	handlers []*runtimeapi.RuntimeHandler
	features *runtimeapi.RuntimeFeatures
}

// Learn replaces the abilities by those in a status of the runtime.
func (s *Set) Learn(status *runtimeapi.StatusResponse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.learned, s.handlers, s.features = true, status.GetRuntimeHandlers(), status.GetFeatures()
}

// handler returns the features of a handler, and whether the runtime has announced it.
func (s *Set) handler(name string) (*runtimeapi.RuntimeHandlerFeatures, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.handlers {
		if h.GetName() == name {
			return h.GetFeatures(), true
		}
	}
	return nil, false
}

// RecursiveReadOnlyMounts reports whether a handler supports them.
func (s *Set) RecursiveReadOnlyMounts(handler string) bool {
	features, _ := s.handler(handler)
	return features.GetRecursiveReadOnlyMounts()
}

// CheckUserNamespaces returns an error if a handler does not support user namespaces, with the
// message of the Kubernetes kubelet.
func (s *Set) CheckUserNamespaces(handler string) error {
	features, known := s.handler(handler)
	if features.GetUserNamespaces() {
		return nil
	}
	text := "can't set `spec.hostUsers: false`, runtime does not support user namespaces"
	if handler != "" {
		text = fmt.Sprintf("can't set `spec.hostUsers: false`, RuntimeClass handler %q does not support user namespaces", handler)
	}
	if !known && s.announces() {
		return fmt.Errorf("%s: the handler %q is not known", text, handler)
	}
	return fmt.Errorf("%s", text)
}

func (s *Set) announces() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.handlers) > 0
}

// SupplementalGroupsPolicy reports whether the runtime can run containers without the groups that
// their image has for the user.
func (s *Set) SupplementalGroupsPolicy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.features.GetSupplementalGroupsPolicy()
}

// Report sets the fields of a Node's status about the runtime's abilities. It leaves them before the
// first status of the runtime, and the features of a runtime that announces none.
func (s *Set) Report(status *corev1.NodeStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.learned {
		return
	}
	status.RuntimeHandlers = nil
	for _, h := range s.handlers {
		recursive, users := h.GetFeatures().GetRecursiveReadOnlyMounts(), h.GetFeatures().GetUserNamespaces()
		status.RuntimeHandlers = append(status.RuntimeHandlers, corev1.NodeRuntimeHandler{
			Name: h.GetName(), Features: &corev1.NodeRuntimeHandlerFeatures{RecursiveReadOnlyMounts: &recursive, UserNamespaces: &users},
		})
	}
	if s.features != nil {
		groups := s.features.GetSupplementalGroupsPolicy()
		status.Features = &corev1.NodeFeatures{SupplementalGroupsPolicy: &groups}
	}
}
